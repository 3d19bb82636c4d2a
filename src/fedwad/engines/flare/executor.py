"""The site's side of a FLARE job: one client that answers messages as long as the job runs.

A job names the class `ClientExecutor`, and FLARE creates it in the process that runs the job at the
site. FLARE requires an `Executor`, whose purpose is to execute tasks, but this one knows no task.

FLARE's `collab` calls use the same network and would need less code here. They have four faults.
Their jobs always contain code, so a site could no longer forbid jobs with code. They send
tracebacks to the caller. They let every site call every other site. And if one site does not
start, they end the run for all.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_constant import ReturnCode as TaskReturn
from nvflare.apis.job_def import JobMetaKey
from nvflare.apis.shareable import make_reply as task_reply

from fedwad.engines._simulation import Simulation
from fedwad.engines.flare._cells import listen
from fedwad.engines.flare._job_folder import MESSAGE, OPEN, OPENING, READY
from fedwad.engines.flare.startup_kit import config_path
from fedwad.engines.job import CANNOT_OPEN, preload
from fedwad.engines.site_file import open_site_file
from fedwad.federation import Client, pack_failure


class ClientExecutor(Executor):  # type: ignore[misc]
    """Answers the messages of this job's server from one `Client`, in a simulation from several.

    The constructor takes no arguments, so a job cannot change the settings of the site.
    """

    def __init__(self) -> None:
        super().__init__()
        self._opener = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fedwad")
        self._requester = ""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Start to read the data in another thread, and register for messages.

        READY is answered at once. A MESSAGE waits until the data have been read.
        """
        if event_type == EventType.END_RUN:
            self._opener.shutdown(wait=False, cancel_futures=True)
        if event_type != EventType.START_RUN:
            return
        folder = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_site_config_dir()
        meta = fl_ctx.get_prop(FLContextKey.JOB_META)
        name = meta.get(JobMetaKey.SUBMITTER_NAME.value) if isinstance(meta, dict) else None
        self._requester = f"FLARE job {fl_ctx.get_job_id()}" + (f" of {name}" if name else "")
        self._client_of = self._opener.submit(self._open, folder, fl_ctx.get_identity_name())
        engine, job = fl_ctx.get_engine(), fl_ctx.get_job_id()
        # OPEN is also the answer if the site could not open its data; `_answer` says so later.
        listen(engine, READY, job, lambda *_: OPEN if self._client_of.done() else OPENING)
        listen(engine, MESSAGE, job, self._answer)

    def execute(
        self,
        task_name: str,  # noqa: ARG002
        shareable: Any,  # noqa: ARG002
        fl_ctx: Any,  # noqa: ARG002
        abort_signal: Any,  # noqa: ARG002
    ) -> Any:
        return task_reply(TaskReturn.TASK_UNKNOWN)

    def _open(self, folder: str, name: str) -> Callable[[str], Client] | None:
        """The client of each site for which this process answers; None if it cannot be opened.

        The reason is logged as a warning, since FLARE can send logged errors to the server.
        """
        try:
            simulation = Simulation.current()
            if simulation is not None:
                return simulation.client
            client = open_site_file(config_path(folder, name))
            preload()  # so that the first reply does not wait for libraries to load
            return lambda _: client
        except Exception as error:
            self.logger.warning(
                f"fedwad cannot open this site's data: {type(error).__name__}: {error}"
            )
            return None

    def _answer(self, payload: bytes, site: str) -> bytes | None:
        """Answer one message.

        `Client.respond` turns its errors into a Failure. Any other error is logged here.
        """
        try:
            client_of = self._client_of.result()
            if client_of is None:
                return pack_failure(CANNOT_OPEN)
            return client_of(site).respond(bytes(payload), self._requester)
        except Exception as error:
            self.logger.warning(
                f"fedwad could not answer a message: {type(error).__name__}: {error}"
            )
            return None
