"""Transport plans with their certificate, the duality gap that proves a plan optimal.

A plan tells the part of each feature in its cost, and spans a Wasserstein geodesic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fedwad._checks import check_choice
from fedwad.errors import CertificateError, InputError
from fedwad.transport.costs import ground_cost, paired_squares
from fedwad.transport.measures import Floats, Indices, LabelledMeasure, Measure, row_slices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Largest relative duality gap and marginal error that a plan may have.
TOLERANCE = 1e-9
_EPSILON = float(np.finfo(np.float64).eps)
# Masses are rounded: this fraction may be misplaced by up to the plan's longest move.
_MASS_ROUNDING = 16 * _EPSILON
Interpolant = Literal["barycentric", "exact"]


class Solution(NamedTuple):
    """The result of a solver: the plan in coordinate form and a pair of potentials."""

    rows: Indices
    cols: Indices
    mass: Floats
    f: Floats
    g: Floats

    def transposed(self) -> Solution:
        return Solution(self.cols, self.rows, self.mass, self.g, self.f)


def row_potentials(cost: Floats, g: Floats, few: int = 64) -> Floats:
    """The c-transform f_i = min_j c_ij - g_j, which is feasible for any g.

    NumPy takes minima over up to `few` columns faster when they are rows, ten of them in a fifth of
    the time.
    """
    f = np.empty(len(cost))
    for rows in row_slices(*cost.shape):
        if len(g) <= few:
            f[rows] = np.subtract(cost[rows].T, g[:, None], order="C").min(axis=0)
        else:
            f[rows] = (cost[rows] - g).min(axis=1)
    return f


@dataclass(frozen=True, eq=False)
class Plan:
    """An optimal plan between `source` and `target` for the cost |x - y|^p.

    Attributes
    ----------
    rows, cols, mass : arrays (k,), k <= n + m - 1
        The positive entries: `mass[e]` goes from `source` point `rows[e]` to `target` point
        `cols[e]`.
    distance : float
        W_p, the p-th root of the transport cost.
    f, g : arrays (n,), (m,)
        Kantorovich potentials: f_i + g_j <= |x_i - y_j|^p for all i, j, and
        sum_i a_i f_i + sum_j b_j g_j >= cost * (1 - gap), which proves that no plan is cheaper.
    gap : float
        Relative duality gap: sum of mass * (cost - f - g) over the plan, divided by its cost. If
        that is above 1e-9, the divisor is at least 1e9 times the cost of moving the rounding error
        of masses (4e-15) over the longest move of the plan.
    marginal_error : float
        Largest l1 distance of the plan's marginals from the weights.
    solver : str
        The exact solver that found it.
    """

    source: Measure
    target: Measure
    p: float
    rows: Indices
    cols: Indices
    mass: Floats
    distance: float
    f: Floats
    g: Floats
    gap: float
    marginal_error: float
    solver: str

    def __post_init__(self) -> None:
        # Written so that a NaN fails too.
        if not (abs(self.gap) <= TOLERANCE and self.marginal_error <= TOLERANCE):
            raise CertificateError(
                f"The {self.solver} solver's plan is not proven optimal (relative duality gap"
                f" {self.gap:.2g}, marginal error {self.marginal_error:.2g}, both must stay below"
                f" {TOLERANCE:g}); please report the data that caused it.",
                "not-proven",
            )

    @property
    def cost(self) -> float:
        """The transport cost W_p^p."""
        return float(self.distance**self.p)

    @property
    def matrix(self) -> csr_array:
        """The plan as a sparse (n, m) matrix."""
        from scipy.sparse import coo_array, csr_array

        shape = (len(self.source), len(self.target))
        return csr_array(coo_array((self.mass, (self.rows, self.cols)), shape=shape))

    def target_means(self) -> Floats:
        """The barycentric map, (m, d): for each target point the mean of the source mass it gets.

        A target whose weight was lost in rounding receives nothing and keeps its position.
        """
        return self._target_means

    @cached_property
    def _target_means(self) -> Floats:
        received = self.received[:, None]
        source, origin = self.source, np.zeros(self.source.dimension)
        if source.norms is None:  # a large common offset would cost digits
            origin = source.rows(0)
            source = source.moved(origin)
        sums = source.sums_by_target(self.rows, self.cols, self.mass, len(self.target))
        means = origin + sums / np.where(received > 0, received, 1.0)
        return np.where(received > 0, means, self.target.rows(slice(None)))

    @property
    def received(self) -> Floats:
        """Mass that arrives at each target point: its weight up to rounding."""
        return np.asarray(np.bincount(self.cols, self.mass, len(self.target)), dtype=np.float64)

    def reversed(self) -> Plan:
        """The same plan from target to source."""
        return replace(
            self,
            source=self.target,
            target=self.source,
            rows=self.cols,
            cols=self.rows,
            f=self.g,
            g=self.f,
        )


@dataclass(frozen=True)
class Proof:
    """A solver's answer with its duality gap and marginal error.

    Potentials are in units of length^p.
    """

    solver: str
    solution: Solution
    length: float
    distance: float
    gap: float  # relative to the cost of the plan
    rounding_gap: float  # relative to the larger of that cost and the bound of `Plan.gap`
    marginal_error: float

    @classmethod
    def of(
        cls, x: Measure, y: Measure, p: float, solver: str, solution: Solution, length: float
    ) -> Proof:
        rows, cols, mass, f, g = solution
        moves = np.sqrt(paired_squares(x, y, rows, cols))
        longest = float(moves.max())
        sent, received = np.bincount(rows, mass, len(x)), np.bincount(cols, mass, len(y))
        error = max(np.abs(sent - x.weights).sum(), np.abs(received - y.weights).sum())
        if longest == 0:  # nothing moves: no plan is cheaper
            return cls(solver, solution, length, 0.0, 0.0, 0.0, float(error))
        # In units of the longest move: nothing overflows, and underflow is harmless.
        primal = float(mass @ (moves / longest) ** p)
        # primal - dual = sum of mass * (cost - f - g), with the masses of the plan. Their distance
        # from the weights is the marginal error.
        with np.errstate(all="ignore"):
            slack = float(mass @ ((moves / length) ** p - f[rows] - g[cols]))
            slack *= float(np.float64(length / longest) ** p)
            gap = slack / primal
        if solver == "sorted" and not abs(gap) <= TOLERANCE:
            gap = 0.0  # rounding dominates the potentials, but a monotone plan is always optimal
        if longest <= 4 * _EPSILON * math.sqrt(x.dimension) * max(x.max_abs, y.max_abs):
            # No move exceeds the rounding of coordinates, so no plan is measurably better.
            gap = 0.0
        rounding_gap = gap * primal / max(primal, _MASS_ROUNDING / TOLERANCE)
        distance = longest * primal ** (1 / p)
        return cls(solver, solution, length, distance, gap, rounding_gap, float(error))

    @property
    def holds(self) -> bool:
        return abs(self.gap) <= TOLERANCE and self.marginal_error <= TOLERANCE

    def plan(self, mu: Measure, nu: Measure, p: float, scale: float) -> Plan:
        """The plan in the units of the data.

        Raises CertificateError if neither `gap` nor `rounding_gap` proves it optimal.
        """
        distance = self.distance * scale
        try:
            unit, _ = (self.length * scale) ** p, distance**p
        except OverflowError:
            raise InputError(
                f"Costs |x - y|^{p:g} overflow at this scale; rescale the data or take a smaller"
                " p.",
                "too-large-values",
            ) from None
        rows, cols, mass, f, g = self.solution
        return Plan(
            source=mu,
            target=nu,
            p=p,
            rows=rows,
            cols=cols,
            mass=mass,
            distance=distance,
            f=f * unit,
            g=g * unit,
            gap=self.gap if self.holds else self.rounding_gap,
            marginal_error=self.marginal_error,
            solver=self.solver,
        )


def plan_columns(plan: Plan) -> Floats:
    """The part of each feature in the cost of a plan for p = 2, (d,); the parts sum to the cost.

    With labels, the part of a feature includes the parts of its class means and class spreads.

    Examples
    --------
    >>> from fedwad.transport import Measure, solve
    >>> plan_columns(solve(Measure([[0.0, 0.0], [1.0, 0.0]]), Measure([[0.0, 3.0], [1.0, 3.0]])))
    array([0., 9.])
    """
    return pair_columns(plan.source, plan.target, plan.rows, plan.cols, plan.mass)


def pair_columns(
    source: Measure, target: Measure, rows: Indices, cols: Indices, mass: Floats
) -> Floats:
    """`plan_columns` of a plan that is given by its entries: rows, columns and mass."""
    if isinstance(source, LabelledMeasure) and isinstance(target, LabelledMeasure):
        features = point_columns(source.features, target.features, rows, cols, mass)
        codes = source.codes[rows], target.codes[cols]
        return features + class_columns(source.table, target.table, *codes, mass, len(features))
    return point_columns(source.points, target.points, rows, cols, mass)


def point_columns(x: Floats, y: Floats, rows: Indices, cols: Indices, mass: Floats) -> Floats:
    """The parts of features in the cost of a plan between points without labels."""
    total = np.zeros(x.shape[1])
    for block in row_slices(len(mass), x.shape[1]):
        total += mass[block] @ (x[rows[block]] - y[cols[block]]) ** 2
    return total


def class_columns(
    source: Floats, target: Floats, rows: Indices, cols: Indices, mass: Floats, d: int
) -> Floats:
    """The parts of class means and spreads, added up for each of the d features.

    `source` and `target` are tables with the statistics of classes. `rows` and `cols` are the
    classes of the two points of each pair.
    """
    n_targets = len(target)
    class_mass = np.bincount(rows * n_targets + cols, mass)
    pairs = np.flatnonzero(class_mass)
    shares = np.asarray(class_mass[pairs], dtype=np.float64)
    squares = point_columns(source, target, *np.divmod(pairs, n_targets), shares)
    return np.asarray(squares[:d] + squares[d:].reshape(d, -1).sum(axis=1))


def interpolate(plan: Plan, t: float, kind: Interpolant = "barycentric") -> Measure:
    """Interpolating measure at time t, between plan.source (t = 0) and plan.target (t = 1).

    "exact" is the paper's equation (5), sum_ij P_ij dirac((1 - t) x_i + t y_j): one atom for each
    entry of the plan, at most n + m - 1. It lies on the geodesic.

    "barycentric" is McCann's interpolation with the barycentric map in place of the transport map,
    the paper's equation (9), on the side with fewer points. It lies near the geodesic, and on it
    if both sides have equally many points of equal weight (Theorem 1).

    Examples
    --------
    >>> from fedwad.transport import Measure, solve
    >>> plan = solve(Measure([[0.0], [2.0]]), Measure([[10.0]]))
    >>> interpolate(plan, 0.5, "exact").points.tolist(), interpolate(plan, 0.5).points.tolist()
    ([[5.0], [6.0]], [[5.5]])
    """
    if not 0 < t < 1:
        raise InputError(
            f"t is {t!r}; an interpolating measure needs a number strictly between 0 and 1.",
            "bad-option",
        )
    if kind == "exact":
        points = (1 - t) * plan.source.points[plan.rows] + t * plan.target.points[plan.cols]
        return Measure(points, plan.mass)
    check_choice(kind, "interpolant", ("barycentric", "exact"))
    if len(plan.target) > len(plan.source):
        return interpolate(plan.reversed(), 1 - t)
    return Measure((1 - t) * plan.target_means() + t * plan.target.points, plan.target.weights)


def reduce_support(measure: Measure, size: int) -> Measure:
    """A measure on at most `size` atoms near `measure`, with the same mean.

    The heaviest atoms stay. Every other atom is merged into the nearest of these, which moves to
    the mean of its mass. Exact interpolants have few heavy atoms and many very light ones, so
    little mass moves.
    """
    if len(measure) <= size:
        return measure
    order = np.argsort(-measure.weights, kind="stable")
    heavy, others = order[:size], order[size:]
    points, weights = measure.points, measure.weights
    nearest = np.empty(len(others), dtype=np.int64)
    for some in row_slices(len(others), size):
        nearest[some] = ground_cost(points[others[some]], points[heavy]).argmin(axis=1)
    mass = weights[heavy].copy()
    np.add.at(mass, nearest, weights[others])
    displacement = np.zeros((size, measure.dimension))
    np.add.at(
        displacement, nearest, weights[others, None] * (points[others] - points[heavy][nearest])
    )
    return Measure(points[heavy] + displacement / mass[:, None], mass)
