"""The split of one release's budget, from public numbers alone: samples, features, and the
guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["MOST_FEATURES", "Split", "split"]

#: With more features noise dominates the second moments; reduce features first, by a public map.
MOST_FEATURES = 256
_FIRST_FRACTION = 0.35  # of the mu^2 that cells leave, for the first sums
# The second sums clip at sqrt(d), the typical norm, plus this many standard deviations.
_TAIL = 1.6
_CELLS_FRACTION = 0.3  # of mu^2, for cells, if there are any
# If the request does not say how many cells there are, they are used under these conditions:
_MAX_CELL_ERROR = 0.15  # noise of a cell mean, in standard deviations of the data
_MIN_CELLS, _MAX_CELLS = 4, 32
_MAX_DIMENSION = 4  # in more dimensions cells that do not depend on the data miss the shape


@dataclass(frozen=True)
class Split:
    """Privacy losses mu of the first and second sums of moments and of the sums over cells, the
    number of cells, and the clip norm of the second sums."""

    mu_first: float
    mu_second: float
    mu_cells: float
    n_cells: int
    clip_norm: float


def split(n: int, d: int, mu: float, cells: int = -1) -> Split:
    """A split for n samples of d features; `cells` as in the request, -1 to choose it here."""
    clip_norm = math.sqrt(d) + _TAIL
    n_cells = cells
    if cells < 0:
        # The mean of a cell of n / S samples has noise 2 clip_norm / mu over that number.
        n_cells = int(_MAX_CELL_ERROR * n * mu * math.sqrt(_CELLS_FRACTION) / (2 * clip_norm))
        n_cells = 0 if n_cells < _MIN_CELLS or d > _MAX_DIMENSION else min(n_cells, _MAX_CELLS)
    for_cells = _CELLS_FRACTION if n_cells else 0.0
    for_first = _FIRST_FRACTION * (1 - for_cells)
    fractions = (for_first, 1 - for_cells - for_first, for_cells)
    mu_first, mu_second, mu_cells = (mu * math.sqrt(fraction) for fraction in fractions)
    return Split(mu_first, mu_second, mu_cells, n_cells, clip_norm)
