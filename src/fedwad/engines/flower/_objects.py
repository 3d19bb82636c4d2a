"""Where Flower waits for messages: for parts that are still being sent, and in simulations.

Flower announces a message before it sends its parts. Whoever fetches them too early waits for one
second, then two, then four. In a simulation it searches all messages for each node, time and
again: 48 ms of processor time a message with 10,000 nodes.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

__all__ = [
    "LONGEST_PAUSE",
    "PATIENCE",
    "SHORTEST_PAUSE",
    "search_where_messages_wait",
    "shorten_pauses",
]

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between two tries
PATIENCE = 600.0  # seconds for all tries


def shorten_pauses() -> None:
    """Let the Grid of this process try again sooner. Versions that differ keep their own pauses."""
    try:
        http_grid = import_module("flwr.superlink.grid.http_grid")
        plain = http_grid.pull_objects
    except (ImportError, AttributeError):
        return
    if not isinstance(plain, partial):
        replacement = partial(
            plain,
            max_time=PATIENCE,
            max_tries_per_object=None,
            initial_backoff=SHORTEST_PAUSE,
            backoff_cap=LONGEST_PAUSE,
        )
        http_grid.pull_objects = replacement  # type: ignore[attr-defined]


def search_where_messages_wait(grid: Any) -> None:
    """Let a simulation search only for nodes to which a message was sent.

    Versions that differ keep their own search. A node is left out before its messages are searched,
    and put back if there was one, so that a message that is stored meanwhile is not lost.
    """
    state = getattr(grid, "state", None)
    store = getattr(state, "store_message_ins", None)
    search = getattr(state, "get_message_ins", None)
    if state is None or store is None or search is None:
        return
    waiting: set[int] = set()

    def store_and_note(message: Any) -> Any:
        stored = store(message)
        waiting.add(message.metadata.dst_node_id)
        return stored

    def search_if_noted(node_id: int, *rest: Any, **options: Any) -> Any:
        if node_id not in waiting:
            return []
        waiting.discard(node_id)
        found = search(node_id, *rest, **options)
        if found:
            waiting.add(node_id)
        return found

    state.store_message_ins, state.get_message_ins = store_and_note, search_if_noted
