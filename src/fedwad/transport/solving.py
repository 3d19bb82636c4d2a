"""Exact transport: choose a solver, prove its answer optimal, and return the plan.

On a line, both sides are sorted and quantiles matched. Equally many points of equal weight are an
assignment. Few points against many are for the small-support solver, and anything else for POT's
network simplex, with a check that it does not stop early.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_number
from fedwad.errors import CertificateError, InputError
from fedwad.transport._small import small_support
from fedwad.transport.costs import squared_distances, to_power
from fedwad.transport.measures import Floats, Measure
from fedwad.transport.plans import Plan, Proof, Solution, row_potentials
from fedwad.transport.pot import simplex


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
    fedwad.transport.solve : the plan, its potentials and its certificate.
    fedwad.distance : the same distance without pooling X and Y.
    """
    names, other_names = ([str(c) for c in getattr(table, "columns", ())] for table in (X, Y))
    if names and other_names and names != other_names:
        raise InputError(
            "The columns of X and Y differ in name or order; bring them into the same order first.",
            "different-columns",
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
            " a distance needs the same features on both sides.",
            "different-columns",
        )
    x, y, scale = _rescale(mu, nu)
    best: Proof | None = None
    for solver, solution, length in _answers(x, y, p, start, scale):
        latest = Proof.of(x, y, p, solver, solution, length)
        if best is None or not abs(latest.gap) >= abs(best.gap):  # also if a gap is not a number
            best = latest
        if best.holds:
            break
    assert best is not None  # noqa: S101 - the network simplex answers or raises
    return best.plan(mu, nu, p, scale)


def check_order(p: object) -> float:
    """The order p as a float; InputError if it is not a number from 1 to 100.

    For larger p all costs are nearly zero in comparison with the largest.
    """
    return check_number(p, "p", 1.0, most=100.0)


def _answers(
    x: Measure, y: Measure, p: float, start: Floats | None, scale: float
) -> Iterator[tuple[str, Solution, float]]:
    """Names of the solvers for this problem, the fastest first, their plans with potentials, and
    the unit of length of the costs.

    The potentials of each plan satisfy f_i <= min_j c_ij - g_j. The costs c_ij are p-th powers of
    distances in that unit of length. `scale` is the factor of `_rescale`.
    """
    a, b = x.weights, y.weights
    if x.dimension == 1:
        yield "sorted", *sorted_transport(x.points[:, 0], y.points[:, 0], a, b, p)
        return
    squares = squared_distances(x, y)
    # For p = 2 the costs are the squares themselves. For other p the unit of length is at least the
    # largest distance, so that no power overflows.
    length = 1.0 if p == 2 else _power_of_two(math.sqrt(float(squares.max())))
    cost = squares if p == 2 else to_power(squares / length**2, p)
    start = _usable_start(start, y, length * scale, p)
    if len(x) == len(y) and x.is_uniform and y.is_uniform:
        yield "assignment", _feasible(assignment(cost, start), cost), length
    else:
        with suppress(CertificateError):  # the network simplex takes over
            if _suits_small_support(x, y):
                yield "small support", small_support(cost, a, b, start), length
            elif _suits_small_support(y, x):
                swapped = small_support(np.ascontiguousarray(cost.T), b, a).transposed()
                yield "small support", _feasible(swapped, cost), length
    solution = _feasible(network_simplex(cost, a, b), cost)
    yield "network simplex", solution, length
    solution = solution._replace(g=np.zeros(len(y)))  # where long moves rounded all potentials
    for _ in range(5):
        solution = _feasible(refine(cost, a, b, solution), cost)
        yield "network simplex", solution, length


def _suits_small_support(samples: Measure, sinks: Measure) -> bool:
    """Whether the small-support solver is faster than the network simplex (docs/performance.md).

    It has to be compiled, and the others take milliseconds for fewer costs than 100,000.
    """
    n, size = len(samples), len(sinks)
    per_sink = 1 if samples.is_uniform else 100
    return (n * size >= 100_000 or n >= 3000) and size <= 1500 and n >= per_sink * size


