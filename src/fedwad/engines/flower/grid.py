"""Sites behind Flower's Grid as a federation, and messages on their way, with deadlines that
Flower's own calls lack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from itertools import islice
from threading import Thread
from typing import TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

from fedwad.engines.flower._messages import (
    MESSAGE_TYPE,
    MESSAGE_UNAVAILABLE,
    NODE_UNAVAILABLE,
    error_code,
    unwrap,
    wrap,
)
from fedwad.engines.job import AWAY_SECONDS
from fedwad.errors import FederationError
from fedwad.federation import Failure, RemoteFederation

T = TypeVar("T")

FAST_POLL, SLOW_POLL = 0.05, 0.5  # seconds between two polls: at first, and after a while
_AWAY_POLL = 2.0  # seconds before a message is sent again, and between two listings of the nodes


class MessageQueue:
    """Sends messages to nodes and collects their replies.

    Calls to the Grid may retry for ever. They run in threads of their own, so that a round ends at
    its deadline. `group` is Flower's group id of the messages. With `window`, at most that many
    messages wait for a reply at a time.

    A node that is away, or whose reply is lost, gets its message again within `patience` seconds. A
    node that was started again gets it too, because whoever takes a message from the SuperLink and
    is killed takes it along. A node repeats its reply to a message that it answered already.
    `activated` has the time at which each node came online, and is kept up to date.
    """

    def __init__(
        self,
        grid: Grid,
        group: str,
        window: int | None = None,
        patience: float = 0.0,
        activated: dict[int, str] | None = None,
    ) -> None:
        self._grid, self._group, self._window, self._patience = grid, group, window, patience
        self._activated: dict[int, str] = {} if activated is None else activated
        self._next_listing = time.monotonic() + _AWAY_POLL
        self._payloads: dict[int, bytes] = {}  # by node
        self._away_since: dict[int, float] = {}
        self._due: dict[int, float] = {}  # nodes to send to, and from when on; 0 at first
        self._failed: dict[int, Failure] = {}  # by node; not yet collected
        self._waiting: dict[str, int] = {}  # nodes that have not replied, by the message's id
        self._has_reply = False
        self._lost: set[int] = set()  # nodes of which a message was lost once

    @property
    def has_pending(self) -> bool:
        """Whether `collect` may still return a reply or a failure."""
        return bool(self._due or self._waiting or self._failed)

    @property
    def away(self) -> list[int]:
        """Nodes that are away, and may return."""
        return [node for node, when in self._due.items() if when]

    def send(self, payloads: Mapping[int, bytes], deadline: float) -> None:
        """Send one message to each of these nodes, in one call unless a window keeps some back.

        `collect` sends what the window kept back. The next `collect` returns a Failure for each
        message that the SuperLink rejects. Raises FederationError if it rejects all of several.
        """
        if not payloads.keys() <= self._activated.keys():
            self._list_nodes(deadline)
        self._payloads |= payloads
        self._due |= dict.fromkeys(payloads, 0.0)
        self._send_due(deadline)

    def _list_nodes(self, deadline: float) -> set[int]:
        """Note since when nodes are online; those that came back after the last time."""
        started = time.monotonic()
        nodes = call_until(deadline, self._grid.get_nodes, otherwise=[])
        activated = {info.node_id: info.last_activated_at for info in nodes}
        back = {node for node, at in activated.items() if self._activated.get(node, at) != at}
        self._activated |= activated
        now = time.monotonic()  # at most a tenth of the time; there may be thousands of nodes
        self._next_listing = now + max(_AWAY_POLL, 10 * (now - started))
        return back

    def _send_due(self, deadline: float) -> None:
        now = time.monotonic()
        room = None if self._window is None else max(0, self._window - len(self._waiting))
        nodes = list(islice((node for node, when in self._due.items() if when <= now), room))
        if not nodes or deadline <= now:
            return
        payloads = {node: self._payloads[node] for node in nodes if self._due.pop(node) <= now}
        records = {payload: wrap(payload) for payload in set(payloads.values())}
        messages = {
            node: Message(
                records[payload], node, MESSAGE_TYPE, ttl=deadline - now, group_id=self._group
            )
            for node, payload in payloads.items()
        }
        accepted = set(call_until(deadline, lambda: self._grid.push_messages([*messages.values()])))
        if not accepted and len(messages) > 1:
            raise _lost_link_error()
        for node, message in messages.items():
            if message.metadata.message_id in accepted:
                self._waiting[message.metadata.message_id] = node
            else:
                self._failed[node] = Failure("silent", "the SuperLink rejected the message.")

    def collect(self, deadline: float) -> dict[int, bytes | Failure]:
        """The replies since the last call, by node.

        A second reply to a message is ignored, and so is one that another node sent. Raises
        FederationError if the SuperLink fails, or does not have any of the messages any more.
        """
        answers: dict[int, bytes | Failure] = dict(self._failed)
        self._failed, ids = {}, list(self._waiting)
        replies: list[Message] = []
        if ids:
            replies += call_until(deadline, lambda: self._grid.pull_messages(ids), otherwise=[])
        lost = {
            self._waiting[reply.metadata.reply_to_message_id]
            for reply in replies
            if error_code(reply) == MESSAGE_UNAVAILABLE
            and reply.metadata.reply_to_message_id in self._waiting
        }
        waiting = set(self._waiting.values())
        if lost and lost == waiting and lost <= self._lost and not self._has_reply:
            raise _lost_link_error()  # all were lost twice
        self._lost |= lost
        for reply in replies:
            node = self._waiting.get(reply.metadata.reply_to_message_id)
            if node is None or (not reply.has_error() and reply.metadata.src_node_id != node):
                continue
            del self._waiting[reply.metadata.reply_to_message_id]
            if error_code(reply) in (MESSAGE_UNAVAILABLE, NODE_UNAVAILABLE):
                now = time.monotonic()
                if now - self._away_since.setdefault(node, now) < self._patience:
                    self._due[node] = now + _AWAY_POLL
                    continue
            self._away_since.pop(node, None)
            answers[node] = unwrap(reply)
            self._has_reply = True
        if self._waiting and time.monotonic() > self._next_listing:
            back = self._list_nodes(deadline) & set(self._waiting.values())
            self._waiting = {one: node for one, node in self._waiting.items() if node not in back}
            self._due |= dict.fromkeys(back, 0.0)
        self._send_due(deadline)
        return answers


def _lost_link_error() -> FederationError:
    """The error for a SuperLink that failed; it says nothing about any site."""
    return FederationError(
        "The link to the sites was lost: the SuperLink stopped passing on messages, or was"
        " restarted; see its log, and start the run again.",
        "cannot-connect",
    )


def call_until(
    deadline: float, call: Callable[[], Iterable[T]], otherwise: list[T] | None = None
) -> Iterable[T]:
    """The result of a call of the Grid; `otherwise` at the deadline, even if it never returns.

    FederationError if the call fails, because the run was stopped or the SuperLink has failed; also
    at the deadline, if there is no `otherwise`, or if the call waits long for a SuperLink.
    """
    future: Future[Iterable[T]] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    started = time.monotonic()
    Thread(target=work, daemon=True).start()
    while not future.done():
        now = time.monotonic()
        if now >= deadline:
            if otherwise is None or now - started > 5.0:
                raise _lost_link_error()
            return otherwise
        # Short waits, so that Flower's signal to stop is handled.
        wait([future], min(SLOW_POLL, deadline - now))
    try:
        return future.result()
    except Exception:
        raise _lost_link_error() from None


class GridFederation(RemoteFederation):
    """The sites of a Flower run.

    All messages of a round are sent at once, or with `window` at most that many at a time. A site
    that misses the timeout counts as silent.

    Parameters
    ----------
    grid : Flower's Grid
    nodes : Flower's id of each site's node
    timeout : seconds that a site may take for one reply
    on_progress : called with a sentence after each round, and if sites are away and may return
    window : the number of messages that may wait for a reply at a time; no limit when left out
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Mapping[str, int],
        timeout: float = 600.0,
        on_progress: Callable[[str], None] | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(tuple(nodes), timeout)
        self._grid, self._nodes, self._window = grid, dict(nodes), window
        self._on_progress = on_progress or (lambda _: None)
        self._rounds = 0
        self._activated: dict[int, str] = {}

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes | Failure]:
        """Send a message to each named site and collect what comes back within `timeout`."""
        started = time.monotonic()
        deadline = started + timeout
        self._rounds += 1
        names = {self._nodes[name]: name for name in messages if name in self._nodes}
        group = f"round {self._rounds}"
        queue = MessageQueue(self._grid, group, self._window, AWAY_SECONDS, self._activated)
        queue.send({node: messages[name] for node, name in names.items()}, deadline)
        answers: dict[str, bytes | Failure] = {}
        pause, announced = FAST_POLL, False
        while queue.has_pending and time.monotonic() < deadline:
            answers |= {names[node]: reply for node, reply in queue.collect(deadline).items()}
            if queue.away and not announced:
                away = [names[node] for node in queue.away]
                self._on_progress(f"Waiting for {join_names(away)} to return.")
                announced = True
            if queue.has_pending:
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(SLOW_POLL, 1.2 * pause)
        count = sum(isinstance(answer, bytes) for answer in answers.values())
        seconds = time.monotonic() - started
        self._on_progress(f"{count} of {len(messages)} sites answered in {seconds:.1f} s.")
        silent = Failure(
            "silent", f"no reply came within {timeout:g} seconds; check that its node is running."
        )
        return {name: answers.get(name, silent) for name in messages}


def join_names(names: list[str], word: str = ", ", most: int = 20) -> str:
    """Names with a word between them; of very many, the first and a number."""
    left = len(names) - most
    return word.join([*names[:most], f"{left:,} others"] if left > 0 else names)
