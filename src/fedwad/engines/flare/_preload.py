"""Load libraries and compiled code before the first round of a run."""

from __future__ import annotations

import os

from fedwad._distance.api import distance

__all__ = ["preload"]


def preload() -> None:
    """Load libraries and compiled code, in a process that does nothing but fedwad's work.

    POT would load PyTorch if it is installed, which takes seconds and is not needed here.
    """
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
    points = [[float(k), float(k % 3)] for k in range(40)]
    distance(points, points[::-1], method="fedwad", support=2, rounds=1)