def _usable_start(start: Floats | None, nu: Measure, length: float, p: float) -> Floats | None:
    """Initial potentials in units of length^p, or None if they do not fit the measure `nu`."""
    given = np.asarray(start)
    if given.shape != nu.weights.shape or given.dtype.kind not in "iuf":
        return None
    with np.errstate(all="ignore"):
        scaled = given * np.float64(length) ** -p
    return scaled if np.isfinite(scaled).all() else None


def _rescale(mu: Measure, nu: Measure, tiny: float = 1e-100) -> tuple[Measure, Measure, float]:
    """Both measures divided by a common factor, and the factor: 1, or a power of two if all
    coordinates are below `tiny`, whose square may underflow."""
    largest = max(mu.max_abs, nu.max_abs)
    if largest == 0 or largest >= tiny:
        return mu, nu, 1.0
    scale, origin = _power_of_two(largest), np.zeros(mu.dimension)
    return mu.moved(origin, 1 / scale), nu.moved(origin, 1 / scale), scale


def _power_of_two(number: float) -> float:
    """The smallest power of two above `number`, 1 for zero."""
    return math.ldexp(1.0, max(math.frexp(number)[1], -1021)) if number > 0 else 1.0


def _feasible(solution: Solution, cost: Floats) -> Solution:
    return solution._replace(f=row_potentials(cost, solution.g))


def sorted_transport(
    x: Floats, y: Floats, a: Floats, b: Floats, p: float
) -> tuple[Solution, float]:
    """Exact plan and potentials for measures on the real line, in O(n log n).

    The second result is a length; potentials are in units of its p-th power. For a convex cost the
    monotone (north-west corner) plan is optimal. Its staircase of n + m - 1 entries is also a
    basis: along it, f and g follow from f_i + g_j = c_ij, and the Monge property of c makes them
    feasible everywhere.
    """
    x_order, y_order = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    x, y = x[x_order], y[y_order]
    n, m = len(x), len(y)
    x_ends, y_ends, total = _cumulative(a[x_order], b[y_order])

    # Each step of the staircase leaves one row, whose mass is used up, or one column.
    ends = np.concatenate([x_ends[:-1], y_ends[:-1]])
    order = np.argsort(ends, kind="stable")
    leaves_row = order < n - 1
    i = np.concatenate([[0], np.cumsum(leaves_row)])
    j = np.concatenate([[0], np.cumsum(~leaves_row)])
    bounds = np.concatenate([[0], ends[order], [x_ends[-1]]])
    mass = np.diff(bounds) / total

    moves = np.abs(x[i] - y[j])
    length = float(moves.max()) or 1.0
    costs = (moves / length) ** p
    rise = np.diff(costs)
    f = np.concatenate([[0.0], np.cumsum(rise[leaves_row])])
    g = costs[0] + np.concatenate([[0.0], np.cumsum(rise[~leaves_row])])

    f_out, g_out = np.empty(n), np.empty(m)
    f_out[x_order], g_out[y_order] = f, g
    i, j, mass = i[mass > 0], j[mass > 0], mass[mass > 0]
    return Solution(x_order[i], y_order[j], mass, f_out, g_out), length


