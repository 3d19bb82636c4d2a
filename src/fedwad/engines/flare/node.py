"""The site's side: one opened client, kept for the life of a job, that answers letters and nothing
else.

FLARE starts this class by its name in the process that it gives a job at a site. It is an
`Executor` because FLARE asks each site for one; it has no tasks. Letters come over FLARE's cell
network, whose messages arrive when they are sent, while tasks wait for the site to fetch them.

FLARE's `collab` calls go over the same network and would take less code here, but their jobs always
bring code along, which a site can then not forbid; tracebacks travel to the caller; any site may
call; and one site that does not come up ends the run of all.
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

from fedwad.engines.flare import site
from fedwad.engines.flare._names import CHANNEL, LETTER, OPEN, OPENING, READY
from fedwad.engines.flare._warm import warm_up
from fedwad.errors import FedwadError
from fedwad.federation import Client, Failure, encode_failure

__all__ = ["Node"]

_CLOSED = Failure(
    "federation",
    "The site could not open its data; its operator finds the reason in the site's log.",
)


class Node(Executor):  # type: ignore[misc]
    """Answers the letters of this job's server out of one `Client`; takes no arguments, so a job
    can set nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fedwad")
        self._server: tuple[str, ...] = ()

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.START_RUN:
            self._start(fl_ctx)
        elif event_type == EventType.END_RUN:
            self._worker.shutdown(wait=False, cancel_futures=True)

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:  # noqa: ARG002
        return task_reply(TaskReturn.TASK_UNKNOWN)

    def _start(self, fl_ctx: Any) -> None:
        """Open the data beside the network's threads, and listen: whoever asks early waits until
        they are read."""
        folder = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_site_config_dir()
        self._server = FQCN.ROOT_SERVER, FQCN.join([FQCN.ROOT_SERVER, fl_ctx.get_job_id()])
        self._client = self._worker.submit(self._open, folder, fl_ctx.get_identity_name())
        cell = fl_ctx.get_engine().get_cell()
        cell.register_request_cb(channel=CHANNEL, topic=READY, cb=self._ready)
        cell.register_request_cb(channel=CHANNEL, topic=LETTER, cb=self._answer)

    def _open(self, folder: str, name: str) -> Client | None:
        """The site's client, or None. Why not is for the site's eyes, and below ERROR: FLARE can
        send errors away."""
        try:
            client = site.read(site.find(folder, name)).open()
            warm_up()
            return client
        except FedwadError as error:
            self.logger.warning(f"fedwad cannot open this site's data: {error}")
        except Exception as error:
            self.logger.warning(
                f"fedwad cannot open this site's data: {type(error).__name__}: {error}"
            )
        return None

    def _ready(self, message: Any) -> Any:
        if not self._is_from_server(message):
            return make_reply(ReturnCode.UNAUTHENTICATED)
        return make_reply(ReturnCode.OK, body=OPEN if self._client.done() else OPENING)

    def _answer(self, message: Any) -> Any:
        """One letter in, one reply out. `respond` turns every error into a Failure; what is left is
        caught here."""
        if not self._is_from_server(message):
            return make_reply(ReturnCode.UNAUTHENTICATED)
        try:
            client, letter = self._client.result(), message.payload
            if client is None:
                return make_reply(ReturnCode.OK, body=encode_failure(_CLOSED))
            return make_reply(ReturnCode.OK, body=client.respond(bytes(letter)))
        except Exception as error:
            self.logger.warning(
                f"fedwad could not answer a letter: {type(error).__name__}: {error}"
            )
            return make_reply(ReturnCode.PROCESS_EXCEPTION)

    def _is_from_server(self, message: Any) -> bool:
        """Whether the sender is the server, or its process of this job.

        Sites can write to each other through the server, which checks that each message tells its
        true origin.
        """
        known = message.get_header(MessageHeaderKey.ORIGIN) in self._server
        if not known:
            self.logger.warning(
                "fedwad left a letter unanswered that did not come from the server of this job"
            )
        return known
