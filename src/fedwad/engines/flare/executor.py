"""The site's side of a FLARE job: one client that answers messages as long as the job runs.

A job names the class `ClientExecutor`, and FLARE creates it in the process that runs the job at the
site. FLARE requires an `Executor`, whose purpose is to execute tasks, but this one knows no task.
Messages come over FLARE's network of processes, `cellnet`, which delivers them at once. Tasks would
wait until the site fetches them.

FLARE's `collab` calls use the same network and would need less code here. They have four faults.
Their jobs always contain code, so a site could no longer forbid jobs with code. They send
tracebacks to the caller. They let every site call every other site. And if one site does not
start, they end the run for all.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_constant import ReturnCode as TaskReturn
from nvflare.apis.shareable import make_reply as task_reply
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply

from fedwad.engines.flare._preload import preload
from fedwad.engines.flare._protocol import CHANNEL, MESSAGE, OPEN, OPENING, READY
from fedwad.engines.flare.site_config import config_path, read_config
from fedwad.federation import Client, Failure, pack_failure

__all__ = ["ClientExecutor"]

_CANNOT_OPEN = Failure(
    "federation",
    "The site could not open its data; its operator finds the reason in the site's log.",
)


class ClientExecutor(Executor):  # type: ignore[misc]
    """Answers the messages of this job's server from one `Client`.

    The constructor takes no arguments, so a job cannot change the settings of the site.
    """

    def __init__(self) -> None:
        super().__init__()
        self._opener = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fedwad")
        self._server_addresses: tuple[str, ...] = ()

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.START_RUN:
            self._start(fl_ctx)
        elif event_type == EventType.END_RUN:
            self._opener.shutdown(wait=False, cancel_futures=True)

    def execute(
        self,
        task_name: str,  # noqa: ARG002
        shareable: Any,  # noqa: ARG002
        fl_ctx: Any,  # noqa: ARG002
        abort_signal: Any,  # noqa: ARG002
    ) -> Any:
        return task_reply(TaskReturn.TASK_UNKNOWN)

    def _start(self, fl_ctx: Any) -> None:
        """Start to read the data in another thread, and register for messages.

        READY is answered at once. A MESSAGE waits until the data have been read.
        """
        folder = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_site_config_dir()
        job_server = FQCN.join([FQCN.ROOT_SERVER, fl_ctx.get_job_id()])
        self._server_addresses = FQCN.ROOT_SERVER, job_server
        self._client = self._opener.submit(self._open, folder, fl_ctx.get_identity_name())
        cell = fl_ctx.get_engine().get_cell()
        cell.register_request_cb(channel=CHANNEL, topic=READY, cb=self._ready)
        cell.register_request_cb(channel=CHANNEL, topic=MESSAGE, cb=self._answer)

    def _open(self, folder: str, name: str) -> Client | None:
        """The site's client, or None if it cannot be opened.

        The reason is logged as a warning, since FLARE can send logged errors to the server.
        """
        try:
            client = read_config(config_path(folder, name)).open()
            preload()  # so that the first reply does not wait for libraries to load
            return client
        except Exception as error:
            self.logger.warning(
                f"fedwad cannot open this site's data: {type(error).__name__}: {error}"
            )
            return None

    def _ready(self, message: Any) -> Any:
        """Tell the server whether this site is still reading its data.

        OPEN is also the answer if the site could not open them; `_answer` says so later.
        """
        if not self._is_from_server(message):
            return make_reply(ReturnCode.UNAUTHENTICATED)
        return make_reply(ReturnCode.OK, body=OPEN if self._client.done() else OPENING)

    def _answer(self, message: Any) -> Any:
        """Answer one message.

        `Client.respond` turns its errors into a Failure. Any other error is logged here.
        """
        if not self._is_from_server(message):
            return make_reply(ReturnCode.UNAUTHENTICATED)
        try:
            client = self._client.result()
            if client is None:
                return make_reply(ReturnCode.OK, body=pack_failure(_CANNOT_OPEN))
            return make_reply(ReturnCode.OK, body=client.respond(bytes(message.payload)))
        except Exception as error:
            self.logger.warning(
                f"fedwad could not answer a message: {type(error).__name__}: {error}"
            )
            return make_reply(ReturnCode.PROCESS_EXCEPTION)

    def _is_from_server(self, message: Any) -> bool:
        """Whether the sender is the server's main process or its process for this job.

        FLARE lets sites send messages to each other through the server. The server verifies the
        origin that a message states.
        """
        from_server = message.get_header(MessageHeaderKey.ORIGIN) in self._server_addresses
        if not from_server:
            self.logger.warning(
                "fedwad refused a message that did not come from the server of this job"
            )
        return from_server
