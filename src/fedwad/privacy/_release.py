"""One release: all that a site sends under one guarantee, computed from noisy sums alone.

1. Samples are clipped to the public clip norm. Noisy sums of (x, x x^T) give a first mean and
   covariance.
2. These define a whitening, after which the data have about mean zero and covariance one. It uses
   already released numbers only, so it loses no further privacy. The whitened samples are clipped
   again, at little more than their typical norm. Second noisy sums of (x, x x^T) then have
   relatively little noise.
3. If the split of the budget has cells, noisy sums of (x, 1) over cells around public whitened
   centres describe the shape. A split has cells if there are few features and the means of cells
   are accurate in spite of their noise. With labels, the cells are the classes.

From top to bottom: the split of the budget, from public numbers alone; positive semidefinite
covariances from noisy moments; sums over records and their sensitivity to one record; the release.

All records lie in the unit ball: the caller has clipped them and divided by the clip norm.
Neighbouring data differ by the replacement of one record; the number of records is public.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedwad.privacy._mechanism import SUM_UNIT, RandomBytes, add_noise
from fedwad.statistics.cells import group_sums, kmeans_cells
from fedwad.transport import Floats, Measure
from fedwad.transport.measures import row_slices

#: With more features noise dominates the second moments; reduce features first, by a public map.
MOST_FEATURES = 256


@dataclass(frozen=True)
class Split:
    """Privacy losses mu of the first and second sums of moments and of the sums over cells, the
    number of cells, and the clip norm of the second sums."""

    mu_first: float
    mu_second: float
    mu_cells: float
    n_cells: int
    clip_norm: float


def split(
    n: int,
    d: int,
    mu: float,
    cells: int = -1,
    first: float = 0.35,
    tail: float = 1.6,
    for_cells: float = 0.3,
    cell_error: float = 0.15,
) -> Split:
    """A split for n samples of d features; `cells` are the classes of a request, -1 without.

    Cells get the fraction `for_cells` of mu^2, if there are any, and the first sums the fraction
    `first` of the rest. The second sums clip at sqrt(d), the typical norm, plus `tail` standard
    deviations. Chosen here are 4 to 32 cells whose means have noise of `cell_error` standard
    deviations of the data; in more than 4 features cells that do not depend on the data miss the
    shape.
    """
    clip_norm = math.sqrt(d) + tail
    n_cells = cells
    if cells < 0:
        # The mean of a cell of n / S samples has noise 2 clip_norm / mu over that number.
        n_cells = int(cell_error * n * mu * math.sqrt(for_cells) / (2 * clip_norm))
        n_cells = 0 if n_cells < 4 or d > 4 else min(n_cells, 32)
    for_cells = for_cells if n_cells else 0.0
    for_first = first * (1 - for_cells)
    fractions = (for_first, 1 - for_cells - for_first, for_cells)
    mu_first, mu_second, mu_cells = (mu * math.sqrt(fraction) for fraction in fractions)
    return Split(mu_first, mu_second, mu_cells, n_cells, clip_norm)


def nearest_psd(covariance: Floats) -> Floats:
    """The nearest matrix without negative eigenvalues and with the same trace.

    To set negative eigenvalues to zero would increase the trace, which noise does not bias. If the
    trace is not positive, that of the result is almost zero.
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    trace = max(float(values.sum()), 1e-12 * float(np.abs(values).max()), 1e-300)
    return np.asarray((vectors * nearest_in_simplex(values, trace)) @ vectors.T)


def nearest_in_simplex(values: Floats, total: float) -> Floats:
    """The nearest non-negative numbers with this sum, along the last axis."""
    count = values.shape[-1]
    descending = np.sort(values, axis=-1)[..., ::-1]
    shifts = (np.cumsum(descending, axis=-1) - total) / np.arange(1, count + 1)
    positive = descending > shifts
    last_positive = count - 1 - np.argmax(positive[..., ::-1], axis=-1)[..., None]
    shift = np.take_along_axis(shifts, last_positive, axis=-1)
    return np.asarray(np.maximum(values - shift, 0.0))


