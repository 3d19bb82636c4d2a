"""Messages on their way through Flower's Grid, with deadlines that Flower's own calls lack."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

from fedwad.engines.flower._messages import MESSAGE_TYPE, is_message_unavailable, unwrap, wrap
from fedwad.errors import FederationError
from fedwad.federation import Failure

__all__ = ["FAST_POLL", "SLOW_POLL", "MessageQueue", "list_nodes"]

T = TypeVar("T")

_HANG_SECONDS = 5.0  # a call that takes longer waits for a SuperLink that is gone
FAST_POLL, SLOW_POLL = 0.05, 0.5  # seconds between two polls: at first, and after a while


class MessageQueue:
    """Sends messages to nodes and collects their replies.

    Calls to the Grid may retry for ever. They run in threads of their own, so that a round ends at
    its deadline. `group` is Flower's group id of the messages. With `window`, at most that many
    messages wait for a reply at a time.
    """

    def __init__(self, grid: Grid, group: str, window: int | None = None) -> None:
        self._grid, self._group, self._window = grid, group, window
        self._unsent: dict[int, bytes] = {}  # payloads by node
        self._failed: dict[int, Failure] = {}  # by node; not yet collected
        self._waiting: dict[str, int] = {}  # nodes that have not replied, by the message's id
        self._has_reply = False

    @property
    def has_pending(self) -> bool:
        """Whether `collect` may still return a reply or a failure."""
        return bool(self._unsent or self._waiting or self._failed)

    def send(self, payloads: Mapping[int, bytes], deadline: float) -> None:
        """Send one message to each of these nodes, in one call unless a window keeps some back.

        `collect` sends what the window kept back. The next `collect` returns a Failure for each
        message that the SuperLink rejects. Raises FederationError if it rejects all of several.
        """
        self._unsent |= payloads
        self._fill_window(deadline)

    def _fill_window(self, deadline: float) -> None:
        room = None if self._window is None else max(0, self._window - len(self._waiting))
        chosen = list(islice(self._unsent, room))
        self._push({node: self._unsent.pop(node) for node in chosen}, deadline)

    def _push(self, payloads: Mapping[int, bytes], deadline: float) -> None:
        seconds = deadline - time.monotonic()
        if not payloads or seconds <= 0:
            return
        records = {payload: wrap(payload) for payload in set(payloads.values())}
        messages = {
            node: Message(records[payload], node, MESSAGE_TYPE, ttl=seconds, group_id=self._group)
            for node, payload in payloads.items()
        }
        try:
            accepted = set(
                _call_until(deadline, lambda: self._grid.push_messages(list(messages.values())))
            )
        except Exception:  # whichever way it failed, it was not a site
            raise _lost_link_error() from None
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
        self._failed = {}
        replies = self._pull(deadline)
        unavailable = {
            reply.metadata.reply_to_message_id for reply in replies if is_message_unavailable(reply)
        }
        if unavailable and unavailable >= set(self._waiting) and not self._has_reply:
            raise _lost_link_error()
        for reply in replies:
            node = self._waiting.get(reply.metadata.reply_to_message_id)
            if node is None or (not reply.has_error() and reply.metadata.src_node_id != node):
                continue
            del self._waiting[reply.metadata.reply_to_message_id]
            answers[node] = unwrap(reply)
            self._has_reply = True
        self._fill_window(deadline)
        return answers

    def _pull(self, deadline: float) -> list[Message]:
        """The replies that the SuperLink has; none if the deadline comes first."""
        if not self._waiting:
            return []
        message_ids, started = list(self._waiting), time.monotonic()
        try:
            return list(_call_until(deadline, lambda: self._grid.pull_messages(message_ids)))
        except TimeoutError:
            if time.monotonic() - started > _HANG_SECONDS:
                raise _lost_link_error() from None
            return []
        except Exception:  # the run was stopped, or the SuperLink has failed
            raise _lost_link_error() from None


def _lost_link_error() -> FederationError:
    """The error for a SuperLink that failed; it says nothing about any site."""
    return FederationError(
        "The link to the sites was lost: the SuperLink stopped passing on messages, or was"
        " restarted; see its log, and start the run again."
    )


def list_nodes(grid: Grid, deadline: float) -> list[Any]:
    """The nodes that are connected to the SuperLink; empty if it does not answer in time."""
    try:
        return list(_call_until(deadline, grid.get_nodes))
    except TimeoutError:
        return []


def _call_until(deadline: float, call: Callable[[], T]) -> T:
    """The result of a call. Raises TimeoutError at the deadline, even if the call never returns."""
    outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def put_outcome() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:
            outcome.put((None, error))

    Thread(target=put_outcome, daemon=True).start()
    while True:
        left = deadline - time.monotonic()
        try:  # a short timeout, so that Flower's signal to stop is handled
            value, error = outcome.get(timeout=min(SLOW_POLL, max(0.0, left)))
        except Empty:
            if left <= 0:
                raise TimeoutError from None
            continue
        if error is not None:
            raise error
        return value  # type: ignore[return-value]
