"""Shared parts of figures: two widths, markers, and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedwad.report.page._text import tag

__all__ = ["both_widths", "marker_path", "round_ticks"]

_WIDE, _NARROW = 520, 300

# The markers of clusters of sites differ in shape and in colour. Six shapes and seven colours give
# 42 markers.
_SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "M-4.4 -4.4h8.8v8.8h-8.8z",
    "M0 -5.6L5.4 4H-5.4z",
    "M0 -6L6 0L0 6L-6 0z",
    "M-1.9 -5.4h3.8v3.5h3.5v3.8h-3.5v3.5h-3.8v-3.5h-3.5v-3.8h3.5z",
    "M0 5.6L5.4 -4H-5.4z",
)


def both_widths(draw: Callable[[int], str]) -> str:
    """The figure for a wide and for a narrow screen; the style sheet shows the one that fits."""
    return tag("div", draw(_WIDE), class_="wide") + tag("div", draw(_NARROW), class_="narrow")


def marker_path(cluster: int) -> str:
    """The outline of the marker of a cluster, given by its number from 0."""
    return _SHAPES[cluster % len(_SHAPES)]


def round_ticks(low: float, high: float, max_ticks: int = 6) -> list[float]:
    """At most about `max_ticks` round numbers from low to high.

    >>> round_ticks(0.0, 10.0)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / max(max_ticks - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(
        factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9)
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]
