"""How long Flower waits for the parts of a message that is still being sent.

Flower announces a message before it sends its parts. Whoever fetches them too early waits for one
second, then two, then four. Most of a round with large messages was this wait, at both ends.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

__all__ = ["LONGEST_PAUSE", "PATIENCE", "SHORTEST_PAUSE", "shorten_pauses"]

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
