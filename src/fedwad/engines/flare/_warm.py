"""What a new process loads before its first round, which would else wait for it."""

from __future__ import annotations

import os

from fedwad._distance.api import distance

__all__ = ["warm_up"]


def warm_up() -> None:
    """Load compiled code and libraries, in a process that does nothing but fedwad's work.

    POT loads PyTorch, where it is installed, for calculations that nobody asks for here; that takes
    seconds.
    """
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
    points = [[float(k), float(k % 3)] for k in range(40)]
    distance(points, points[::-1], support=2, rounds=1)
