"""How the budget of one release is split, from public numbers alone: samples, features, and the
promise."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["MOST_FEATURES", "Split", "split"]

#: Beyond, second moments drown in noise long before; features are to be reduced first, by a public
#: map.
MOST_FEATURES = 256
_FIRST = 0.35  # share of mu^2 for the first look, which only needs to find the scale
_TAIL = (
    1.6  # deviations beyond sqrt(d), the typical length, up to which the second look does not clip
)
_CELLS = 0.3  # share of mu^2 for cells, where they pay
_SHARP = 0.15  # error of a cell mean, in deviations of the data, up to which they do
_FEWEST, _MOST = 4, 32
_FLAT = (
    4  # features up to which they do: among many, cells that do not look at the data miss its shape
)


@dataclass(frozen=True)
class Split:
    """Costs mu of the two looks at the moments and of the cells; the number of cells; the radius of
    the second look."""

    first: float
    second: float
    cells: float
    count: int
    clip_norm: float


def split(n: int, d: int, mu: float, cells: int = -1) -> Split:
    """A split for n samples of d features; `cells` as in the request, -1 for as many as pay."""
    clip_norm = math.sqrt(d) + _TAIL
    count = cells
    if cells < 0:
        # The mean of a cell of n / S samples is off by noise radius 2 / mu over their number.
        count = int(_SHARP * n * mu * math.sqrt(_CELLS) / (2 * clip_norm))
        count = 0 if count < _FEWEST or d > _FLAT else min(count, _MOST)
    for_cells = _CELLS if count else 0.0
    first = _FIRST * (1 - for_cells)
    shares = (first, 1 - for_cells - first, for_cells)
    costs = [mu * math.sqrt(share) for share in shares]
    return Split(costs[0], costs[1], costs[2], count, clip_norm)
