"""Letters over FLARE: a federation whose clients are the sites of one FLARE job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import new_cell_message

from fedwad.engines.flare._names import CHANNEL, LETTER, OPEN, READY
from fedwad.errors import FederationError
from fedwad.federation import Failure, RemoteFederation

__all__ = ["FlareFederation"]

_LOOK = 0.2  # seconds between two looks at FLARE's stop signal
_PING = 2.0  # seconds that a site may take to say that it is there
_PULSE = 5.0  # seconds between two such questions to a site that works
_LOST = 30.0  # seconds without an answer to them, after which a site counts as lost

_ABSENT = Failure(
    "silent", "it takes no part in this run; see whether its node is up and takes the job."
)
_GONE = Failure("silent", "its node is gone; start it again.")
_MUTE = Failure(
    "silent", "it cannot be reached or could not answer; its operator finds more in the log there."
)


class FlareFederation(RemoteFederation):
    """The sites of a job, asked over FLARE's cell network from the server's process of that job.

    Parameters
    ----------
    engine : FLARE's server engine of the job
    job_id : FLARE's name of the job
    abort : FLARE's signal that the job is to stop
    names : the sites to ask, by the names in their certificates
    timeout : most seconds that a site may take over one letter
    tell : called with a line about each exchange, for the analyst's screen
    """

    def __init__(
        self,
        engine: Any,
        job_id: str,
        abort: Any,
        names: Sequence[str],
        timeout: float = 600.0,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(names, timeout)
        self._cell, self._abort = engine.get_cell(), abort
        self._tell: Callable[[str], object] = tell or str
        self._cells = {
            client.name: FQCN.join([client.get_fqcn(), job_id]) for client in engine.get_clients()
        }
        self.lost: set[str] = set()

    def gather(self, patience: float) -> None:
        """Wait until each site has read its data.

        Sites whose processes do not listen after `patience` seconds take no part; those that listen
        may read on for as long as an answer may take.
        """
        start = time.monotonic()
        waiting = [name for name in self.names if name in self._cells]
        while waiting and time.monotonic() - start < self._timeout:
            said = self._ping(waiting, self._timeout)
            deaf = [name for name in waiting if isinstance(said[name], Failure)]
            self._stop_if_asked(deaf)
            if time.monotonic() - start > patience:
                self._cells = {name: cell for name, cell in self._cells.items() if name not in deaf}
            waiting = [name for name in waiting if said[name] != OPEN and name in self._cells]
            time.sleep(_LOOK if waiting else 0)
        self._tell(
            f"{_listed(name for name in self.names if name in self._cells) or 'no site'} ready"
        )

    def exchange(
        self, letters: Mapping[str, bytes], timeout: float
    ) -> Mapping[str, bytes | Failure]:
        """One letter to each site, and what came back by the deadline.

        FLARE counts its own timeout anew for sending, working and receiving, so the deadline is
        kept here. A site that works answers the question whether it is there; one that does not is
        not waited for to the end.
        """
        start, stop = time.monotonic(), Signal()
        calls = self._calls(LETTER, letters, timeout, stop)
        try:
            gone = self._await(calls, start + timeout)
            replies = {
                name: _ABSENT
                if name not in calls
                else _GONE
                if name in gone
                else _opened(calls[name], timeout)
                for name in letters
            }
        finally:
            stop.trigger(
                "the time is up"
            )  # ends calls that still wait; what they would bring is dropped
        silent = [name for name, reply in replies.items() if isinstance(reply, Failure)]
        self.lost |= set(silent)
        missing = f", nothing from {_listed(silent)}" if silent else ""
        seconds = time.monotonic() - start
        self._tell(
            f"{len(replies) - len(silent)} of {len(replies)} sites answered in {seconds:.2f} s{missing}"
        )
        return replies

    def _await(self, calls: Mapping[str, Future[Any]], deadline: float) -> set[str]:
        """Wait for the calls until the deadline, or FLARE's wish to stop; the sites that were lost
        meanwhile."""
        gone: set[str] = set()
        pulse = time.monotonic()
        seen = dict.fromkeys(calls, pulse)
        while pending := [
            name for name, call in calls.items() if not call.done() and name not in gone
        ]:
            left = deadline - time.monotonic()
            if left <= 0 or self._abort.triggered:
                break
            wait([calls[name] for name in pending], timeout=min(_LOOK, left))
            if time.monotonic() - pulse > _PULSE:
                deaf = self._deaf(pending, left)
                pulse = time.monotonic()
                seen |= {name: pulse for name in pending if name not in deaf}
                gone |= {name for name in pending if pulse - seen[name] > _LOST}
        self._stop_if_asked(pending)
        return gone

    def _ping(self, names: Sequence[str], timeout: float) -> dict[str, bytes | Failure]:
        """What sites say to the question whether they are ready; a Failure of those that say
        nothing."""
        seconds, stop = max(0.0, min(_PING, timeout)), Signal()
        calls = self._calls(READY, dict.fromkeys(names, b""), seconds, stop)
        wait(calls.values(), timeout=seconds)
        said = {name: _opened(call, seconds) for name, call in calls.items()}
        stop.trigger("the time is up")
        return said

    def _deaf(self, names: Sequence[str], timeout: float) -> list[str]:
        return [
            name for name, said in self._ping(names, timeout).items() if isinstance(said, Failure)
        ]

    def _calls(
        self, topic: str, letters: Mapping[str, bytes], timeout: float, stop: Any
    ) -> dict[str, Future[Any]]:
        """One call in a thread of its own for each site that takes part."""
        here = {name: self._cells[name] for name in letters if name in self._cells}
        pool = ThreadPoolExecutor(max_workers=max(1, len(here)), thread_name_prefix="fedwad")
        calls = {
            name: pool.submit(self._call, topic, cell, letters[name], timeout, stop)
            for name, cell in here.items()
        }
        pool.shutdown(wait=False)
        return calls

    def _call(self, topic: str, cell: str, letter: bytes, timeout: float, stop: Any) -> Any:
        request = new_cell_message({}, letter)
        return self._cell.send_request(
            channel=CHANNEL,
            topic=topic,
            target=cell,
            request=request,
            timeout=timeout,
            optional=True,
            abort_signal=stop,
        )

    def _stop_if_asked(self, pending: Sequence[str]) -> None:
        """FederationError once FLARE ends the job, which it does when the process of the job at one
        site ends.

        Which site that was FLARE does not tell here, but it is one that no longer says that it is
        there.
        """
        if self._abort.triggered:
            deaf = self._deaf(pending, _PING) if pending else []
            named = (
                f" and {_listed(deaf)} no longer answered; see the log there"
                if deaf
                else "; see the server's log"
            )
            raise FederationError(f"FLARE stopped the run{named}, and start it again.")


def _opened(call: Future[Any], timeout: float) -> bytes | Failure:
    """What a call brought back."""
    late = Failure(
        "silent", f"no reply came within {timeout:g} seconds; see whether the site is up."
    )
    if not call.done():
        return late
    message: Any = None if call.exception() else call.result()
    code = (
        None if message is None else message.get_header(MessageHeaderKey.RETURN_CODE, ReturnCode.OK)
    )
    if code == ReturnCode.OK:
        return (
            message.payload if isinstance(message.payload, bytes) else bytes(message.payload or b"")
        )
    return late if code == ReturnCode.TIMEOUT else _MUTE


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