def project_psd(covariance: Floats, scales: Floats) -> Floats:
    """`nearest_psd` for noise that differs by coordinate: nearest in units of `scales`.

    The result has the same trace, or zero if that is negative.
    """
    d = len(scales)
    projected = nearest_psd(covariance / np.outer(scales, scales)) * np.outer(scales, scales)
    trace, projected_trace = float(np.trace(covariance)), float(np.trace(projected))
    if trace <= 0 or projected_trace <= 0:  # nothing but noise
        return np.asarray(np.eye(d) * max(trace, 0.0) / d)
    return np.asarray(projected * (trace / projected_trace))


#: Sensitivity of the moments. For unit vectors with u.v = s the square is 2 (1 - s) + 2 (1 - s^2),
#: largest at s = -1/2.
MOMENT_SENSITIVITY = math.sqrt(4.5)
#: Sensitivity of the sums of (x, 1) over cells: sqrt(2 + 2) if the record changes cells, |u - v| <=
#: 2 if it does not.
CELL_SENSITIVITY = 2.0


def clip_to_unit_ball(points: Floats) -> Floats:
    """Points projected radially onto the unit ball; points that overflow go to its centre."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt(_row_sums(points**2))[:, None]
        inside = points / np.maximum(length, 1.0)
    return np.where(np.isfinite(inside), inside, 0.0)


def moment_sums(points: Floats) -> NDArray[np.int64]:
    """Sums of (x, x x^T) in multiples of SUM_UNIT, as one vector.

    The matrix is given by its upper triangle, with the factor sqrt(2) off the diagonal. So the norm
    of the triangle is the Frobenius norm of the matrix.
    """
    d = points.shape[1]
    rows, cols = np.triu_indices(d)
    factor = np.where(rows == cols, 1.0, math.sqrt(2.0))
    total = np.zeros(d + len(rows), dtype=np.int64)
    for some in row_slices(len(points), len(total)):
        block = points[some]
        total[:d] += _in_units(block).sum(axis=0)
        total[d:] += _in_units(block[:, rows] * block[:, cols] * factor).sum(axis=0)
    return total


def unpack_moments(vector: Floats, d: int) -> tuple[Floats, Floats]:
    """The parts x and x x^T of a vector as `moment_sums` returns it."""
    rows, cols = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[rows, cols] = vector[d:] / np.where(rows == cols, 1.0, math.sqrt(2.0))
    return vector[:d], np.asarray(matrix + np.triu(matrix, 1).T)


def cell_sums(points: Floats, centres: Floats) -> NDArray[np.int64]:
    """For each centre the sum of (x, 1) over the points that are nearest to it, (S, d + 1), in
    multiples of SUM_UNIT."""
    nearest = np.empty(len(points), dtype=np.int64)
    for some in row_slices(len(points), len(centres)):
        squares = [_row_sums((points[some] - centre) ** 2) for centre in centres]
        nearest[some] = np.array(squares).argmin(axis=0)
    return class_sums(points, nearest, len(centres))


def class_sums(points: Floats, classes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each class the sum of (x, 1) over its points, (count, d + 1), in multiples of SUM_UNIT.

    Points of class -1 are left out. The sensitivity is that of cells, because a record is replaced
    together with its label.
    """
    d = points.shape[1]
    has_class = classes >= 0
    total = np.zeros((count, d + 1), dtype=np.int64)
    np.add.at(total[:, :d], classes[has_class], _in_units(points[has_class]))
    np.add.at(total[:, d], classes[has_class], round(1 / SUM_UNIT))
    return total


def multiply_rows(points: Floats, matrix: Floats) -> Floats:
    """points @ matrix, each row by itself.

    The last bits of a matrix product can depend on other rows. Here they do not, so replacing one
    record changes nothing that other records add.
    """
    product = np.zeros((len(points), matrix.shape[1]))
    for column, row in zip(points.T, matrix, strict=True):
        product += column[:, None] * row
    return product


def _row_sums(values: Floats) -> Floats:
    """The sum of each row, whose last bits do not depend on other rows."""
    total = np.zeros(len(values))
    for column in values.T:
        total += column
    return total


