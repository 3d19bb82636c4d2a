"""The analyst's session with a FLARE server, as a process of its own: `python -m
fedwad.engines.flare.admin`.

A session of FLARE keeps threads that reconnect for minutes after a server is gone, and prints as it
likes. In its own process it can be ended at any time. The order comes as one line of JSON on
standard input; what happens goes out as lines of JSON on standard output: {"line": ...} for
progress, and at the end {"outcome": ...} or {"failed": ...}. When standard input closes, by a wish
or because the process at the other end is gone, the job is aborted.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedwad.engines.flare._folder import write_folder
from fedwad.engines.flare._names import COLLECT, OUTCOME
from fedwad.engines.job import Job

__all__ = ["main"]

_CONNECT, _POLL, _AWAY = (
    15.0,
    0.3,
    20.0,
)  # seconds to log in, between two questions, and that a server may be away


class _FailedError(Exception):
    """The run cannot go on; the argument is the sentence for the analyst."""


class AdminSession:
    """One job from submission to outcome, in the words of the order that
    `fedwad.engines.flare.submit` writes."""

    def __init__(self, order: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        self._kit, self._user, self._address = order["kit"], order["user"], order["address"]
        self._job = Job.from_json(order["job"]) if "job" in order else None
        self._settings = order.get("settings", {})
        self._say, self._id = say, ""
        self._session: Any = None
        self.stopped = threading.Event()

    def run(self) -> dict[str, Any]:
        """{"outcome": ...} of the job, or without a job {"sites": ...}."""
        self._session = self._log_in()
        connected = sorted(client.name for client in self._session.get_connected_client_list())
        if self._job is None:
            return {"sites": connected}
        try:
            self._submit(self._job, _chosen(self._job.clients, connected))
            return {"outcome": self._follow()}
        except BaseException:
            self._abort()
            raise

    def _log_in(self) -> Any:
        from nvflare.fuel.flare_api import api_spec
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        try:
            return new_secure_session(
                self._user, self._kit, timeout=_CONNECT, auto_login_max_tries=1
            )
        except (api_spec.AuthenticationError, api_spec.AuthorizationError):
            raise _FailedError(
                f"The FLARE server at {self._address} does not admit '{self._user}'; ask its operator."
            ) from None
        except Exception:  # FLARE has no one error for certificates that do not fit
            raise _FailedError(
                f"The FLARE server at {self._address} cannot be reached as '{self._user}'; see whether it runs, and"
                " whether its certificate and this one come from the same provisioning."
            ) from None

    def _submit(self, job: Job, names: list[str]) -> None:
        from nvflare.fuel.flare_api import api_spec

        with tempfile.TemporaryDirectory(prefix="fedwad-flare-") as folder:
            written = write_folder(
                Path(folder) / f"fedwad-{job.algorithm}", job, names, **self._settings
            )
            try:
                self._id = self._session.submit_job(str(written))
            except (api_spec.AuthorizationError, api_spec.InvalidJobDefinition) as error:
                raise _FailedError(
                    f"The FLARE server does not take the job ({error}); ask its operator."
                ) from None
        self._say({"line": f"job {self._id} submitted for {', '.join(names)}"})

    def _follow(self) -> dict[str, Any]:
        """Ask for progress until there is an outcome."""
        seen, heard = 0, time.monotonic()
        while not self.stopped.wait(_POLL):
            try:
                shown = self._ask({"seen": seen})
            except ConnectionError:
                if time.monotonic() - heard < _AWAY:
                    continue
                raise _FailedError(
                    f"The FLARE server at {self._address} stopped answering; start the job again when it is back."
                ) from None
            heard = time.monotonic()
            for line in shown.get("lines", ()):
                self._say({"line": line})
            seen += len(shown.get("lines", ()))
            outcome: dict[str, Any] | None = shown.get("outcome")
            if outcome is not None:
                self._close(shown)
                return outcome
        raise _FailedError("The run was stopped.")

    def _ask(self, what: dict[str, Any]) -> dict[str, Any]:
        """What the server's process of the job shows, nothing while it starts; ConnectionError with
        no server."""
        from nvflare.fuel.flare_api import api_spec

        try:
            try:
                return dict(self._session.do_app_command(self._id, COLLECT, what))
            except api_spec.JobNotRunning:
                return self._fetched()
        except (
            api_spec.NoReply,
            api_spec.InternalError,
        ):  # the process is there but does not listen yet
            return {}
        except api_spec.AuthorizationError:
            raise _FailedError(
                f"The FLARE server does not let '{self._user}' follow the job; its operator adds"
                ' "app_command": "n:submitter" for that role to local/authorization.json.'
            ) from None
        except (
            api_spec.SessionClosed,
            api_spec.SessionExpired,
            api_spec.AuthenticationError,
            api_spec.JobNotFound,
        ):
            raise _FailedError(
                "The FLARE server was started anew and has forgotten the run; start it again."
            ) from None
        except (api_spec.NoConnection, RuntimeError, OSError):
            raise ConnectionError from None

    def _fetched(self) -> dict[str, Any]:
        """Of a job that does not run: nothing before it started, and what it left after it
        ended."""
        meta = self._session.get_job_meta(self._id)
        status = str(meta.get("status"))
        if not status.startswith("FINISHED"):
            return {}
        with tempfile.TemporaryDirectory(prefix="fedwad-flare-") as folder, suppress(Exception):
            place = Path(self._session.download_job_result(self._id, folder))
            return {"outcome": json.loads(next(place.rglob(OUTCOME)).read_text(encoding="utf-8"))}
        refused = [
            word for word in meta.get("job_deploy_detail") or () if not str(word).endswith(": OK")
        ]
        reasons = f" ({'; '.join(map(str, refused))})" if refused else ""
        raise _FailedError(
            f"FLARE ended the job with {status}{reasons}; the logs of the server and the sites say why."
        )

    def _close(self, shown: dict[str, Any]) -> None:
        """Let the job end. One that lost a site is aborted: FLARE would wait minutes for the site's
        farewell."""
        with suppress(Exception):
            self._session.do_app_command(self._id, COLLECT, {"collected": True})
        if shown.get("lost"):
            self._abort()

    def _abort(self) -> None:
        if self._id:
            with suppress(Exception):
                self._session.abort_job(self._id)


def _chosen(wanted: Sequence[str], connected: list[str]) -> list[str]:
    """The sites that are wanted, or all; each must be connected."""
    missing = [name for name in wanted if name not in connected]
    if missing or not connected:
        there = f"connected are {', '.join(connected)}" if connected else "no site is connected"
        raise _FailedError(
            f"There is no site {', '.join(missing) or 'to ask'}: {there}; start its node."
        )
    return list(wanted) or connected


def main() -> None:
    """Carry out the order on standard input."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what FLARE prints goes to standard error

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    admin = AdminSession(json.loads(sys.stdin.readline()), say)

    def watch() -> None:
        sys.stdin.read()
        admin.stopped.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        say(admin.run())
    except _FailedError as failure:
        say({"failed": str(failure)})
    except Exception as error:
        say({"failed": f"FLARE's session failed with {type(error).__name__}: {error}."})
    finally:
        with suppress(Exception):
            out.flush()
        os._exit(0)  # FLARE's threads would go on trying to reconnect


if __name__ == "__main__":
    main()