def _cumulative(a: Floats, b: Floats) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Cumulative weights of both sides, and the number that stands for a mass of one in them."""
    n, m = len(a), len(b)
    if (a == a[0]).all() and (b == b[0]).all():  # integers, so that there is no rounding
        return np.arange(1, n + 1) * m, np.arange(1, m + 1) * n, float(n * m)
    a_ends, b_ends = np.cumsum(a), np.cumsum(b)
    # Ends that differ by rounding alone are made equal: the tiny mass between them could have far
    # to move.
    rounding_error = 16 * float(np.finfo(np.float64).eps) * math.sqrt(n + m)
    after = np.minimum(np.searchsorted(a_ends, b_ends), n - 1)
    for near in (after, np.maximum(after - 1, 0)):
        is_equal = np.abs(a_ends[near] - b_ends) <= rounding_error
        b_ends[is_equal] = a_ends[near[is_equal]]
    a_ends[-1] = b_ends[-1] = max(1.0, a_ends[-1], b_ends[-1])
    return a_ends, np.maximum.accumulate(b_ends), 1.0


def assignment(cost: Floats, start: Floats | None = None, direct: int = 256) -> Solution:
    """Optimal assignment of rows to columns, each of mass 1/n, with potentials.

    Long augmenting paths take most of the time. The cost is therefore first reduced by the
    potentials of a four times smaller problem, recursively: the optimum stays the same, and paths
    become short. If `start` is given, the column potentials of a similar problem, they are used
    instead of smaller problems. Up to `direct` rows the network simplex takes milliseconds, less
    than to load compiled code.
    """
    n = len(cost)
    if n <= direct:
        uniform = np.full(n, 1.0 / n)
        return network_simplex(cost, uniform, uniform)
    from fedwad.transport.dense import match

    if start is not None:
        g = start
    else:
        sample = np.arange(n // 4) * 4
        coarse = assignment(np.ascontiguousarray(cost[np.ix_(sample, sample)]))
        g = (cost[sample] - coarse.f[:, None]).min(axis=0)
    reduced = cost - g
    f = reduced.min(axis=1)
    reduced -= f[:, None]
    least = reduced.min(axis=0)
    reduced -= least
    cols, u, v = match(reduced)
    return Solution(np.arange(n), cols.astype(np.int64), np.full(n, 1.0 / n), f + u, g + least + v)


def network_simplex(cost: Floats, a: Floats, b: Floats, pivots: int = 10**9) -> Solution:
    """Optimal plan for any weights; the longer side goes first, which POT solves faster.

    Uniform weights are counted in integer units, so flows are integers: marginals hold exactly and
    there is no rounding. POT's tolerances are absolute, so costs are scaled to about one. With its
    default of 100,000 `pivots`, plans are wrong from about 5000 x 5000 on, with only a warning.
    """
    n, m = cost.shape
    if n < m:
        return network_simplex(np.ascontiguousarray(cost.T), b, a, pivots).transposed()
    units = 1.0
    if (a == a[0]).all() and (b == b[0]).all():
        units = float(math.lcm(n, m))
        a, b = np.full(n, units / n), np.full(m, units / m)
    scale = math.ldexp(1.0, math.frexp(float(cost.max()))[1])
    plan, u, v, warning = simplex(a, b * (a.sum() / b.sum()), cost / scale, pivots)
    if warning is not None:
        raise CertificateError(
            f"The network simplex did not finish: {warning.rstrip('. ')}.", "not-finished"
        )
    rows, cols = np.nonzero(plan)
    if units == 1.0:  # entries that are rounding errors are dropped
        residue = 256 * float(np.finfo(np.float64).eps)
        is_mass = plan[rows, cols] > residue * np.minimum(a[rows], b[cols])
        rows, cols = rows[is_mass], cols[is_mass]
    mass = np.asarray(plan[rows, cols]) / units
    f, g = u * scale, v * scale
    return Solution(rows.astype(np.int64), cols.astype(np.int64), mass, f, g)


def refine(cost: Floats, a: Floats, b: Floats, solution: Solution) -> Solution:
    """Improve a plan for costs of which a few are so large that all others are lost in rounding.

    Costs are reduced by the potentials of `solution`, and clipped at a limit of four times the
    largest reduced cost in its plan. If the optimal plan for clipped costs uses no clipped entry,
    it is optimal for the true costs, which are nowhere lower. Otherwise the limit grows.
    """
    g = solution.g - np.median(solution.g)  # a common offset would cost digits
    reduced = cost - g
    reduced -= reduced.min(axis=1)[:, None]
    least = reduced.min(axis=0)
    reduced -= least
    g += least
    largest, limit = float(reduced.max()), 4 * float(reduced[solution.rows, solution.cols].max())
    if limit == 0:
        return solution._replace(g=g)
    while True:
        better = network_simplex(np.minimum(reduced, limit), a, b)
        if limit > largest or float(reduced[better.rows, better.cols].max()) < limit:
            return better._replace(g=g + better.g)
        limit *= 16
