"""The exact solver: choose a method, check its answer, return a plan."""

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
from fedwad.ot._simplex import network_simplex, refined
from fedwad.ot._small import small_support

__all__ = ["check_order", "solve", "wasserstein"]

_ROWS = 256  # processed at a time
_REFINEMENTS = 6  # at most
_TINY = 1e-100  # coordinates below it have squares that may vanish
_LARGEST_ORDER = 100  # beyond, costs vanish beside the largest
# The small-support solver: for fewer costs and samples the others take milliseconds, and the first
# use compiles it.
_WORTH_COMPILING, _MANY_SAMPLES, _SINKS, _WEIGHTED_SAMPLES_PER_SINK = 100_000, 3000, 1500, 100


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
    fedwad.ot.solve : the plan, its potentials and its proof.
    fedwad.distance : the same distance without pooling X and Y.
    """
    columns = [[str(name) for name in getattr(table, "columns", ())] for table in (X, Y)]
    if all(columns) and columns[0] != columns[1]:
        raise InputError(
            "The columns of X and Y differ in name or order; bring them into the same order first."
        )
    return solve(Measure(X, a, name="X"), Measure(Y, b, name="Y"), p).distance


def solve(mu: Measure, nu: Measure, p: float = 2.0, start: Floats | None = None) -> Plan:
    """Optimal plan between two measures, with its proof.

    Measures on a line are sorted; equally many points of equal weight are an assignment; many
    points against few have a solver of their own; everything else goes to the network simplex. An
    answer that fails its own proof is computed again by the next slower solver before it is given
    up.

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
    x, y, scale = _rescaled(mu, nu)
    proof: Proof | None = None
    failure: CertificateError | None = None
    for solver, attempt in _attempts(x, y, p, start, scale):
        try:
            found, length = attempt()
        except CertificateError as error:
            failure = error
            continue
        latest = Proof.of(x, y, p, solver, found, length)
        if proof is None or not abs(latest.gap) >= abs(proof.gap):
            proof = latest
        if proof.holds:
            break
    if proof is None:
        raise failure or CertificateError(
            "No solver was found for this problem; please report the data."
        )
    return proof.plan(mu, nu, p, scale)


def check_order(p: object) -> float:
    """The order p as a float; InputError if W_p is not a distance."""
    try:
        order = (
            float(p)
            if isinstance(p, int | float | np.integer | np.floating) and not isinstance(p, bool)
            else math.nan
        )
    except OverflowError:
        order = math.inf
    if not 1 <= order <= _LARGEST_ORDER:
        shown = repr(p) if np.isscalar(p) else f"a {type(p).__name__}"
        raise InputError(f"p is {shown[:40]}; give a number p >= 1, and at most {_LARGEST_ORDER}.")
    return order


Attempt = Callable[[], tuple[Solution, float]]


def _attempts(
    x: Measure, y: Measure, p: float, start: Floats | None, scale: float
) -> Iterator[tuple[str, Attempt]]:
    """Names of the solvers for this problem, the fastest first, and functions that call them.

    Each returns a plan with potentials f_i <= min_j c_ij - g_j, and the unit of length.
    """
    a, b = x.weights, y.weights
    if x.dimension == 1:
        yield "sorted", lambda: sorted_transport(x.points[:, 0], y.points[:, 0], a, b, p)
        return
    squares = squared_distances(x, y)
    # p = 2 needs no unit of length; other powers are taken of lengths up to one.
    length = 1.0 if p == 2 else _power_of_two(math.sqrt(float(squares.max())))
    cost = squares if p == 2 else to_power(squares / length**2, p)
    start = _usable(start, y, length * scale, p)
    if len(x) == len(y) and x.is_uniform and y.is_uniform:
        yield "assignment", lambda: (_feasible(assignment(cost, start), cost), length)
    elif _is_small(x, y):
        yield "small support", lambda: (small_support(cost, a, b, start), length)
    elif _is_small(y, x):
        yield "small support", lambda: (_feasible(_transposed(cost, a, b), cost), length)
    found = network_simplex(cost, a, b)
    for _ in range(_REFINEMENTS):
        found = _feasible(found, cost)
        yield "network simplex", partial(_as_it_is, found, length)
        found = refined(cost, a, b, found)


def _as_it_is(found: Solution, length: float) -> tuple[Solution, float]:
    """An attempt that has been made already."""
    return found, length


def _transposed(cost: Floats, a: Floats, b: Floats) -> Solution:
    return small_support(np.ascontiguousarray(cost.T), b, a).transposed()


def _is_small(samples: Measure, sinks: Measure) -> bool:
    """Whether the small-support solver is faster than the network simplex (measurements:
    docs/performance.md)."""
    n, size = len(samples), len(sinks)
    per_sink = 1 if samples.is_uniform else _WEIGHTED_SAMPLES_PER_SINK
    worth_it = n * size >= _WORTH_COMPILING or n >= _MANY_SAMPLES
    return worth_it and size <= _SINKS and n >= per_sink * size


def _usable(start: Floats | None, nu: Measure, length: float, p: float) -> Floats | None:
    """Initial potentials in the units of the problem, or None if they do not fit."""
    if (
        start is None
        or np.shape(start) != nu.weights.shape
        or np.asarray(start).dtype.kind not in "iuf"
    ):
        return None
    with np.errstate(all="ignore"):
        scaled = np.asarray(start, dtype=np.float64) * np.float64(length) ** -p
    return scaled if np.isfinite(scaled).all() else None


def _rescaled(mu: Measure, nu: Measure) -> tuple[Measure, Measure, float]:
    """Both measures scaled by a power of two if they are so small that squares would vanish."""
    nothing = np.zeros(mu.dimension)
    largest = max(mu.max_abs(nothing), nu.max_abs(nothing))
    if largest == 0 or largest >= _TINY:
        return mu, nu, 1.0
    scale = _power_of_two(largest)
    return mu.moved(nothing, 1 / scale), nu.moved(nothing, 1 / scale), scale


def _power_of_two(number: float) -> float:
    """The next power of two above `number`, 1 for zero."""
    return math.ldexp(1.0, max(math.frexp(number)[1], -1021)) if number > 0 else 1.0


def _feasible(found: Solution, cost: Floats) -> Solution:
    """Replace f by the c-transform f_i = min_j c_ij - g_j: feasible whatever the solver
    returned."""
    f = np.empty(len(cost))
    for start in range(0, len(cost), _ROWS):
        f[start : start + _ROWS] = (cost[start : start + _ROWS] - found.g).min(axis=1)
    return found._replace(f=f)
