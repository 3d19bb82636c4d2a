"""What a client shares for a permutation test: means of functions over blocks of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwad.errors import InputError
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._order import data_order

__all__ = ["Blocks", "Embedding", "block_means", "block_size"]

#: Largest number of blocks that a client shares; rows beyond are left out.
MAX_BLOCKS = 100
#: Usual number of blocks of the smallest site.
USUAL_BLOCKS = 20
#: Numbers of a block, as a part of the numbers in its rows: above one they could be solved for.
MAX_SHARE = 0.5
_FOURIER, _PROJECTIONS, _SEED = 200, 40, 20250301
_WAVE = 2.0  # of the cosine of a single feature, which sees humps and tails


@dataclass(frozen=True, eq=False)
class Blocks:
    """Means over blocks of equally many rows.

    Attributes
    ----------
    rows : int
        Rows in every block, the same at all sites.
    means : array (B, K)
        Mean of each of the K functions over each block.
    segments : tuple of (str, int)
        What the functions are, and how many of each kind.
    """

    rows: int
    means: Floats
    segments: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Functions of a row whose means are compared.

    They are the standardised features, their squares, their cosines, squares of random projections
    and random Fourier features. Centre and scale are public numbers of the request. All random
    numbers come from a fixed public seed. `budget` limits how many functions there are: features
    come first, then squares, cosines, and the random ones in equal parts.
    """

    centre: Floats
    scale: Floats
    budget: int

    @property
    def segments(self) -> tuple[tuple[str, int], ...]:
        """How many functions of each kind fit into the budget."""
        left, found = self.budget, []
        dimension = len(self.centre)
        for name in ("mean", "square", "cosine"):
            if left >= dimension:
                found.append((name, dimension))
                left -= dimension
        if dimension > 1:
            projections = min(_PROJECTIONS, left // 3)
            found.append(("projection", projections))
            left -= projections
        found.append(("fourier", min(_FOURIER, left) // 2 * 2))
        return tuple((name, count) for name, count in found if count)

    def __call__(self, points: Floats) -> Floats:
        """All functions of each row, (n, K)."""
        z = (points - self.centre) / self.scale
        return np.concatenate([self._part(name, count, z) for name, count in self.segments], axis=1)

    def _part(self, name: str, count: int, z: Floats) -> Floats:
        if name == "projection":
            return np.asarray((z @ self._directions(count)) ** 2)
        if name == "fourier":
            angles = z @ self._frequencies(count // 2)
            return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return {"mean": z, "square": z**2, "cosine": np.cos(_WAVE * z)}[name]

    def _directions(self, count: int) -> Floats:
        """Random signs, the first all equal: a correlation common to all features shows there."""
        dimension = len(self.centre)
        signs = np.random.default_rng([_SEED, 1]).choice([-1.0, 1.0], (dimension, count))
        signs[:, 0] = 1.0
        return np.asarray(signs / np.sqrt(dimension))

    def _frequencies(self, count: int) -> Floats:
        """Of the Gaussian kernel whose width is the usual distance of two standardised rows."""
        dimension = len(self.centre)
        normal = np.random.default_rng([_SEED, 2]).standard_normal((dimension, count))
        return np.asarray(normal / np.sqrt(2 * dimension))


def block_size(counts: list[int], min_cell_size: int = 10) -> int:
    """Rows in a block for sites with these numbers of rows: a twentieth of the smallest site."""
    return max(min_cell_size, min(counts) // USUAL_BLOCKS)


def block_means(
    measure: Measure,
    rows: int,
    centre: Floats | None = None,
    scale: Floats | None = None,
    min_cell_size: int = 10,
) -> Blocks:
    """Means over blocks of `rows` rows, dealt in an order that depends on the data alone.

    Rows that fill no block are left out, fewer than `rows` of them. Blocks of equal size at all
    sites are exchangeable when the populations agree, whatever the numbers of rows.

    Parameters
    ----------
    measure : Measure with equal weights
    rows : rows in a block, at least `min_cell_size`
    centre, scale : arrays (d,), optional
        Public numbers to standardise by; 0 and 1 when left out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> blocks = block_means(Measure(rng.normal(size=(105, 3))), rows=10)
    >>> blocks.means.shape, blocks.segments
    ((10, 15), (('mean', 3), ('square', 3), ('cosine', 3), ('projection', 2), ('fourier', 4)))
    """
    if rows < min_cell_size:
        raise InputError(
            f"Blocks of {rows} rows were asked for; give at least {min_cell_size} rows."
        )
    if not measure.is_uniform:
        raise InputError("The rows have weights; a permutation test needs rows of equal weight.")
    count = min(len(measure) // rows, MAX_BLOCKS)
    if count < 1:
        raise InputError(
            f"There are {len(measure)} rows for blocks of {rows}; give smaller blocks."
        )
    embedding = embedding_of(measure.dimension, rows, centre, scale)
    order, _ = data_order(measure, f"blocks of {rows}")
    values = embedding(measure.rows(order[: count * rows]))
    means = values.reshape(count, rows, -1).mean(axis=1)
    return Blocks(rows, np.asarray(means), embedding.segments)


def embedding_of(
    dimension: int, rows: int, centre: Floats | None, scale: Floats | None
) -> Embedding:
    """The functions for blocks of so many rows, with no more numbers than MAX_SHARE allows."""
    middle = np.zeros(dimension) if centre is None else np.asarray(centre, dtype=np.float64)
    unit = np.ones(dimension) if scale is None else np.asarray(scale, dtype=np.float64)
    if middle.shape != (dimension,) or unit.shape != (dimension,) or not (unit > 0).all():
        raise InputError(f"Centre and scale must be {dimension} numbers each, and scales positive.")
    return Embedding(middle, unit, int(MAX_SHARE * rows * dimension))
