"""Sites behind Flower's Grid as a federation: one message to each site per round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from flwr.serverapp import Grid

from fedwad.engines.flower._queue import FAST_POLL, SLOW_POLL, MessageQueue
from fedwad.federation import Failure, RemoteFederation

__all__ = ["GridFederation"]


class GridFederation(RemoteFederation):
    """The sites of a Flower run.

    All messages of a round are sent at once, or with `window` at most that many at a time. A site
    that misses the timeout counts as silent.

    Parameters
    ----------
    grid : Flower's Grid
    nodes : Flower's id of each site's node
    timeout : seconds that a site may take for one reply
    callback : called after each round with the numbers of replies and of messages, and the seconds
    window : the number of messages that may wait for a reply at a time; no limit when left out
    """

    def __init__(
        self,
        grid: Grid,
        nodes: Mapping[str, int],
        timeout: float = 600.0,
        callback: Callable[[int, int, float], None] | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(tuple(nodes), timeout)
        self._grid, self._nodes, self._callback = grid, dict(nodes), callback
        self._window = window
        self._rounds = 0

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes | Failure]:
        """Send a message to each named site and collect what comes back within `timeout`."""
        started = time.monotonic()
        self._rounds += 1
        names = {self._nodes[name]: name for name in messages if name in self._nodes}
        queue = MessageQueue(self._grid, f"round {self._rounds}", self._window)
        queue.send({node: messages[name] for node, name in names.items()}, started + timeout)
        replies = _collect_all(queue, started + timeout)
        answers = {names[node]: reply for node, reply in replies.items()}
        if self._callback is not None:
            count = sum(isinstance(answer, bytes) for answer in answers.values())
            self._callback(count, len(messages), time.monotonic() - started)
        silent = Failure(
            "silent", f"no reply came within {timeout:g} seconds; check that its node is running."
        )
        return {name: answers.get(name, silent) for name in messages}


def _collect_all(queue: MessageQueue, deadline: float) -> dict[int, bytes | Failure]:
    """The replies of all nodes that answer before the deadline."""
    replies: dict[int, bytes | Failure] = {}
    pause = FAST_POLL
    while queue.has_pending and time.monotonic() < deadline:
        replies |= queue.collect(deadline)
        if queue.has_pending:
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(SLOW_POLL, 1.2 * pause)
    return replies
