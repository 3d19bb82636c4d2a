"""FLARE's network of processes, which delivers messages at once; tasks would wait to be fetched.

Only this module uses internals of FLARE, those of version 2.9. FLARE calls a process in that
network a cell; it has nothing to do with the cells of a summary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message

_log = logging.getLogger("fedwad.node")
_CHANNEL, _SITE = "fedwad", "fedwad-site"  # of all messages, and the header that names the site


class TimedOutError(Exception):
    """No reply came in time."""


class UnreachableError(Exception):
    """A process cannot be reached, or could not answer."""


def addresses(engine: Any, job_id: str) -> dict[str, str]:
    """The address of each site's process for a job."""
    return {one.name: FQCN.join([one.get_fqcn(), job_id]) for one in engine.get_clients()}


def listen(
    engine: Any, topic: str, job_id: str, answer: Callable[[bytes, str], bytes | None]
) -> None:
    """Answer messages of a topic by a function of their content and of the site that they name.

    Only those of the server's main process and of its process for this job are answered: FLARE
    lets sites send messages to each other through the server, which verifies the stated origin.
    Without an answer the sender hears that this process failed.
    """
    servers = FQCN.ROOT_SERVER, FQCN.join([FQCN.ROOT_SERVER, job_id])

    def reply(message: Any) -> Any:
        if message.get_header(MessageHeaderKey.ORIGIN) not in servers:
            _log.warning("A message that did not come from the server of this job was refused.")
            return make_reply(ReturnCode.UNAUTHENTICATED)
        try:
            content = answer(message.payload, str(message.get_header(_SITE)))
        except Exception:
            content = None
        if content is None:
            return make_reply(ReturnCode.PROCESS_EXCEPTION)
        return make_reply(ReturnCode.OK, body=content)

    engine.get_cell().register_request_cb(channel=_CHANNEL, topic=topic, cb=reply)


class Caller:
    """Calls from the server to processes of sites, until `end`; replies that come later are
    dropped."""

    def __init__(self, engine: Any) -> None:
        self._cell, self._end = engine.get_cell(), Signal()

    def end(self) -> None:
        self._end.trigger("the time is up")

    def call(self, topic: str, address: str, site: str, payload: bytes, timeout: float) -> bytes:
        """The reply to one message; TimedOutError or UnreachableError if there is none."""
        message = self._cell.send_request(
            channel=_CHANNEL,
            topic=topic,
            target=address,
            request=new_cell_message({_SITE: site}, payload),
            timeout=timeout,
            optional=True,
            abort_signal=self._end,
        )
        code = message.get_header(MessageHeaderKey.RETURN_CODE, ReturnCode.OK)
        if code == ReturnCode.OK:
            return bytes(message.payload or b"")
        raise TimedOutError if code == ReturnCode.TIMEOUT else UnreachableError
