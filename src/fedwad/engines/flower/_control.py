"""Control a SuperLink with the `flwr` command: start a run, follow its log, query and stop it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedwad._files import to_toml
from fedwad.engines._lines import read_lines
from fedwad.engines.flower._connection import connection_problem, parse_address
from fedwad.errors import FederationError, InputError

__all__ = ["QUIET", "Control", "environment", "need_flower"]

#: Environment variables that turn off the telemetry and the downloads of Flower and Ray.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_COMMAND_TIMEOUT = 60.0  # seconds for one `flwr` command
_LINK = "fedwad"  # name of the SuperLink in the configuration of `flwr`
_BOILERPLATE = r"Using SuperLink|For more information|\W*(Displaying|Listing|Stopping)"


def need_flower(*modules: str) -> None:
    """Raise FederationError unless Flower and these further modules are installed."""
    if any(find_spec(module) is None for module in ("flwr", *modules)):
        raise FederationError("Flower is not installed; run: pip install 'fedwad[flower]'.")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Environment variables for Flower's processes: quiet, offline, and with `home` as FLWR_HOME.

    The commands of this Python come first on the path.
    """
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", os.defpath)])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path, **more}


class Control:
    """Controls one SuperLink with the `flwr` command, whose configuration is in `folder`."""

    def __init__(
        self,
        folder: Path,
        connect: str,
        root_certificates: str | Path | None,
        insecure: bool = False,
    ) -> None:
        parse_address(connect)
        self.address = connect
        self._root, self._insecure = root_certificates, insecure
        self._home = folder / "home"
        self._home.mkdir()
        link: dict[str, str | bool] = {"address": connect}
        if insecure:
            link["insecure"] = True
        if root_certificates is not None:
            path = Path(root_certificates).expanduser().resolve()
            if not path.is_file():
                raise InputError(
                    f"There is no root certificate at {root_certificates}; check the path."
                )
            link["root-certificates"] = str(path)
            self._root = path
        text = f"[superlink.{_LINK}]\n{to_toml(link)}"
        (self._home / "config.toml").write_text(text, encoding="utf-8")

    def start(self, app: Path, options: Sequence[str] = ()) -> str:
        """Start a run of this app and return the ID of the run."""
        process = self._start_flwr("run", str(app), _LINK, "--format", "json", *options)
        try:
            return self._run_id(process)
        except KeyboardInterrupt:  # the run may have started: find its ID to stop it
            with suppress(FederationError):
                self.stop(self._run_id(process))
            raise

    def _run_id(self, process: subprocess.Popen[str]) -> str:
        run = self._await_output(process).get("run-id")
        if not isinstance(run, str):
            raise FederationError(
                f"The SuperLink at {self.address} did not start the run; see its log."
            )
        return run

    def command(self, *arguments: str) -> dict[str, Any]:
        """The JSON output of a `flwr` command; FederationError unless it reports success."""
        return self._await_output(self._start_flwr(*arguments, "--format", "json"))

    def status(self, run: str) -> str:
        """Status of a run, such as "running" or "finished:failed"."""
        output = self.command("list", _LINK, "--run-id", run)
        try:
            return str(output["runs"][0]["status"])
        except (KeyError, IndexError, TypeError):
            raise FederationError(
                f"The SuperLink at {self.address} has no record of run {run}; start it again."
            ) from None

    def stop(self, run: str) -> None:
        """Stop a run, if the SuperLink can still be reached."""
        process = self._start_flwr("stop", run, _LINK, "--format", "json")
        with suppress(FederationError):
            self._await_output(process, _COMMAND_TIMEOUT / 2)

    def log(self, run: str, deadline: float) -> Generator[str, None, None]:
        """Yield the lines of a run's log as they are written, from the first line to its end.

        Raises TimeoutError at the deadline.
        """
        process = self._start_flwr("log", run, _LINK, "--stream")
        try:
            yield from read_lines(process, deadline)
        finally:
            process.kill()
            process.wait()

    def _start_flwr(self, *arguments: str) -> subprocess.Popen[str]:
        command = shutil.which("flwr", path=environment(self._home)["PATH"])
        if command is None:
            raise FederationError(
                "The flwr command was not found; run: pip install 'fedwad[flower]'."
            )
        return subprocess.Popen(  # noqa: S603 - a fixed command, no shell
            [command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if arguments[0] == "log" else subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment(self._home),
            cwd=self._home,
            start_new_session=True,  # Ctrl-C reaches this process only
        )

    def _await_output(
        self, process: subprocess.Popen[str], seconds: float = _COMMAND_TIMEOUT
    ) -> dict[str, Any]:
        """The JSON output of a command; raises FederationError unless it reports success."""
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise FederationError(
                f"The SuperLink at {self.address} did not answer within {seconds:g} seconds;"
                " try again."
            ) from None
        output = _parse_json(out)
        if not output.get("success"):
            reason = self._failure_reason(str(output.get("error-message") or err or out))
            raise FederationError(f"The SuperLink at {self.address} cannot be used: {reason}")
        return output

    def _failure_reason(self, text: str) -> str:
        reason = _one_line(text)
        if "SuperLink is unavailable" not in reason:
            return reason
        # Flower says this about wrong certificates too.
        problem = None if self._insecure else connection_problem(self.address, self._root)
        return problem or "it did not answer the first time; try again."


def _parse_json(text: str) -> dict[str, Any]:
    """The JSON object that starts at the first brace of a command's output; empty without one."""
    try:
        return dict(json.loads(text[text.index("{") :]))
    except ValueError:
        return {}


def _one_line(text: str) -> str:
    """A command's message on one line, without colours, frames and boilerplate."""
    plain = re.sub(r"\x1b\[[0-9;]*m|[\u2500-\u257f]", "", text)
    lines = [line for line in plain.splitlines() if not re.match(_BOILERPLATE, line.strip())]
    return " ".join(" ".join(lines).split())[-300:] or "no reason was given."
