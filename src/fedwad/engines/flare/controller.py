"""The server's side: runs the analyst's job on the sites, and keeps the outcome until the analyst
has collected it.

FLARE starts `Conductor` by its name in the process that the server gives a job.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from pathlib import Path
from threading import Event
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.impl.controller import Controller

from fedwad._files import write_atomically
from fedwad.engines.flare._names import CHECKPOINTS, COLLECT, OUTCOME, TOLD
from fedwad.engines.flare._warm import warm_up
from fedwad.engines.flare.federation import FlareFederation
from fedwad.engines.job import Job, run
from fedwad.errors import FedwadError
from fedwad.federation.replies import failure_of

__all__ = ["Conductor"]

_COLLECTED = 60.0  # seconds that an outcome waits for the analyst
_STOPPED = 2.0  # the same when FLARE ends the job
_LOOK = 0.2


class Conductor(Controller):  # type: ignore[misc]
    """A workflow of one step: run the job, and leave its result, or {"error": ..., "sentence":
    ...}.

    Parameters
    ----------
    job : the analyst's `Job` as JSON in base 64
    names : the sites to ask
    timeout : most seconds that a site may take over one letter
    start : most seconds that the sites' processes may take to start
    resume : whether to go on from the answers that an earlier run of the same job left at the
        server
    collect : whether an analyst's session will come for the outcome
    """

    def __init__(
        self,
        job: str,
        names: list[str],
        timeout: float = 600.0,
        start: float = 60.0,
        resume: bool = False,
        collect: bool = True,
    ) -> None:
        super().__init__()
        self._job = base64.b64decode(job).decode()
        self._names, self._timeout, self._start = names, timeout, start
        self._resume, self._collect = resume, collect
        self._lines: list[str] = []
        self._outcome: dict[str, Any] | None = None
        self._federation: FlareFederation | None = None
        self._collected = Event()

    def start_controller(self, fl_ctx: Any) -> None:
        if self._collect:
            fl_ctx.get_engine().register_app_command(COLLECT, self._show)

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing is left to stop."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        outcome = self._conduct(abort_signal, fl_ctx, Path(workspace.get_root_dir()))
        write_atomically(
            Path(workspace.get_run_dir(fl_ctx.get_job_id())) / OUTCOME, json.dumps(outcome)
        )
        self._outcome = outcome
        # After the job FLARE takes seconds to hand out files, and minutes when a site was lost: the
        # outcome waits here.
        if self._collect:
            self._await_collection(abort_signal)

    def _await_collection(self, abort: Any) -> None:
        done = time.monotonic()
        while not self._collected.wait(_LOOK):
            if time.monotonic() - done > (_STOPPED if abort.triggered else _COLLECTED):
                break

    def _conduct(self, abort: Any, fl_ctx: Any, root: Path) -> dict[str, Any]:
        try:
            job = Job.from_json(self._job)
            warm_up()  # while the sites start
            self._federation = federation = FlareFederation(
                fl_ctx.get_engine(),
                fl_ctx.get_job_id(),
                abort,
                self._names,
                self._timeout,
                self._tell,
            )
            federation.gather(min(self._start, self._timeout))
            checkpoint = self._checkpoint(root, fl_ctx.get_prop(FLContextKey.JOB_META) or {})
            result = run(job, federation, checkpoint, resume=checkpoint.exists())
            checkpoint.unlink(missing_ok=True)
            return result
        except FedwadError as error:
            failure = failure_of(error)
            return {"error": failure.code, "sentence": failure.sentence}
        except Exception as error:
            self.log_exception(fl_ctx, "the run failed")
            return {
                "error": "internal",
                "sentence": f"The server failed with {type(error).__name__}; see its log.",
            }

    def _checkpoint(self, root: Path, meta: dict[str, Any]) -> Path:
        """The file of the answers so far to this analyst's job: there if the run is to go on from
        it, else not."""
        variable, name = CHECKPOINTS
        folder = Path(os.environ.get(variable) or root / name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = json.dumps([self._job, self._names, str(meta.get("submitter_name", ""))])
        path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.journal"
        if not self._resume:
            path.unlink(missing_ok=True)
        return path

    def _tell(self, line: str) -> None:
        self._lines.append(line)
        self.logger.info(TOLD + line)

    def _show(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:  # noqa: ARG002
        """What the analyst's session gets to see: the lines after the `seen` first ones, and the
        outcome once there.

        FLARE lets only those ask whom the server's authorization.json allows "app_command" on this
        job.
        """
        asked = data if isinstance(data, dict) else {}
        if asked.get("collected"):
            self._collected.set()
        lost = sorted(self._federation.lost) if self._federation is not None else []
        return {
            "lines": self._lines[int(asked.get("seen", 0)) :],
            "outcome": self._outcome,
            "lost": lost,
        }

    def process_result_of_unknown_task(self, *_: Any) -> None:
        """Sites have no tasks; a result of one is dropped."""
