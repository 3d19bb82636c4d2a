"""The split of one release's budget, from public numbers alone: samples, features, and the
guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["MOST_FEATURES", "Split", "split"]

#: With more features noise dominates the second moments; reduce features first, by a public map.
MOST_FEATURES = 256
_FIRST = 0.35  # share of mu^2 for the first query, which only finds the scale
# The second query clips at sqrt(d), the typical norm, plus this many standard deviations.
_TAIL = 1.6
_CELLS = 0.3  # share of mu^2 for cells, if they are used
_SHARP = 0.15  # largest error of a cell mean, in standard deviations of the data, for their use
_FEWEST, _MOST = 4, 32
_FLAT = 4  # most features for their use: in more dimensions data-independent cells miss the shape


@dataclass(frozen=True)
class Split:
    """Costs mu of the two moment queries and of the cells, the number of cells, and the clipping
    norm of the second query."""

    first: float
    second: float
    cells: float
    count: int
    clip_norm: float


def split(n: int, d: int, mu: float, cells: int = -1) -> Split:
    """A split for n samples of d features; `cells` as in the request, -1 to choose it here."""
    clip_norm = math.sqrt(d) + _TAIL
    count = cells
    if cells < 0:
        # The mean of a cell of n / S samples has noise 2 clip_norm / mu over that number.
        count = int(_SHARP * n * mu * math.sqrt(_CELLS) / (2 * clip_norm))
        count = 0 if count < _FEWEST or d > _FLAT else min(count, _MOST)
    for_cells = _CELLS if count else 0.0
    first = _FIRST * (1 - for_cells)
    shares = (first, 1 - for_cells - first, for_cells)
    costs = [mu * math.sqrt(share) for share in shares]
    return Split(costs[0], costs[1], costs[2], count, clip_norm)
