"""The sites of one FLARE job as a federation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import new_cell_message

from fedwad.engines.flare._protocol import CHANNEL, MESSAGE, OPEN, READY
from fedwad.errors import FederationError
from fedwad.federation import Failure, RemoteFederation

__all__ = ["FlareFederation"]

_POLL = 0.2  # seconds between two checks of FLARE's abort signal
_PING_TIMEOUT = 2.0  # seconds that a site may take to answer a ping
_PING_INTERVAL = 5.0  # seconds between two pings of a site whose reply is awaited
_GONE_SECONDS = 30.0  # without an answer to pings; after that, a site counts as gone

_NO_PARTICIPANT = Failure(
    "silent", "it takes no part in this run; check that its node is running and accepts the job."
)
_GONE = Failure("silent", "its node is gone; start it again.")
_UNREACHABLE = Failure(
    "silent", "it cannot be reached or could not answer; its operator finds more in its log."
)


class FlareFederation(RemoteFederation):
    """The sites of a job, reached from the process that runs the job at the server.

    Messages travel over FLARE's cell network. FLARE calls a process in that network a cell; it has
    nothing to do with the cells of a summary. `lost` are the sites whose reply to some message is
    missing.

    Parameters
    ----------
    engine : FLARE's server engine of the job
    job_id : FLARE's name of the job
    abort : FLARE's signal that the job must stop
    names : names of the sites, as in their certificates
    timeout : seconds that a site may take for one message
    on_progress : called with a line about each exchange
    """

    def __init__(
        self,
        engine: Any,
        job_id: str,
        abort: Any,
        names: Sequence[str],
        timeout: float = 600.0,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(names, timeout)
        self._own_cell, self._abort = engine.get_cell(), abort
        self._on_progress = on_progress or (lambda _: None)
        self._addresses = {
            client.name: FQCN.join([client.get_fqcn(), job_id]) for client in engine.get_clients()
        }
        self.lost: set[str] = set()

    def wait_until_ready(self, patience: float) -> None:
        """Wait until each site has read its data.

        A site whose process does not answer within `patience` seconds takes no part. A site that
        answers may take as long to read its data as it may take for one message.
        """
        start = time.monotonic()
        waiting = self._participants(self.names)
        while waiting and time.monotonic() - start < self._timeout:
            answers = self._ping(waiting, self._timeout)
            unreachable = _failed_names(answers)
            self._raise_if_aborted(unreachable)
            if time.monotonic() - start > patience:
                for name in unreachable:
                    del self._addresses[name]
            waiting = self._participants(name for name in waiting if answers[name] != OPEN)
            time.sleep(_POLL if waiting else 0)
        ready = [name for name in self._participants(self.names) if name not in waiting]
        self._on_progress(f"{', '.join(ready) or 'no site'} ready")

    def _participants(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self._addresses]

    def exchange(
        self, messages: Mapping[str, bytes], timeout: float
    ) -> Mapping[str, bytes | Failure]:
        """Send one message to each site and collect what comes back before the deadline.

        FLARE counts its own timeout anew for sending, computing and receiving, so the deadline is
        checked here. A site that is computing still answers pings. A site that answers none for
        `_GONE_SECONDS` seconds is given up before the deadline.
        """
        start, end_calls = time.monotonic(), Signal()
        calls = self._calls(MESSAGE, messages, timeout, end_calls)
        try:
            gone = self._await(calls, start + timeout)
            replies = {name: _reply(calls.get(name), name in gone, timeout) for name in messages}
        finally:
            end_calls.trigger("the time is up")  # replies that come later are dropped
        silent = _failed_names(replies)
        self.lost |= set(silent)
        missing = f", nothing from {', '.join(silent)}" if silent else ""
        answered, seconds = len(replies) - len(silent), time.monotonic() - start
        self._on_progress(
            f"{answered} of {len(replies)} sites answered in {seconds:.2f} s{missing}"
        )
        return replies

    def _await(self, calls: Mapping[str, Future[Any]], deadline: float) -> set[str]:
        """Wait for the calls until the deadline, and return the sites that are gone.

        Raises FederationError if FLARE aborts the job.
        """
        gone: set[str] = set()
        last_ping = time.monotonic()
        last_answer = dict.fromkeys(calls, last_ping)
        while pending := _unfinished(calls, gone):
            left = deadline - time.monotonic()
            if left <= 0 or self._abort.triggered:
                break
            wait([calls[name] for name in pending], timeout=min(_POLL, left))
            if time.monotonic() - last_ping > _PING_INTERVAL:
                unreachable = _failed_names(self._ping(pending, left))
                last_ping = time.monotonic()
                last_answer |= {name: last_ping for name in pending if name not in unreachable}
                gone |= {name for name in pending if last_ping - last_answer[name] > _GONE_SECONDS}
        self._raise_if_aborted(pending)
        return gone

    def _ping(self, names: Sequence[str], timeout: float) -> dict[str, bytes | Failure]:
        """Ask sites whether they have read their data; the answer of each, or a Failure."""
        seconds, end_calls = max(0.0, min(_PING_TIMEOUT, timeout)), Signal()
        calls = self._calls(READY, dict.fromkeys(names, b""), seconds, end_calls)
        wait(calls.values(), timeout=seconds)
        answers = {name: _result(call, seconds) for name, call in calls.items()}
        end_calls.trigger("the time is up")
        return answers

    def _calls(
        self, topic: str, messages: Mapping[str, bytes], timeout: float, end_calls: Any
    ) -> dict[str, Future[Any]]:
        """Call each site that takes part, in a thread of its own; `end_calls` ends the calls."""
        addresses = {name: self._addresses[name] for name in messages if name in self._addresses}
        pool = ThreadPoolExecutor(max_workers=max(1, len(addresses)), thread_name_prefix="fedwad")
        calls = {
            name: pool.submit(self._call, topic, address, messages[name], timeout, end_calls)
            for name, address in addresses.items()
        }
        pool.shutdown(wait=False)
        return calls

    def _call(
        self, topic: str, address: str, payload: bytes, timeout: float, end_calls: Any
    ) -> Any:
        return self._own_cell.send_request(
            channel=CHANNEL,
            topic=topic,
            target=address,
            request=new_cell_message({}, payload),
            timeout=timeout,
            optional=True,
            abort_signal=end_calls,
        )

    def _raise_if_aborted(self, pending: Sequence[str]) -> None:
        """Raise FederationError if FLARE has aborted the job.

        FLARE aborts a job when the process of the job ends at one site. It does not say which
        site, but that site no longer answers pings.
        """
        if not self._abort.triggered:
            return
        unreachable = _failed_names(self._ping(pending, _PING_TIMEOUT)) if pending else []
        if unreachable:
            raise FederationError(
                f"FLARE stopped the run and {', '.join(unreachable)} no longer answered;"
                " see the log there, and start the run again."
            )
        raise FederationError(
            "FLARE stopped the run; see the server's log, and start the run again."
        )


def _unfinished(calls: Mapping[str, Future[Any]], gone: set[str]) -> list[str]:
    return [name for name, call in calls.items() if not call.done() and name not in gone]


def _failed_names(answers: Mapping[str, bytes | Failure]) -> list[str]:
    return [name for name, answer in answers.items() if isinstance(answer, Failure)]


def _reply(call: Future[Any] | None, is_gone: bool, timeout: float) -> bytes | Failure:
    """The reply of a site, or the reason why there is none.

    There is no call for a site that takes no part.
    """
    if call is None:
        return _NO_PARTICIPANT
    return _GONE if is_gone else _result(call, timeout)


def _result(call: Future[Any], timeout: float) -> bytes | Failure:
    """The bytes that a call returned, or the reason why it returned none."""
    timed_out = Failure(
        "silent", f"no reply came within {timeout:g} seconds; check that the site is running."
    )
    if not call.done():
        return timed_out
    message: Any = None if call.exception() else call.result()
    if message is None:
        return _UNREACHABLE
    code = message.get_header(MessageHeaderKey.RETURN_CODE, ReturnCode.OK)
    if code == ReturnCode.OK:
        return bytes(message.payload or b"")
    return timed_out if code == ReturnCode.TIMEOUT else _UNREACHABLE
