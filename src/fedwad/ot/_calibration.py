"""What a client measures on splits of its own rows: its sampling noise and the estimator's error.

Two disjoint halves of a sample are two independent samples of one population. Their exact distance
is pure sampling noise. The distance that a server would estimate from the summaries of both halves
shows how wrong that estimate is for populations that overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._cells import effective_counts, kmeans_cells
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._order import data_order
from fedwad.ot._plan import Plan
from fedwad.ot._solve import solve
from fedwad.ot._summary import Form, summarise
from fedwad.ot._twin import Twin as Synthetic

__all__ = ["Calibration", "calibrate", "fit_gamma", "power_law"]

#: Largest number of rows in a half. More rows are represented by halves of this size.
MAX_HALF = 400
#: Largest number of points of a synthetic sample.
MAX_DRAWN = 600
#: Largest number of rows in a half that is summarised.
MAX_SUMMARISED = 4000
#: Fewest rows in a half for which the estimator's error is measured.
MIN_HALF = 10
#: Smallest and largest exponent of a power law of sampling noise.
EXPONENTS = (0.02, 1.1)
_DEFAULT_EXPONENT = 0.4
_SUMMARISED = 3000  # rows in all splits that are summarised, about
_SCALE_SPLITS = 32  # they need no transport
_ROWS, _MIN_SPLITS, _MAX_SPLITS, _DRAWS = 1600, 4, 16, 2
_GAMMAS = np.linspace(1.0, 6.0, 51)
_GAMMA, _GAMMA_WEIGHT = 2.0, 1e-5  # prior of the fit and its weight, in squared relative errors
_SHARES = (0.75, 1.0)

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Squared distances between splits of one client's rows, averaged over splits.

    Attributes
    ----------
    size : float
        Rows in a half, Kish's effective number when they are weighted.
    noise, noise_quarter : float
        Exact squared distance between two halves, and between two quarters.
    noise_std : float
        Standard deviation of the former over splits.
    splits : int
        Number of splits into halves.
    drawn : int
        Points of a synthetic sample, at most as many as the client has rows.
    synthetic, synthetic_half : float
        What a server estimates from the summaries of two halves, with synthetic samples of `drawn`
        points and of half as many.
    gamma : float
        How fast the estimator's error vanishes with the distance, see `calibrated_square`.
    scale_noise : float
        Squared distance between the standard deviations of two halves, summed over features.
    spread_noise : float
        Squared difference between the root total variances of two halves.
    features : array (d,) or None
        Share of each feature in `noise`, sum one; None when it is withheld.
    """

    size: float
    noise: float
    noise_quarter: float
    noise_std: float
    splits: int
    drawn: int
    synthetic: float
    synthetic_half: float
    gamma: float
    scale_noise: float = 0.0
    spread_noise: float = 0.0
    features: Floats | None = None

    @property
    def exponent(self) -> float:
        """Exponent b of the law noise(n) = noise * (n / size)^-b."""
        return _exponent(self.noise, self.noise_quarter)

    def noise_at(self, n: float) -> float:
        """Squared distance between two samples of n rows of this population."""
        return power_law(self.noise, self.noise_quarter, n / self.size)

    def synthetic_at(self, n: float) -> float:
        """What a server would estimate for two samples of n rows of this population."""
        return power_law(self.synthetic, self.synthetic_half, n / self.drawn)


def power_law(half: float, quarter: float, ratio: float) -> float:
    """The power law through `quarter` at ratio 1/2 and `half` at ratio 1, read at `ratio`."""
    return float(half * ratio ** -_exponent(half, quarter))


def _exponent(half: float, quarter: float) -> float:
    if not (half > 0 and quarter > 0):
        return _DEFAULT_EXPONENT
    return float(np.clip(np.log2(quarter / half), *EXPONENTS))


