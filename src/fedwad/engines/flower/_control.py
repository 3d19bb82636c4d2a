"""Control a SuperLink with the `flwr` command, and say why this machine cannot connect to one."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedwad._files import to_toml
from fedwad.errors import FederationError, InputError

#: Environment variables that turn off the telemetry and the downloads of Flower and Ray.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_LINK = "fedwad"  # name of the SuperLink in the configuration of `flwr`
_BOILERPLATE = r"Using SuperLink|For more information|\W*(Displaying|Listing|Stopping)"


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
        self.address, self._insecure = connect, insecure
        self._root = certificate_path(root_certificates)
        self._home = folder / "home"
        self._home.mkdir()
        link: dict[str, str | bool] = {"address": connect}
        if insecure:
            link["insecure"] = True
        if self._root is not None:
            link["root-certificates"] = str(self._root)
        text = f"[superlink.{_LINK}]\n{to_toml(link)}"
        (self._home / "config.toml").write_text(text, encoding="utf-8")

    def start(self, app: Path, options: Sequence[str] = ()) -> str:
        """Start a run of this app and return the ID of the run."""
        process = self._start_flwr("run", str(app), _LINK, "--format", "json", *options)
        try:
            return str(self._await_output(process)["run-id"])
        except KeyboardInterrupt:  # the run may have started: find its ID to stop it
            with suppress(FederationError):
                self.stop(str(self._await_output(process)["run-id"]))
            raise

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
                f"The SuperLink at {self.address} has no record of run {run}; start it again.",
                "run-failed",
            ) from None

    def stop(self, run: str) -> None:
        """Stop a run, if the SuperLink can still be reached."""
        with suppress(FederationError):
            self.command("stop", run, _LINK)

    def log(self, run: str, deadline: float) -> Generator[str, None, None]:
        """Yield the lines of a run's log as they are written, from the first line to its end.

        Raises TimeoutError at the deadline.
        """
        from fedwad.engines._processes import read_lines

        process = self._start_flwr("log", run, _LINK, "--stream")
        try:
            yield from read_lines(process, deadline, process.kill)
        finally:
            process.kill()
            process.wait()

    def _start_flwr(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 - a fixed command, no shell
            [sys.executable, "-c", "from flwr.cli.app import app; app()", *arguments],
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
        self, process: subprocess.Popen[str], seconds: float = 60.0
    ) -> dict[str, Any]:
        """The JSON output of a command; raises FederationError unless it reports success."""
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise FederationError(
                f"The SuperLink at {self.address} did not answer within {seconds:g} seconds;"
                " try again.",
                "timed-out",
            ) from None
        try:
            output = dict(json.loads(out[out.index("{") :]))
        except ValueError:
            output = {}
        if output.get("success"):
            return output
        reason = _one_line(str(output.get("error-message") or err or out))
        if "SuperLink is unavailable" in reason:  # Flower says this about wrong certificates too
            problem = None if self._insecure else connection_problem(self.address, self._root)
            reason = problem or "it did not answer the first time; try again."
        raise FederationError(
            f"The SuperLink at {self.address} cannot be used: {reason}", "cannot-connect"
        )


def _one_line(text: str) -> str:
    """A command's message on one line, without colours, frames and boilerplate."""
    plain = re.sub(r"\x1b\[[0-9;]*m|[\u2500-\u257f]", "", text)
    lines = [line for line in plain.splitlines() if not re.match(_BOILERPLATE, line.strip())]
    return " ".join(" ".join(lines).split())[-300:] or "no reason was given."


def certificate_path(path: str | Path | None) -> Path | None:
    """The absolute path of a root certificate, if one is given; InputError without such a file."""
    if path is None:
        return None
    found = Path(path).expanduser().resolve()
    if not (found.is_file() and os.access(found, os.R_OK)):
        raise InputError(f"There is no root certificate at {path}; check the path.", "no-such-file")
    return found


def parse_address(address: str) -> tuple[str, int]:
    """Split an address into host and port; raises InputError unless it has both."""
    parts = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(\d{1,5})", address)
    if parts is None or not 0 < int(parts[2]) < 65536:
        raise InputError(
            f"The SuperLink's address is '{address}'; give host:port, such as"
            " superlink.example.org:8443.",
            "bad-option",
        )
    return parts[1].strip("[]"), int(parts[2])


def connection_problem(
    address: str, root_certificates: str | Path | None, timeout: float = 5.0
) -> str | None:
    """The reason why a TLS connection to a SuperLink fails; None if it does not fail.

    The reason is the end of a sentence in which "it" is the SuperLink.
    """
    host, port = parse_address(address)
    cafile = None if root_certificates is None else str(root_certificates)
    try:
        context = ssl.create_default_context(cafile=cafile)
    except (OSError, ssl.SSLError):
        return f"{root_certificates} holds no certificate; use the SuperLink's ca.crt."
    connected = False
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connected = True
            with context.wrap_socket(connection, server_hostname=host):
                return None
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in (9, 10, 62, 64):  # too early, expired, another host or address
            return f"its certificate cannot be used: {error.verify_message.rstrip('.')}."
        if cafile is None:
            return (
                "its certificate is signed by an unknown authority; give the SuperLink's ca.crt"
                " (root_certificates, --ca)."
            )
        name = Path(cafile).name
        return f"its certificate was not signed by {name}; use the ca.crt of this SuperLink."
    except (socket.gaierror, UnicodeError):  # the latter for names such as "a..b"
        return f"there is no machine called {host}; check the name."
    except ConnectionRefusedError:
        return "nothing listens at this port; check that it is running, and check host:port."
    except OSError as error:  # which errors of TLS are too
        if not connected:
            return "it does not answer; check that it is running and can be reached from here."
        reason = (
            "does not speak TLS" if isinstance(error, ssl.SSLError) else "closes the connection"
        )
        return f"it {reason}; check that this is the port of a SuperLink that has a certificate."
