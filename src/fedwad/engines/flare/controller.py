"""The server's side of a FLARE job: it runs the job and keeps the outcome for the analyst.

FLARE starts `JobController` by its name, in the server's process of the job.
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
from fedwad.engines._outcome import error_outcome, internal_outcome
from fedwad.engines.flare._preload import preload
from fedwad.engines.flare._protocol import COLLECT, OUTCOME_FILE, PROGRESS_PREFIX
from fedwad.engines.flare.federation import FlareFederation
from fedwad.engines.job import CHECKPOINTS_VARIABLE, Job, run
from fedwad.errors import FedwadError

__all__ = ["JobController"]

_CHECKPOINTS_FOLDER = "fedwad-checkpoints"  # in the server's kit, unless the variable names one
_COLLECT_TIMEOUT = 60.0  # seconds in which the analyst may collect an outcome
_ABORT_TIMEOUT = 2.0  # the same, after FLARE has aborted the job
_POLL = 0.2  # seconds between two checks of FLARE's abort signal


class JobController(Controller):  # type: ignore[misc]
    """A FLARE workflow with one step: run the job and keep its outcome until it is collected.

    Parameters
    ----------
    job : the analyst's `Job` as JSON in base 64
    names : names of the sites
    round_timeout : seconds that a site may take for one reply
    start_timeout : seconds that the process of a site may take to start
    resume : whether to continue from the journal of an interrupted run of the same job
    collect : whether an analyst's session will collect the outcome
    """

    def __init__(
        self,
        job: str,
        names: list[str],
        round_timeout: float = 600.0,
        start_timeout: float = 60.0,
        resume: bool = False,
        collect: bool = True,
    ) -> None:
        super().__init__()
        self._job = base64.b64decode(job).decode()
        self._names, self._round_timeout, self._start_timeout = names, round_timeout, start_timeout
        self._resume, self._collect = resume, collect
        self._progress: list[str] = []
        self._outcome: dict[str, Any] | None = None
        self._federation: FlareFederation | None = None
        self._collected = Event()

    def start_controller(self, fl_ctx: Any) -> None:
        if self._collect:
            fl_ctx.get_engine().register_app_command(COLLECT, self._answer_analyst)

    def stop_controller(self, fl_ctx: Any) -> None:
        """FLARE requires this method; there is nothing to stop."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        outcome = self._run(abort_signal, fl_ctx, Path(workspace.get_root_dir()))
        write_atomically(
            Path(workspace.get_run_dir(fl_ctx.get_job_id())) / OUTCOME_FILE, json.dumps(outcome)
        )
        self._outcome = outcome
        # After a job FLARE takes seconds to deliver its files, and minutes if a site was lost.
        # Therefore the job stays alive until the analyst has collected the outcome from it.
        if self._collect:
            self._await_collection(abort_signal)

    def _await_collection(self, abort: Any) -> None:
        start = time.monotonic()
        while not self._collected.wait(_POLL):
            timeout = _ABORT_TIMEOUT if abort.triggered else _COLLECT_TIMEOUT
            if time.monotonic() - start > timeout:
                break

    def _run(self, abort: Any, fl_ctx: Any, root: Path) -> dict[str, Any]:
        try:
            job = Job.from_json(self._job)
            preload()  # while the sites start
            self._federation = federation = FlareFederation(
                fl_ctx.get_engine(),
                fl_ctx.get_job_id(),
                abort,
                self._names,
                self._round_timeout,
                self._report,
            )
            federation.wait_until_ready(min(self._start_timeout, self._round_timeout))
            journal = self._journal_path(root, fl_ctx.get_prop(FLContextKey.JOB_META) or {})
            result = run(job, federation, checkpoint=journal, resume=journal.exists())
            journal.unlink(missing_ok=True)
            return result
        except FedwadError as error:
            return error_outcome(error)
        except Exception as error:
            self.log_exception(fl_ctx, "the run failed")
            return internal_outcome(error)

    def _journal_path(self, root: Path, meta: dict[str, Any]) -> Path:
        """The path of the journal of this job of this analyst.

        Unless the run resumes, an old journal of the same job is deleted.
        """
        folder = Path(os.environ.get(CHECKPOINTS_VARIABLE) or root / _CHECKPOINTS_FOLDER)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = json.dumps([self._job, self._names, str(meta.get("submitter_name", ""))])
        path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.journal"
        if not self._resume:
            path.unlink(missing_ok=True)
        return path

    def _report(self, line: str) -> None:
        self._progress.append(line)
        self.logger.info(PROGRESS_PREFIX + line)

    def _answer_analyst(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:  # noqa: ARG002
        """The lines of progress that the analyst has not seen, and the outcome once there is one.

        `data` may hold `seen`, the number of lines that the analyst has, and `collected`, which is
        true once the analyst has the outcome. FLARE calls this only for users to whom the server's
        authorization.json grants "app_command" on this job.
        """
        content = data if isinstance(data, dict) else {}
        if content.get("collected"):
            self._collected.set()
        lost = sorted(self._federation.lost) if self._federation is not None else []
        return {
            "lines": self._progress[int(content.get("seen", 0)) :],
            "outcome": self._outcome,
            "lost": lost,
        }

    def process_result_of_unknown_task(self, *_: Any) -> None:
        """FLARE requires this method; this controller gives sites no tasks, so no result is due."""