def calibrate(
    measure: Measure,
    cells: int = 10,
    covariance_type: Form = "auto",
    min_cell_size: int = 10,
    features: bool = True,
) -> Calibration:
    """Measure the sampling noise of a sample, and the server's error, on splits of its own rows.

    The splits depend on the data alone, so repeated requests get the same numbers. A half has at
    most MAX_HALF rows; the numbers for more rows are extrapolated. Below 2 MIN_HALF rows the
    error of the estimator is not measured: `synthetic` is then equal to `noise`, which
    leaves estimates as they are. Below four rows the exponent is a default. A single row has no
    noise that could be measured, and gets zero.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> c = calibrate(Measure(rng.normal(size=(400, 10))))
    >>> 4.5 < c.noise_at(400) < 6.5, c.synthetic_at(400) / c.noise_at(400) < 1.1
    (True, True)
    """
    count = len(measure)
    if count < 2:
        return Calibration(1.0, 0.0, 0.0, 0.0, 0, 1, 0.0, 0.0, _GAMMA, features=_even(measure, features))
    splits = _Splits.of(measure, cells, covariance_type, min_cell_size)
    halves = list(splits.halves())
    plans = [splits.transport(*half) for half in halves]
    exact = np.array([plan.distance**2 for plan in plans])
    quarters = [part for half in halves for part in splits.quarters(half)]
    quarter = float(np.mean([splits.transport(*part).distance**2 for part in quarters])) if quarters else 0.0
    noise = float(exact.mean())
    scale_noise, spread_noise = splits.scale_noises()
    found = Calibration(
        size=splits.effective_size(halves),
        noise=noise,
        noise_quarter=quarter,
        noise_std=float(exact.std(ddof=1)) if len(exact) > 1 else noise,
        splits=len(exact),
        drawn=splits.size,
        synthetic=noise,
        synthetic_half=quarter,
        gamma=_GAMMA,
        scale_noise=scale_noise,
        spread_noise=spread_noise,
        features=_feature_shares(plans) if features else None,
    )
    if splits.size < MIN_HALF or not noise > 0:
        return found
    return splits.with_gamma(splits.with_synthetic(found))


def _even(measure: Measure, features: bool) -> Floats | None:
    return np.full(measure.dimension, 1 / measure.dimension) if features else None


def _deviations(part: Measure) -> Floats:
    return np.asarray(np.sqrt(part.weights @ (part.points - part.mean) ** 2))


def _feature_shares(plans: list[Plan]) -> Floats:
    """Share of each feature in the transport costs of the plans."""
    total = np.zeros(plans[0].source.dimension)
    for plan in plans:
        step = plan.source.rows(plan.rows) - plan.target.rows(plan.cols)
        total += plan.mass @ step**2
    whole = float(total.sum())
    return np.asarray(total / whole) if whole > 0 else np.full(len(total), 1 / len(total))