def _in_units(contributions: Floats) -> NDArray[np.int64]:
    """What records add to sums, rounded to multiples of SUM_UNIT."""
    return np.rint(contributions / SUM_UNIT).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy means over n samples, in units of the clip norm of each sum, and their noise.

    Attributes
    ----------
    count : number of samples, which is public
    clip_norm, origin : of the first sums, which are over u = (x - origin) / clip_norm
    first_mean, first_second : (d,), (d, d), first moment (mean) and second moment of u: the means
        of u and u u^T
    centre, whitening : of the second sums, which are over z = whitening (x - centre) /
        whitened_clip_norm; whitening is (d, d) and symmetric
    whitened_clip_norm : clip norm of the whitened samples
    mean, second : (d,), (d, d), first and second moment of z: the means of z and z z^T
    centres : (S, d), of the cells, in the units of z; none if S is 0
    masses, sums : (S,), (S, d), for each cell s the noisy sums of 1 and of z over its samples,
        divided by n: masses[s] = sum_{i in s} 1 / n, sums[s] = sum_{i in s} z_i / n
    noise : (3,), standard deviation of each number of the first sums, the second sums and the
        cells; smaller by sqrt(2) off the diagonal of a second moment
    """

    count: int
    clip_norm: float
    origin: Floats
    first_mean: Floats
    first_second: Floats
    centre: Floats
    whitening: Floats
    whitened_clip_norm: float
    mean: Floats
    second: Floats
    centres: Floats
    masses: Floats
    sums: Floats
    noise: Floats


def release(
    points: Floats,
    clip_norm: float,
    origin: Floats,
    split: Split,
    random_bytes: RandomBytes = os.urandom,
    classes: NDArray[np.int64] | None = None,
) -> Release:
    """The release of these samples under a split of the budget, which the caller has already spent.

    Centres are those of k-means cells of a standard normal distribution. With `classes`, the index
    of each sample's label among the public names (-1 for none), the cells are the classes, and
    their centres are zero.
    """
    n, d = points.shape
    first = clip_to_unit_ball((points - origin) / clip_norm)
    sums, first_noise = add_noise(
        moment_sums(first), MOMENT_SENSITIVITY, split.mu_first, random_bytes
    )
    first_mean, first_second_moment = unpack_moments(sums / n, d)
    # On average, m m^T is too large by the variance of the noise in m, which is added back.
    noise = first_noise / n
    covariance = first_second_moment - np.outer(first_mean, first_mean) + noise**2 * np.eye(d)
    values, vectors = np.linalg.eigh(nearest_psd(covariance))
    values = np.maximum(values, max(noise * math.sqrt(d), 1e-12))  # what is below is noise
    whitening = (vectors / np.sqrt(values)) @ vectors.T / clip_norm
    whitening = (whitening + whitening.T) / 2
    centre = origin + clip_norm * first_mean
    # Whitening takes the clipped samples, which are bounded for any data.
    whitened = clip_to_unit_ball(
        multiply_rows(origin + clip_norm * first - centre, whitening / split.clip_norm)
    )
    sums, second_noise = add_noise(
        moment_sums(whitened), MOMENT_SENSITIVITY, split.mu_second, random_bytes
    )
    mean, second_moment = unpack_moments(sums / n, d)
    centres = np.zeros((split.n_cells, d))
    cells, cell_noise = np.zeros((0, d + 1)), 0.0
    if split.n_cells:
        if classes is not None:
            exact = class_sums(whitened, classes, split.n_cells)
        else:
            centres = _normal_centres(split.n_cells, d) / split.clip_norm
            exact = cell_sums(whitened, centres)
        cells, cell_noise = add_noise(exact, CELL_SENSITIVITY, split.mu_cells, random_bytes)
    return Release(
        count=n,
        clip_norm=clip_norm,
        origin=origin,
        first_mean=first_mean,
        first_second=first_second_moment,
        centre=centre,
        whitening=whitening,
        whitened_clip_norm=split.clip_norm,
        mean=mean,
        second=second_moment,
        centres=centres,
        masses=cells[:, d] / n,
        sums=cells[:, :d] / n,
        noise=np.array([first_noise, second_noise, cell_noise]) / n,
    )


@cache
def _normal_centres(count: int, d: int, draws_each: int = 50) -> Floats:
    """Centres of k-means cells of a standard normal distribution, always the same."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((draws_each * count, d))
    labels = kmeans_cells(Measure(draws), count, min_size=1)
    groups = int(labels.max()) + 1
    sums: Floats = group_sums(draws, labels, groups)
    centres = sums / np.bincount(labels, minlength=groups)[:, None]
    centres.setflags(write=False)
    return centres
