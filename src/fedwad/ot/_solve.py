"""Exact transport: choose a solver, prove its answer optimal, and return the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fedwad.errors import CertificateError, InputError
from fedwad.ot._assignment import assignment
from fedwad.ot._cost import squared_distances, to_power
from fedwad.ot._line import sorted_transport
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Plan, Solution
from fedwad.ot._proof import Proof
from fedwad.ot._simplex import network_simplex, refine
from fedwad.ot._small import small_support

__all__ = ["check_order", "solve", "wasserstein"]

_BLOCK_ROWS = 256  # of the cost matrix, in one step of a computation
_MAX_SIMPLEX_RUNS = 6  # the network simplex and its refinements
_TINY = 1e-100  # smaller coordinates have squares that may underflow to zero
_MAX_ORDER = 100  # for larger p all costs are nearly zero in comparison with the largest
# The small-support solver is worth compiling from so many costs or samples on: the other solvers
# take milliseconds for smaller problems.
_MANY_COSTS, _MANY_SAMPLES = 100_000, 3000
# A sink is a point of the smaller measure.
_MAX_SINKS, _WEIGHTED_SAMPLES_PER_SINK = 1500, 100


def wasserstein(
    X: ArrayLike,
    Y: ArrayLike,
    p: float = 2.0,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
) -> float:
    """Exact p-Wasserstein distance between two samples on one machine.

    W_p = (min over couplings P of sum_ij P_ij |x_i - y_j|^p)^(1/p), with the Euclidean norm.

    Parameters
    ----------
    X, Y : arrays (n, d) and (m, d)
    p : float, at least 1
    a, b : arrays (n,) and (m,), optional
        Weights, scaled to sum to one; uniform by default.

    Examples
    --------
    >>> wasserstein([[0.0], [1.0]], [[2.0], [3.0]])
    2.0

    See Also
    --------
    fedwad.ot.solve : the plan, its potentials and its certificate.
    fedwad.distance : the same distance without pooling X and Y.
    """
    names, other_names = ([str(c) for c in getattr(table, "columns", ())] for table in (X, Y))
    if names and other_names and names != other_names:
        raise InputError(
            "The columns of X and Y differ in name or order; bring them into the same order first."
        )
    return solve(Measure(X, a, name="X"), Measure(Y, b, name="Y"), p).distance


def solve(mu: Measure, nu: Measure, p: float = 2.0, start: Floats | None = None) -> Plan:
    """Optimal plan between two measures, with its certificate.

    Measures on a line are sorted; equally many points of equal weight are an assignment; many
    points against few have a solver of their own; everything else goes to the network simplex. If
    the duality gap does not prove an answer optimal, the next slower solver computes another one.

    Parameters
    ----------
    mu, nu : Measure
    p : float, at least 1
    start : array (m,), optional
        Initial potentials of `nu` (Plan.g) from a similar problem. They change the time, not the
        answer.

    Raises
    ------
    CertificateError
        If the duality gap or the marginal error exceeds 1e-9.

    Examples
    --------
    >>> plan = solve(Measure([[0.0, 0.0], [1.0, 0.0]]), Measure([[0.0, 1.0], [1.0, 1.0]]))
    >>> plan.distance, plan.cols.tolist(), plan.solver
    (1.0, [0, 1], 'assignment')
    """
    p = check_order(p)
    if mu.dimension != nu.dimension:
        raise InputError(
            f"The two measures have {mu.dimension} and {nu.dimension} features;"
            " a distance needs the same features on both sides."
        )
    x, y, scale = _rescale(mu, nu)
    best: Proof | None = None
    failure: CertificateError | None = None
    for solver, attempt in _attempts(x, y, p, start, scale):
        try:
            solution, length = attempt()
        except CertificateError as error:
            failure = error
            continue
        latest = Proof.of(x, y, p, solver, solution, length)
        if best is None or not abs(latest.gap) >= abs(best.gap):  # also if a gap is not a number
            best = latest
        if best.holds:
            break
    if best is None:
        raise failure or CertificateError(
            "No solver returned a plan for these data; please report this as a bug."
        )
    return best.plan(mu, nu, p, scale)


def check_order(p: object) -> float:
    """The order p as a float; InputError if it is not a number from 1 to 100."""
    try:
        order = (
            float(p)
            if isinstance(p, int | float | np.integer | np.floating) and not isinstance(p, bool)
            else math.nan
        )
    except OverflowError:
        order = math.inf
    if not 1 <= order <= _MAX_ORDER:
        shown = repr(p) if np.isscalar(p) else f"a {type(p).__name__}"
        raise InputError(f"p is {shown[:40]}; give a number p >= 1, and at most {_MAX_ORDER}.")
    return order


#: Calls a solver; returns its plan with potentials, and the unit of length of its costs.
_Attempt = Callable[[], tuple[Solution, float]]


def _attempts(
    x: Measure, y: Measure, p: float, start: Floats | None, scale: float
) -> Iterator[tuple[str, _Attempt]]:
    """Names of the solvers for this problem, the fastest first, and functions that call them.

    The potentials of each plan satisfy f_i <= min_j c_ij - g_j. The costs c_ij are p-th powers of
    distances in the returned unit of length. `scale` is the factor of `_rescale`.
    """
    a, b = x.weights, y.weights
    if x.dimension == 1:
        yield "sorted", lambda: sorted_transport(x.points[:, 0], y.points[:, 0], a, b, p)
        return
    squares = squared_distances(x, y)
    # For p = 2 the costs are the squares themselves. For other p the unit of length is at least the
    # largest distance, so that no power overflows.
    length = 1.0 if p == 2 else _power_of_two(math.sqrt(float(squares.max())))
    cost = squares if p == 2 else to_power(squares / length**2, p)
    start = _usable_start(start, y, length * scale, p)
    if len(x) == len(y) and x.is_uniform and y.is_uniform:
        yield "assignment", lambda: (_feasible(assignment(cost, start), cost), length)
    elif _suits_small_support(x, y):
        yield "small support", lambda: (small_support(cost, a, b, start), length)
    elif _suits_small_support(y, x):
        yield "small support", lambda: (_feasible(_small_support_of_rows(cost, a, b), cost), length)
    solution = network_simplex(cost, a, b)
    for _ in range(_MAX_SIMPLEX_RUNS):
        solution = _feasible(solution, cost)
        yield "network simplex", partial(_return, solution, length)
        solution = refine(cost, a, b, solution)


def _return(solution: Solution, length: float) -> tuple[Solution, float]:
    return solution, length


def _small_support_of_rows(cost: Floats, a: Floats, b: Floats) -> Solution:
    """The small-support solver where the rows of `cost`, not its columns, are the few points."""
    return small_support(np.ascontiguousarray(cost.T), b, a).transposed()


def _suits_small_support(samples: Measure, sinks: Measure) -> bool:
    """Whether the small-support solver is faster than the network simplex (docs/performance.md)."""
    n, size = len(samples), len(sinks)
    per_sink = 1 if samples.is_uniform else _WEIGHTED_SAMPLES_PER_SINK
    worth_it = n * size >= _MANY_COSTS or n >= _MANY_SAMPLES
    return worth_it and size <= _MAX_SINKS and n >= per_sink * size


def _usable_start(start: Floats | None, nu: Measure, length: float, p: float) -> Floats | None:
    """Initial potentials in units of length^p, or None if they do not fit the measure `nu`."""
    if (
        start is None
        or np.shape(start) != nu.weights.shape
        or np.asarray(start).dtype.kind not in "iuf"
    ):
        return None
    with np.errstate(all="ignore"):
        scaled = np.asarray(start, dtype=np.float64) * np.float64(length) ** -p
    return scaled if np.isfinite(scaled).all() else None


def _rescale(mu: Measure, nu: Measure) -> tuple[Measure, Measure, float]:
    """Both measures divided by a common factor, and the factor: 1, or a power of two if the
    squares of coordinates may underflow."""
    largest = max(mu.max_abs, nu.max_abs)
    if largest == 0 or largest >= _TINY:
        return mu, nu, 1.0
    scale, origin = _power_of_two(largest), np.zeros(mu.dimension)
    return mu.moved(origin, 1 / scale), nu.moved(origin, 1 / scale), scale


def _power_of_two(number: float) -> float:
    """The smallest power of two above `number`, 1 for zero."""
    return math.ldexp(1.0, max(math.frexp(number)[1], -1021)) if number > 0 else 1.0


def _feasible(solution: Solution, cost: Floats) -> Solution:
    """Replace f by the c-transform f_i = min_j c_ij - g_j, which is feasible for any g."""
    f = np.empty(len(cost))
    for start in range(0, len(cost), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        f[rows] = (cost[rows] - solution.g).min(axis=1)
    return solution._replace(f=f)
