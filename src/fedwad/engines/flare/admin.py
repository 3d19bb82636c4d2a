"""The analyst's session with a FLARE server, as a process of its own.

`fedwad.engines.flare.submit` starts it as `python -m fedwad.engines.flare.admin`. A FLARE session
has threads that try to reconnect for minutes after a server is gone, and it prints to standard
output. A process of its own can be ended at any time.

The process reads its order as one line of JSON from standard input. "kit" is the folder of the
analyst's startup kit; "user" and "address" (of the server) are those in the kit. "job" is the job
to run, as the text that `Job.to_json` returns, and "settings" are further arguments of the
`JobController`. An order without a job asks for the list of connected sites.

The process writes its reports as lines of JSON to standard output: {"line": ...} for progress, the
first with the "sites" of the job, and at the end {"outcome": ...}, {"sites": ...} or {"failed":
...}. It aborts the job when standard
input closes, which also happens if the calling process dies.
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

from fedwad.engines.flare._job_folder import COLLECT, write_job_folder
from fedwad.engines.job import Job

_MAX_SILENCE = 20.0  # seconds without contact to the server after which the run is given up


class _FailedError(Exception):
    """The run cannot go on; the argument is the message to the analyst."""


class AdminSession:
    """Carries out an order of the analyst: one job from submission to outcome, or a list of sites.

    `report` is called with each report except the last, which `run` returns.
    """

    def __init__(self, order: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
        self._kit, self._user, self._address = order["kit"], order["user"], order["address"]
        self._job = Job.from_json(order["job"]) if "job" in order else None
        self._settings = order.get("settings", {})
        self._report, self._job_id = report, ""
        self._session: Any = None
        self.stopped = threading.Event()

    def run(self) -> dict[str, Any]:
        """Return {"outcome": ...} of the job, or {"sites": ...} if the order has no job."""
        self._session = self._log_in()
        connected = sorted(client.name for client in self._session.get_connected_client_list())
        if self._job is None:
            return {"sites": connected}
        try:
            names = _select_sites(self._job.clients, connected)
            if self._job.needs_agreement:
                names += [name for name in connected if name not in names]
            self._submit(self._job, names)
            return {"outcome": self._follow()}
        except BaseException:
            self._abort()
            raise

    def _log_in(self) -> Any:
        from nvflare.fuel.flare_api import api_spec
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        try:
            return new_secure_session(self._user, self._kit, timeout=15.0, auto_login_max_tries=1)
        except (api_spec.AuthenticationError, api_spec.AuthorizationError):
            raise _FailedError(
                f"The FLARE server at {self._address} does not admit '{self._user}';"
                " ask its operator."
            ) from None
        except Exception:  # FLARE raises many kinds of error for wrong certificates
            raise _FailedError(
                f"The FLARE server at {self._address} cannot be reached as '{self._user}';"
                " check that it is running, and that its certificate and that in the startup kit"
                " come from the same provisioning."
            ) from None

    def _submit(self, job: Job, names: list[str]) -> None:
        from nvflare.fuel.flare_api import api_spec

        with tempfile.TemporaryDirectory(prefix="fedwad-flare-") as folder:
            job_folder = write_job_folder(
                Path(folder) / f"fedwad-{job.algorithm}", job, names, **self._settings
            )
            try:
                self._job_id = self._session.submit_job(str(job_folder))
            except (api_spec.AuthorizationError, api_spec.InvalidJobDefinition) as error:
                raise _FailedError(
                    f"The FLARE server does not accept the job ({error}); ask its operator."
                ) from None
        line = f"job {self._job_id} submitted for {', '.join(names)}"
        self._report({"line": line, "sites": names})

    def _follow(self) -> dict[str, Any]:
        """Request the progress of the job until there is an outcome, and return the outcome."""
        from nvflare.fuel.flare_api import api_spec

        seen, last_contact = 0, time.monotonic()
        while not self.stopped.wait(0.3):
            try:
                state = self._state(seen)
            except (api_spec.NoReply, api_spec.InternalError):  # the job's process starts
                state = {}
            except api_spec.AuthorizationError:
                raise _FailedError(
                    f"The FLARE server does not let '{self._user}' follow the job; ask its operator"
                    ' to add "app_command": "n:submitter" to the role of this user in'
                    " local/authorization.json."
                ) from None
            except (
                api_spec.SessionClosed,
                api_spec.SessionExpired,
                api_spec.AuthenticationError,
                api_spec.JobNotFound,
            ):
                raise _FailedError(
                    "The FLARE server closed the session or no longer knows the job, perhaps after"
                    " a restart; start the job again."
                ) from None
            except (api_spec.NoConnection, RuntimeError, OSError):
                if time.monotonic() - last_contact < _MAX_SILENCE:
                    continue
                raise _FailedError(
                    f"The FLARE server at {self._address} stopped answering;"
                    " start the job again when it is back."
                ) from None
            last_contact = time.monotonic()
            for line in state.get("lines", ()):
                self._report({"line": line})
            seen += len(state.get("lines", ()))
            outcome: dict[str, Any] | None = state.get("outcome")
            if outcome is not None:
                with suppress(Exception):  # now the job can end
                    self._session.do_app_command(self._job_id, COLLECT, {"collected": True})
                if state.get("lost"):  # FLARE would wait for that site for minutes
                    self._abort()
                return outcome
        raise _FailedError("The run was stopped.")

    def _state(self, seen: int) -> dict[str, Any]:
        """Progress and outcome from the `JobController`; empty while the process of the job starts.

        `seen` is the number of lines of progress that are known. What FLARE raises passes through.
        """
        from nvflare.fuel.flare_api import api_spec

        with suppress(api_spec.JobNotRunning):  # not yet, or no longer
            return dict(self._session.do_app_command(self._job_id, COLLECT, {"seen": seen}))
        meta = self._session.get_job_meta(self._job_id)
        status, details = str(meta.get("status")), map(str, meta.get("job_deploy_detail") or ())
        if not status.startswith("FINISHED"):
            return {}
        refusals = "; ".join(detail for detail in details if not detail.endswith(": OK"))
        reasons = f" ({refusals})" if refusals else ""
        raise _FailedError(
            f"FLARE ended the job with {status}{reasons};"
            " see the logs of the server and of the sites."
        )

    def _abort(self) -> None:
        if self._job_id:
            with suppress(Exception):
                self._session.abort_job(self._job_id)


def _select_sites(wanted: Sequence[str], connected: list[str]) -> list[str]:
    """The wanted sites, or all connected sites if none is named; each must be connected."""
    missing = [name for name in wanted if name not in connected]
    if not connected:
        raise _FailedError("No site is connected to the FLARE server; start the nodes.")
    if missing:
        listed = ", ".join(missing)
        subject = f"Sites {listed} are" if missing[1:] else f"Site {listed} is"
        raise _FailedError(
            f"{subject} not connected, only {', '.join(connected)};"
            " check the spelling, or start the missing nodes."
        )
    return list(wanted) or connected


def main() -> None:
    """Carry out the order from standard input."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what FLARE prints goes to standard error

    def report(content: dict[str, Any]) -> None:
        out.write(json.dumps(content) + "\n")
        out.flush()

    admin = AdminSession(json.loads(sys.stdin.readline()), report)

    def stop_when_input_closes() -> None:
        sys.stdin.read()
        admin.stopped.set()

    threading.Thread(target=stop_when_input_closes, daemon=True).start()
    try:
        report(admin.run())
    except _FailedError as failure:
        report({"failed": str(failure)})
    except Exception as error:
        report({"failed": f"The FLARE session failed with {type(error).__name__}: {error}."})
    finally:
        with suppress(Exception):
            out.flush()
        os._exit(0)  # threads of FLARE would keep trying to reconnect


if __name__ == "__main__":
    main()
