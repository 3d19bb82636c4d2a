"""Calibration of `value`: what the estimate adds to two samples of one population is subtracted.

Two disjoint halves of a sample are two independent samples of one population. Their exact squared
distance E0 is pure sampling noise. What a server would estimate from the summaries of both halves,
T0, differs from it, since rows are not normal inside cells, and since cells of few rows fit them
too well. A site measures both and sends E0 and T0. From an estimate T between two sites a server
then subtracts (T0 - E0) exp(1 - T / T0), since samples that are far apart are estimated well; below
T0 it subtracts the same part of T. For more rows E0 falls by a power law that halves and quarters
show, and T0 that much more slowly as it is above E0. Of the variants that were tried
(benchmarks/truth.md) this is the simplest within 0.5 points of the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedwad.statistics.cells import cell_means, effective_count, kmeans_cells
from fedwad.statistics.order import number_units
from fedwad.statistics.summaries import CovarianceType, Summary, resolve_covariance_type
from fedwad.statistics.synthetic import SyntheticSample, shares
from fedwad.transport.labels import ClassCovariance, labelled
from fedwad.transport.measures import Floats, Indices, LabelledMeasure, Measure, sorted_generator
from fedwad.transport.nearly import near_squares
from fedwad.transport.solving import solve

_Number = TypeVar("_Number", float, Floats)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Squared distances between halves of one client's rows, averaged over random splits.

    Attributes
    ----------
    size : float
        Rows in a half, Kish's effective number when they are weighted.
    noise, noise_quarter : float
        Exact squared distance between two halves, and between the two halves of a half.
    noise_std : float
        Standard deviation of the former over splits.
    synthetic : float
        What a server estimates from the summaries of two halves.
    """

    size: float
    noise: float
    noise_quarter: float
    noise_std: float
    synthetic: float

    @property
    def exponent(self) -> float:
        """Exponent b of noise(n) = noise * (n / size)^-b, between that of samples that do not come
        closer and a little more than that of variances."""
        if not (self.noise > 0 and self.noise_quarter > 0):
            return 0.5
        return float(np.clip(np.log2(self.noise_quarter / self.noise), 0.0, 1.1))

    def noise_at(self, n: _Number) -> _Number:
        """Squared distance between two samples of n rows of this population."""
        falls: _Number = (n / self.size) ** -self.exponent
        return self.noise * falls

    def synthetic_at(self, n: _Number) -> _Number:
        """What a server would estimate for two samples of n rows of this population: an estimate
        that is too high by a factor falls that much more slowly than the noise."""
        if not self.synthetic > 0:
            return self.noise_at(n)
        exponent = min(self.exponent * self.noise / self.synthetic, 1.1)
        falls: _Number = (n / self.size) ** -exponent
        return self.synthetic * falls

    def fluctuation_at(self, n: _Number) -> _Number:
        """Standard deviation of the same over samples; it falls at least as that of a mean."""
        falls: _Number = (n / self.size) ** -max(self.exponent, 0.5)
        return self.noise_std * falls


