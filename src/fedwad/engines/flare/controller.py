"""The server's side of a FLARE job: it asks the sites, and keeps the outcome for the analyst.

FLARE starts `JobController` by its name, in the server's process of the job.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from threading import Event
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.impl.controller import Controller

from fedwad.engines._simulation import Simulation
from fedwad.engines.flare._cells import Caller, TimedOutError, addresses
from fedwad.engines.flare._job_folder import COLLECT, MESSAGE, OPEN, READY
from fedwad.engines.job import (
    AWAY_SECONDS,
    CHECKPOINTS_VARIABLE,
    Job,
    error_outcome,
    preload,
    run_with_journal,
)
from fedwad.errors import FederationError
from fedwad.federation import Failure, RemoteFederation

_POLL = 0.2  # seconds between two checks of FLARE's abort signal
_PING_TIMEOUT = 2.0  # seconds that a site may take to answer a ping
_PING_INTERVAL = 5.0  # seconds between two pings of a site whose reply is awaited
_GONE_SECONDS = AWAY_SECONDS  # without an answer to pings; after that, a site counts as gone
_GONE = Failure("federation", "its node is gone; start it again.", "site-gone")


class FlareFederation(RemoteFederation):
    """The sites of a job, reached from the process that runs the job at the server.

    `lost` are the sites whose reply to some message is missing.

    Parameters
    ----------
    engine : FLARE's server engine of the job
    job_id : FLARE's name of the job
    abort : FLARE's signal that the job must stop
    hosts : for each site, whose process answers for it, by the name in its certificate. It is that
        of the site, except in a simulation
    timeout : seconds that a site may take for one message
    on_progress : called with a line about each exchange
    """

    def __init__(
        self,
        engine: Any,
        job_id: str,
        abort: Any,
        hosts: Mapping[str, str],
        timeout: float = 600.0,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(tuple(hosts), timeout)
        self._engine, self._abort = engine, abort
        self._on_progress = on_progress or (lambda _: None)
        known = addresses(engine, job_id)
        self._addresses = {name: known[host] for name, host in hosts.items() if host in known}
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
        start = time.monotonic()
        with self._calls(MESSAGE, messages, timeout) as calls:
            gone = self._await(calls, start + timeout)
            replies = {name: _result(calls.get(name), timeout) for name in messages}
        replies |= dict.fromkeys(gone, _GONE)
        silent, seconds = _failed_names(replies), time.monotonic() - start
        self.lost |= set(silent)
        missing = f", nothing from {', '.join(silent)}" if silent else ""
        count = f"{len(replies) - len(silent)} of {len(replies)}"
        self._on_progress(f"{count} sites answered in {seconds:.2f} s{missing}")
        return replies

    def _await(self, calls: Mapping[str, Future[bytes]], deadline: float) -> set[str]:
        """Wait for the calls until the deadline, and return the sites that are gone.

        Raises FederationError if FLARE aborts the job.
        """
        gone: set[str] = set()
        last_ping = time.monotonic()
        last_answer = dict.fromkeys(calls, last_ping)
        while pending := [n for n, call in calls.items() if not call.done() and n not in gone]:
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
        seconds = max(0.0, min(_PING_TIMEOUT, timeout))
        with self._calls(READY, dict.fromkeys(names, b""), seconds) as calls:
            wait(calls.values(), timeout=seconds)
            return {name: _result(call, seconds) for name, call in calls.items()}

    @contextmanager
    def _calls(
        self, topic: str, messages: Mapping[str, bytes], timeout: float
    ) -> Iterator[dict[str, Future[bytes]]]:
        """Call each site that takes part, in a thread of its own, and end what is left."""
        names, caller = self._participants(messages), Caller(self._engine)
        pool = ThreadPoolExecutor(max(1, len(names)), thread_name_prefix="fedwad")
        try:
            yield {
                name: pool.submit(
                    caller.call, topic, self._addresses[name], name, messages[name], timeout
                )
                for name in names
            }
        finally:
            caller.end()
            pool.shutdown(wait=False)

    def _raise_if_aborted(self, pending: Sequence[str]) -> None:
        """Raise FederationError if FLARE has aborted the job.

        FLARE aborts a job when the process of the job ends at one site. It does not say which
        site, but that site no longer answers pings.
        """
        if not self._abort.triggered:
            return
        gone = _failed_names(self._ping(pending, _PING_TIMEOUT)) if pending else []
        where = f" and {', '.join(gone)} no longer answered; see the log there" if gone else ""
        raise FederationError(
            f"FLARE stopped the run{where or '; see the log of the server'}, and start the run"
            " again.",
            "run-failed",
        )


def _failed_names(answers: Mapping[str, bytes | Failure]) -> list[str]:
    return [name for name, answer in answers.items() if isinstance(answer, Failure)]


def _result(call: Future[bytes] | None, timeout: float) -> bytes | Failure:
    """The reply of a site, or the reason why there is none.

    There is no call for a site that takes no part.
    """
    if call is None:
        problem = "it takes no part in this run; check that its node is running and accepts the job"
        return Failure("silent", f"{problem}.")
    error = call.exception() if call.done() else TimedOutError()
    if error is None:
        return call.result()
    problem = "it cannot be reached or could not answer; its operator finds more in its log"
    if isinstance(error, TimedOutError):
        problem = f"no reply came within {timeout:g} seconds; check that the site is running"
    return Failure("silent", f"{problem}.")


class JobController(Controller):  # type: ignore[misc]
    """A FLARE workflow with one step: run the job and keep its outcome until it is collected.

    Parameters
    ----------
    job : the analyst's `Job` as JSON in base 64
    names : names of the sites, in a simulation of the processes that answer for them
    round_timeout : seconds that a site may take for one reply
    start_timeout : seconds that the process of a site may take to start
    resume : whether to continue from the journal of an interrupted run of the same job
    """

    def __init__(
        self,
        job: str,
        names: list[str],
        round_timeout: float = 600.0,
        start_timeout: float = 60.0,
        resume: bool = False,
    ) -> None:
        super().__init__()
        self._job = base64.b64decode(job).decode()
        self._names, self._round_timeout, self._start_timeout = names, round_timeout, start_timeout
        self._resume, self._simulation = resume, Simulation.current()
        self._progress: list[str] = []
        self._outcome: dict[str, Any] | None = None
        self._federation: FlareFederation | None = None
        self._collected = Event()

    def start_controller(self, fl_ctx: Any) -> None:
        if self._simulation is None:
            fl_ctx.get_engine().register_app_command(COLLECT, self._answer_analyst)

    def stop_controller(self, fl_ctx: Any) -> None:
        """FLARE requires this method; there is nothing to stop."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        self._outcome = self._run(abort_signal, fl_ctx)
        if self._simulation is not None:
            self._simulation.finish(self._outcome)
            return
        # After a job FLARE takes seconds to deliver its files, and minutes if a site was lost.
        # Therefore the job stays alive until the analyst has collected the outcome from it.
        start = time.monotonic()
        # It has a minute for that, and two seconds after FLARE has aborted the job.
        while not self._collected.wait(_POLL):
            if time.monotonic() - start > (2.0 if abort_signal.triggered else 60.0):
                break

    def _run(self, abort: Any, fl_ctx: Any) -> dict[str, Any]:
        try:
            job = Job.from_json(self._job)
            preload()  # while the sites start
            sites = self._names if self._simulation is None else self._simulation.names()
            self._federation = federation = FlareFederation(
                fl_ctx.get_engine(),
                fl_ctx.get_job_id(),
                abort,
                dict(zip(sites, cycle(self._names), strict=False)),
                self._round_timeout,
                self._report,
            )
            federation.wait_until_ready(min(self._start_timeout, self._round_timeout))
            # The journal of this job of this analyst; by default in the server's kit.
            kit = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
            folder = Path(os.environ.get(CHECKPOINTS_VARIABLE) or kit / "fedwad-checkpoints")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            analyst = (fl_ctx.get_prop(FLContextKey.JOB_META) or {}).get("submitter_name", "")
            key = json.dumps([self._job, job.clients or self._names, str(analyst)])
            return run_with_journal(job, federation, folder, key, self._resume)
        except Exception as error:
            return error_outcome(error)

    def _report(self, line: str) -> None:
        self._progress.append(line)
        self.logger.info(line)
        if self._simulation is not None:
            self._simulation.progress(line)

    def _answer_analyst(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:  # noqa: ARG002
        """The lines of progress that the analyst has not seen, and the outcome once there is one.

        `data` may hold `seen`, the number of lines that the analyst has, and `collected`, which is
        true once the analyst has the outcome. FLARE calls this only for users to whom the server's
        authorization.json grants "app_command" on this job.
        """
        content = data if isinstance(data, dict) else {}
        if content.get("collected"):
            self._collected.set()
        return {
            "lines": self._progress[int(content.get("seen", 0)) :],
            "outcome": self._outcome,
            "lost": sorted(self._federation.lost) if self._federation is not None else [],
        }

    def process_result_of_unknown_task(self, *_: Any) -> None:
        """FLARE requires this method; this controller gives sites no tasks, so no result is due."""