@dataclass(frozen=True, eq=False)
class _Splits:
    """Splits of one sample, and what a server makes of their summaries."""

    measure: Measure
    order: Indices
    rng: np.random.Generator
    cells: int
    covariance_type: Form
    min_cell_size: int
    size: int

    @classmethod
    def of(cls, measure: Measure, cells: int, covariance_type: Form, min_cell_size: int) -> _Splits:
        order, rng = data_order(measure, "calibration")
        size = min(len(measure) // 2, MAX_HALF)
        return cls(measure, order, rng, cells, covariance_type, min_cell_size, size)

    def halves(self) -> Iterator[tuple[Indices, Indices]]:
        for _ in range(int(np.clip(_ROWS // self.size, _MIN_SPLITS, _MAX_SPLITS))):
            order = self.order[self.rng.permutation(len(self.order))[: 2 * self.size]]
            yield order[: self.size], order[self.size :]

    def quarters(self, half: tuple[Indices, Indices]) -> list[tuple[Indices, Indices]]:
        size = self.size // 2
        return [(rows[:size], rows[size : 2 * size]) for rows in half] if size else []

    def scale_noises(self) -> tuple[float, float]:
        """How far standard deviations of halves are apart: by feature and summed, and of the total."""
        found = []
        for _ in range(_SCALE_SPLITS):
            order = self.order[self.rng.permutation(len(self.order))[: 2 * self.size]]
            one, two = (_deviations(self.part(rows)) for rows in (order[: self.size], order[self.size :]))
            total = float(np.linalg.norm(one) - np.linalg.norm(two))
            found.append((float(((one - two) ** 2).sum()), total**2))
        by_feature, total = np.mean(found, axis=0)
        return float(by_feature), float(total)

    def part(self, rows: Indices) -> Measure:
        return Measure(self.measure.rows(rows), self.measure.weights[rows])

    def transport(self, a: Indices, b: Indices) -> Plan:
        return solve(self.part(a), self.part(b))

    def effective_size(self, halves: list[tuple[Indices, Indices]]) -> float:
        return float(np.mean([_effective(self.measure.weights[rows]) for half in halves for rows in half]))

    def estimates(self, a: Indices, b: Indices, sizes: Sequence[int]) -> list[float]:
        """Squares that a server would estimate from the summaries of two parts, drawn at some sizes."""
        samples = [self._synthetic(self.part(rows)) for rows in (a, b)]
        draws = range(_DRAWS)
        return [
            float(np.mean([solve(*(x.draw(size, self.rng) for x in samples)).distance ** 2 for _ in draws]))
            for size in sizes
        ]

    def _synthetic(self, part: Measure) -> Synthetic:
        full = self.covariance_type in ("auto", "full")
        form: Form = "diagonal" if full else self.covariance_type
        summary = summarise(part, self.cells, form, floor=self.min_cell_size)
        if not full:
            return Synthetic.of(summary)
        # The rows themselves are a factor of their covariance, which saves its eigenvectors.
        labels = kmeans_cells(part, self.cells, self.min_cell_size, 0)
        rows = (part.points - summary.means[labels]) * np.sqrt(part.weights)[:, None]
        return Synthetic(summary, None, rows)

    def with_synthetic(self, found: Calibration) -> Calibration:
        """The same with what a server estimates for halves, which are larger than those that are transported."""
        count = len(self.order)
        drawn, size = min(_effective(self.measure.weights), MAX_DRAWN), min(count // 2, MAX_SUMMARISED)
        values = []
        for _ in range(int(np.clip(_SUMMARISED // count, 2, _MIN_SPLITS))):
            order = self.order[self.rng.permutation(count)[: 2 * size]]
            left, right = order[:size], order[size:]
            quarters = left[: size // 2], left[size // 2 :]
            values.append(
                self.estimates(left, right, (drawn, drawn // 2)) + self.estimates(*quarters, (drawn // 4,))
            )
        whole, half, quarter = np.mean(values, axis=0)
        # More points lower the estimate, and so do more rows behind a summary. The first step is
        # `whole / half`; `half / quarter` has both. Some of what rows do stays (cells of k-means
        # are never the same), so the step lies between the two.
        synthetic = half * np.sqrt(whole / quarter)
        return replace(found, drawn=drawn, synthetic=float(synthetic), synthetic_half=float(half))

    def with_gamma(self, found: Calibration) -> Calibration:
        """The same with gamma fitted to splits whose halves differ."""
        kappas, shares, ratios = [], [], []
        for a, b in self.uneven():
            null = found.synthetic_at(len(a))
            kappas.append(found.noise_at(len(a)) / null)
            (estimate,) = self.estimates(a, b, (len(a),))
            shares.append(min(1.0, null / estimate))
            ratios.append(self.transport(a, b).distance ** 2 / estimate)
        return replace(found, gamma=fit_gamma(np.array(kappas), np.array(shares), np.array(ratios)))

    def uneven(self) -> Iterator[tuple[Indices, Indices]]:
        """Pairs of parts with unequal shares of two groups of cells that lie apart."""
        order = self.order[: 4 * self.size]
        left, right = (order[mask] for mask in _two_groups(self.part(order), self.cells, self.min_cell_size))
        size = min(len(left), len(right), self.size)
        for share in _SHARES if size >= MIN_HALF else ():
            for _ in range(2):
                many, few = round(share * size), size - round(share * size)
                one, two = self.rng.permutation(left), self.rng.permutation(right)
                yield (
                    np.concatenate([one[:many], two[:few]]),
                    np.concatenate([two[few : few + many], one[many : many + few]]),
                )


def _effective(weights: Floats) -> int:
    """Kish's effective number of rows."""
    return max(1, round(float(effective_counts(np.zeros(len(weights), dtype=np.int64), weights)[0])))


def _two_groups(part: Measure, cells: int, min_cell_size: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Cells dealt into two groups of about half the rows each, along their main direction."""
    labels = kmeans_cells(part, cells, min_cell_size, 0)
    groups = int(labels.max()) + 1
    means = np.array([part.points[labels == cell].mean(axis=0) for cell in range(groups)])
    if groups == 1:
        means, labels = part.points, np.arange(len(part))
    centred = means - means.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    along = np.argsort(centred @ axes[0], kind="stable")
    before = np.cumsum(np.bincount(labels)[along])
    cut = int(np.abs(before - len(part) / 2).argmin()) + 1
    left = np.isin(labels, along[:cut])
    return left, ~left


def fit_gamma(kappas: Floats, shares: Floats, ratios: Floats) -> float:
    """The gamma with which 1 - (1 - kappa) u^gamma is nearest to exact / estimate, near a prior."""
    if not len(kappas):
        return _GAMMA
    predicted = np.maximum(1 - (1 - kappas) * shares ** _GAMMAS[:, None], 1e-3)
    misfit = (np.log(predicted / ratios) ** 2).mean(axis=1)
    return float(_GAMMAS[(misfit + _GAMMA_WEIGHT * (_GAMMAS - _GAMMA) ** 2).argmin()])