def calibrate(
    measure: Measure,
    cells: int = 10,
    covariance_type: CovarianceType = "auto",
    min_cell_size: int = 10,
    support: Floats | None = None,
    digest: str = "",
    codes: NDArray[np.int64] | None = None,
    class_covariance: ClassCovariance = "diag",
    units: Indices | None = None,
    splits: int = 4,
    largest_half: int = 150,
) -> Calibration:
    """Measure the sampling noise of a sample, and the server's error, on splits of its own rows.

    The splits depend on the data alone, so repeated requests get the same numbers. Below eight rows
    the error of the estimator is not measured, `synthetic` is then `noise`. A single row has no
    noise that could be measured, and gets zero.

    Parameters
    ----------
    measure : the sample
    cells, covariance_type, min_cell_size : as in the summary
    support : if cells are those of transport to these points, which a server shares between sites,
        and not of k-means; a half has one cell for each, but at most one for two rows
    digest : SHA-256 of data whose rows are sorted already, so that they are not hashed again
    codes, class_covariance : the class of each row; distances are those of labelled samples
    units : the unit of each row; halves have different units, whose rows depend on each other
    splits, largest_half : random splits, and rows of a half at most, or four for each point of the
        support. With 8 splits or with 300 rows errors are the same and the time doubles
        (`python -m benchmarks calibration`)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> c = calibrate(Measure(rng.normal(size=(400, 10))))
    >>> 4.5 < c.noise_at(400) < 6.5, 0.9 < c.synthetic / c.noise < 1.2
    (True, True)
    """
    if support is not None:
        largest_half = max(largest_half, 4 * len(support))
    size = min(len(measure) // 2, largest_half)
    if size < 1:
        return Calibration(1.0, 0.0, 0.0, 0.0, 0.0)
    order, rng = sorted_generator(measure, "calibration", digest)
    if codes is None:  # with classes "auto" is never "diag"
        covariance_type = resolve_covariance_type(covariance_type, measure.dimension)
    numbers = None if units is None else number_units(units[order], rng)
    parts: dict[int, Measure] = {}
    pairs: dict[str, list[tuple[int, int]]] = {"halves": [], "quarters": [], "synthetic": []}

    def add(kind: str, *both: Measure) -> None:
        pairs[kind].append((len(parts), len(parts) + 1))
        parts.update(enumerate(both, len(parts)))

    def part(rows: Indices) -> Measure:
        plain = Measure(measure.points[rows], measure.weights[rows])
        return plain if codes is None else labelled(plain, codes[rows], class_covariance)

    for _ in range(splits):
        if numbers is None:
            drawn = order[rng.choice(len(order), 2 * size, replace=False)]
        else:  # whole units one after the other, so that at most one is in both halves
            drawn = order[np.argsort(rng.permutation(int(numbers.max()) + 1)[numbers])[: 2 * size]]
        halves = drawn[:size], drawn[size:]
        one, two = map(part, halves)
        add("halves", one, two)
        if size >= 2:
            for half in halves:
                add("quarters", part(half[: size // 2]), part(half[size - size // 2 :]))
        if size >= 4:
            recipe = cells, covariance_type, min_cell_size, support
            add("synthetic", *(_synthetic(half, recipe, rng) for half in (one, two)))
    every = [pair for some in pairs.values() for pair in some]
    found = dict(near_squares(parts, every, compiled=lambda _: False))
    noise, quarter, synthetic = (
        np.array([found[pair] for pair in some]) for some in pairs.values()
    )
    ratio = 1.0
    if len(synthetic) and (synthetic > 0).all() and (noise > 0).all():
        # Each estimate is compared with the same halves, so that their fluctuations cancel.
        ratio = float(np.exp(np.log(synthetic / noise).mean()))
    return Calibration(
        size=float(np.mean([effective_count(parts[k].weights) for k, _ in pairs["halves"]])),
        noise=float(noise.mean()),
        noise_quarter=float(quarter.mean()) if len(quarter) else 0.0,
        noise_std=float(noise.std(ddof=1)),
        synthetic=float(noise.mean()) * ratio,
    )


#: Cells, covariance type, minimum cell size and support of a summary, as in `calibrate`.
_Recipe = tuple[int, CovarianceType, int, Floats | None]


def _synthetic(part: Measure, recipe: _Recipe, rng: np.random.Generator) -> Measure:
    """A synthetic sample as a server draws it from the summary of these rows, class by class."""
    size = len(part)
    if not isinstance(part, LabelledMeasure):
        return Measure(_normal_cells(part, recipe, rng).points(size, rng))
    classes = len(part.table)
    counts = shares(np.bincount(part.codes, part.weights, classes), size)
    cells, covariance_type, min_cell_size, _ = recipe
    of_class = max(1, cells // classes), covariance_type, min_cell_size, None
    points = []
    for code, count in enumerate(counts.tolist()):
        rows = part.codes == code
        own = Measure(part.features[rows], part.weights[rows])
        points.append(_normal_cells(own, of_class, rng).points(count, rng))
    return LabelledMeasure(
        np.concatenate(points), np.repeat(np.arange(classes), counts), part.table
    )


def _normal_cells(part: Measure, recipe: _Recipe, rng: np.random.Generator) -> SyntheticSample:
    """The cells of a summary of these rows, to draw from.

    The deviations of the rows are a factor of their covariance, so that no matrix is formed. A low
    rank is about the same as all of it.
    """
    cells, covariance_type, min_cell_size, support = recipe
    points, mass = part.points, part.weights
    if support is None:
        labels: Indices = kmeans_cells(part, cells, min_cell_size, int(rng.integers(2**31)))
    else:
        count = max(1, min(len(support), len(part) // 2))
        plan = solve(part, Measure(support[rng.permutation(len(support))[:count]]))
        points, mass, labels = points[plan.rows], plan.mass, plan.cols
    (weights, means), d = cell_means(points, mass, labels), part.dimension
    factors = np.sqrt(mass)[:, None] * (points - means[labels])
    summary = Summary(weights, means, np.zeros(d), len(part), 0.0, 2.0, min_cell_size)
    if covariance_type == "spherical":
        return SyntheticSample(summary, np.full(d, np.sqrt((factors**2).sum() / d)), None)
    if covariance_type == "diag":
        return SyntheticSample(summary, np.sqrt((factors**2).sum(axis=0)), None)
    return SyntheticSample(summary, None, factors)


@dataclass(frozen=True, eq=False)
class SampleDistances:
    """Distances between N samples, (N, N) arrays with zeros on the diagonal.

    Attributes
    ----------
    value : calibrated distance
    noise : distance that two samples of these sizes of one population have
    error : standard error of the squared distance over samples
    """

    value: Floats
    noise: Floats
    error: Floats


def sample_distances(
    squares: Floats,
    calibrations: Sequence[Calibration],
    counts: Sequence[float],
    variance: Floats | None = None,
) -> SampleDistances:
    """Calibrated distances between N samples from estimated squared ones (N, N).

    Numbers of a pair are geometric means of those of both sites, at the harmonic mean of their
    numbers of rows: two means over n and m rows differ by as much as two over so many each.

    `variance`, if it is known, is that of squared distances far from equality, by the potentials of
    a transport between cells. Near equality the fluctuation that sites measure on splits counts.
    """
    sizes = np.array(counts, dtype=float)
    common = 2 * sizes[:, None] * sizes / (sizes[:, None] + sizes)

    def of_pairs(curves: list[Floats]) -> Floats:
        return np.asarray(np.sqrt(np.array(curves) * np.array(curves).T))

    exact = of_pairs([c.noise_at(n) for c, n in zip(calibrations, common, strict=True)])
    estimated = of_pairs([c.synthetic_at(n) for c, n in zip(calibrations, common, strict=True)])
    kappa = np.where(estimated > 0, exact / np.where(estimated > 0, estimated, 1.0), 1.0)
    near = np.minimum(squares, estimated)
    fluctuation = of_pairs([c.fluctuation_at(n) for c, n in zip(calibrations, common, strict=True)])
    error2 = fluctuation**2 + (0.0 if variance is None else variance)

    def root(square: Floats) -> Floats:
        rooted = np.sqrt(np.maximum(square, 0.0))
        np.fill_diagonal(rooted, 0.0)
        return np.asarray(rooted)

    far = np.maximum(estimated, exact)  # so that corrected estimates stay in order
    fallen = np.exp((near - squares) / np.where(far > 0, far, 1.0))
    value2 = squares - (1 - kappa) * near * fallen
    return SampleDistances(root(value2), root(exact), root(error2))
