"""Flower's own command line, used from a folder of its own: start a run, follow its log, ask how it
stands, stop it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, cast

from fedwad.engines.flower._ports import host_and_port, obstacle
from fedwad.errors import FederationError, InputError

__all__ = ["QUIET", "Control", "environment", "need_flower"]

#: Neither telemetry nor downloads, by Flower or by Ray.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_COMMAND = 60.0  # seconds that one command of `flwr` may take
_LOOK = 0.5
_LINK = "fedwad"
_ALWAYS = r"Using SuperLink|For more information|\W*(Displaying|Listing|Stopping)"


def need_flower(*modules: str) -> None:
    """FederationError unless Flower is installed, and these modules with it."""
    if any(find_spec(module) is None for module in ("flwr", *modules)):
        raise FederationError("Flower is not installed; run: pip install 'fedwad[flower]'.")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Variables for Flower's processes: quiet, offline, with a home of their own, and this Python's
    commands first."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", os.defpath)])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path, **more}


class Control:
    """One SuperLink's control, by way of the `flwr` command."""

    def __init__(
        self,
        folder: Path,
        connect: str,
        root_certificates: str | Path | None,
        insecure: bool = False,
    ) -> None:
        host_and_port(connect)
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
        lines = [
            f"[superlink.{_LINK}]",
            *(f"{key} = {json.dumps(value)}" for key, value in link.items()),
        ]
        (self._home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def start(self, app: Path, options: Sequence[str] = ()) -> str:
        """Start a run of this app; its number."""
        process = self._begin("run", str(app), _LINK, "--format", "json", *options)
        try:
            return self._started(process, _COMMAND)
        except (
            KeyboardInterrupt
        ):  # the run may already have begun: let it, so that it can be stopped
            with suppress(FederationError):
                self.stop(self._started(process, _COMMAND))
            raise

    def _started(self, process: subprocess.Popen[str], seconds: float) -> str:
        run = self._answer(process, seconds).get("run-id")
        if not isinstance(run, str):
            raise FederationError(
                f"The SuperLink at {self.address} did not start the run; its log says why."
            )
        return run

    def register(self, public_key: Path, name: str) -> None:
        """Tell the SuperLink a node's key and name."""
        process = self._begin(
            "supernode", "register", str(public_key), _LINK, "--name", name, "--format", "json"
        )
        self._answer(process, _COMMAND)

    def status(self, run: str) -> str:
        """Status of a run, such as "running" or "finished:failed"."""
        process = self._begin("list", _LINK, "--run-id", run, "--format", "json")
        answer = self._answer(process, _COMMAND)
        try:
            return str(answer["runs"][0]["status"])
        except (KeyError, IndexError, TypeError):
            raise FederationError(
                f"The SuperLink at {self.address} knows nothing of run {run}."
            ) from None

    def stop(self, run: str) -> None:
        """Stop a run, if it can still be reached."""
        process = self._begin("stop", run, _LINK, "--format", "json")
        with suppress(FederationError):
            self._answer(process, _COMMAND / 2)

    def log(self, run: str, deadline: float) -> Generator[str, None, None]:
        """Lines of a run's log from its beginning, as they come, until it ends; TimeoutError at the
        deadline."""
        process = self._begin("log", run, _LINK, "--stream")
        stream = cast("IO[str]", process.stdout)
        queue: SimpleQueue[str | None] = SimpleQueue()

        def pump() -> None:
            for line in stream:
                queue.put(line)
            queue.put(None)

        thread = Thread(target=pump, daemon=True)
        thread.start()
        try:
            while time.monotonic() < deadline:
                try:
                    line = queue.get(timeout=_LOOK)  # not longer, for Ctrl-C to get in between
                except Empty:
                    continue
                if line is None:
                    return
                yield line
            raise TimeoutError
        finally:
            process.kill()
            process.wait()
            thread.join()
            stream.close()

    def _begin(self, *words: str) -> subprocess.Popen[str]:
        command = shutil.which("flwr", path=environment(self._home)["PATH"])
        if command is None:
            raise FederationError(
                "The flwr command was not found; run: pip install 'fedwad[flower]'."
            )
        return subprocess.Popen(  # noqa: S603 - words of our own, no shell
            [command, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if words[0] == "log" else subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment(self._home),
            cwd=self._home,
            start_new_session=True,  # Ctrl-C is ours to handle
        )

    def _answer(self, process: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise FederationError(
                f"The SuperLink at {self.address} gave no answer within {seconds:g} seconds."
            ) from None
        start = out.find("{")
        try:
            answer = json.loads(out[start:]) if start >= 0 else {}
        except ValueError:
            answer = {}
        if not answer.get("success"):
            reason = _said(str(answer.get("error-message") or err or out))
            if (
                "SuperLink is unavailable" in reason
            ):  # which is all that Flower says of a wrong certificate, too
                found = None if self._insecure else obstacle(self.address, self._root)
                reason = found or "it did not answer at first; ask once more."
            raise FederationError(f"The SuperLink at {self.address} cannot be used: {reason}")
        return answer


def _said(text: str) -> str:
    """What a command said, on one line, without colours, frames and the lines that it always
    says."""
    plain = re.sub(r"\x1b\[[0-9;]*m|[\u2500-\u257f]", "", text)
    told = [line for line in plain.splitlines() if not re.match(_ALWAYS, line.strip())]
    return " ".join(" ".join(told).split())[-300:] or "no reason was given."
