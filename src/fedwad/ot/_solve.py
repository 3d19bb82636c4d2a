"""The front door: choose an exact solver, check its answer, return a plan."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from fedwad.errors import CertificateError, InputError
from fedwad.ot._assignment import assignment
from fedwad.ot._cost import cost_matrix, plan_cost
from fedwad.ot._line import sorted_transport
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Plan, Solution
from fedwad.ot._simplex import network_simplex
from fedwad.ot._small import small_support

__all__ = ["check_order", "solve", "wasserstein"]

_ROWS = 256  # checked at a time
# The small-support solver: below so many costs the others take milliseconds, and its first use compiles it.
_WORTH_COMPILING, _SINKS, _WEIGHTED_SAMPLES_PER_SINK = 100_000, 1500, 100


def wasserstein(
    X: ArrayLike, Y: ArrayLike, p: float = 2.0, a: ArrayLike | None = None, b: ArrayLike | None = None
) -> float:
    """Exact p-Wasserstein distance between two samples on one machine.

    W_p = (min over couplings P of sum_ij P_ij |x_i - y_j|^p)^(1/p), with the Euclidean norm.

    Parameters
    ----------
    X, Y : arrays (n, d) and (m, d)
    p : float, at least 1
    a, b : arrays (n,) and (m,), optional
        Weights, scaled to sum to one; uniform when left out.

    Examples
    --------
    >>> wasserstein([[0.0], [1.0]], [[2.0], [3.0]])
    2.0

    See Also
    --------
    fedwad.ot.solve : the plan, its potentials and its proof.
    fedwad.distance : the same distance without bringing X and Y together.
    """
    return solve(Measure(X, a, name="X"), Measure(Y, b, name="Y"), p).distance


def solve(mu: Measure, nu: Measure, p: float = 2.0, start: Floats | None = None) -> Plan:
    """Optimal plan between two measures, with its proof.

    Measures on a line are sorted; equally many points of equal weight are an assignment; many points against few have
    a solver of their own; everything else goes to the network simplex. The points are first moved to the
    origin and scaled by a power of two, so that no solver meets a scale it was not made for.

    Parameters
    ----------
    mu, nu : Measure
    p : float, at least 1
    start : array (m,), optional
        Potentials of `nu` (Plan.g) from a similar problem, to start from. They change the time, not the answer.

    Raises
    ------
    CertificateError
        When duality gap or marginal error exceed 1e-9. It never happens silently.

    Examples
    --------
    >>> plan = solve(Measure([[0.0, 0.0], [1.0, 0.0]]), Measure([[0.0, 1.0], [1.0, 1.0]]))
    >>> plan.distance, plan.cols.tolist(), plan.solver
    (1.0, [0, 1], 'assignment')
    """
    check_order(p)
    if mu.dimension != nu.dimension:
        raise InputError(
            f"The two measures have {mu.dimension} and {nu.dimension} features;"
            " a distance needs the same features on both sides."
        )
    x, y, scale = _normalised(mu, nu)
    if mu.dimension == 1:
        solver = "sorted"
        found = sorted_transport(x.points[:, 0], y.points[:, 0], mu.weights, nu.weights, p)
        largest = float((x.extent + y.extent) ** p)
    else:
        cost = cost_matrix(x, y, p)
        solver, found = _exact(mu, nu, cost, _usable(start, nu, scale**-p if scale != 1 else 1.0))
        largest = float(cost.max())
    primal = plan_cost(x, y, found, p)
    rows, cols, mass, f, g = found
    dual = float(mu.weights @ f + nu.weights @ g)
    distance = scale * primal ** (1 / p)
    try:
        unit, _ = scale**p, distance**p
    except OverflowError:
        raise InputError(f"Costs |x - y|^{p:g} overflow at this scale; rescale the data or take a smaller p.") from None
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
        gap=(primal - dual) / max(primal, 1e-5 * largest, np.finfo(float).tiny),
        marginal_error=_marginal_error(mu, nu, found),
        solver=solver,
    )


def check_order(p: float) -> None:
    """Refuse an order p for which W_p is no distance."""
    if not (isinstance(p, int | float | np.number) and 1 <= p < math.inf):
        raise InputError(f"p is {p!r}; the Wasserstein distance needs a number p >= 1.")


def _exact(mu: Measure, nu: Measure, cost: Floats, start: Floats | None) -> tuple[str, Solution]:
    """Choose a solver for this cost matrix; whatever it returns, f_i <= min_j c_ij - g_j."""
    a, b = mu.weights, nu.weights
    if len(mu) == len(nu) and mu.is_uniform and nu.is_uniform:
        return "assignment", _feasible(assignment(cost, start), cost)
    if _is_small(mu, nu):
        with suppress(CertificateError):
            return "small support", small_support(cost, a, b, start)
    if _is_small(nu, mu):
        with suppress(CertificateError):
            found = small_support(np.ascontiguousarray(cost.T), b, a)
            return "small support", _feasible(found.transposed(), cost)
    return "network simplex", _feasible(network_simplex(cost, a, b), cost)


def _is_small(samples: Measure, sinks: Measure) -> bool:
    """Whether the small-support solver is faster than the network simplex (measured: docs/performance.md)."""
    n, size = len(samples), len(sinks)
    per_sink = 1 if samples.is_uniform else _WEIGHTED_SAMPLES_PER_SINK
    return n * size >= _WORTH_COMPILING and size <= _SINKS and n >= per_sink * size


def _usable(start: Floats | None, nu: Measure, factor: float) -> Floats | None:
    """Starting potentials in the units of the scaled problem, if they fit it."""
    if start is None or start.shape != nu.weights.shape:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = start * factor
    return scaled if np.isfinite(scaled).all() else None


def _normalised(mu: Measure, nu: Measure) -> tuple[Measure, Measure, float]:
    """Both measures around a common origin, divided by a power of two."""
    origin = mu.rows(0) / 2 + nu.rows(0) / 2
    with np.errstate(over="ignore"):
        x, y = mu.moved(origin), nu.moved(origin)
        largest = max(x.extent, y.extent)
    if not math.isfinite(largest):
        raise InputError("The data span more than floating point numbers can; rescale them first.")
    scale = _power_of_two(largest)
    if scale == 1.0:
        return x, y, 1.0
    nothing = np.zeros(mu.dimension)
    return x.moved(nothing, 1 / scale), y.moved(nothing, 1 / scale), scale


def _power_of_two(number: float) -> float:
    """The next power of two above `number`, 1 for zero."""
    return math.ldexp(1.0, min(max(math.frexp(number)[1], -1021), 1021)) if number > 0 else 1.0


def _feasible(found: Solution, cost: Floats) -> Solution:
    """Replace f by the c-transform f_i = min_j c_ij - g_j: feasible whatever the solver returned."""
    f = np.empty(len(cost))
    for start in range(0, len(cost), _ROWS):
        f[start : start + _ROWS] = (cost[start : start + _ROWS] - found.g).min(axis=1)
    return found._replace(f=f)


def _marginal_error(mu: Measure, nu: Measure, found: Solution) -> float:
    sent = np.bincount(found.rows, found.mass, len(mu))
    received = np.bincount(found.cols, found.mass, len(nu))
    return float(max(np.abs(sent - mu.weights).sum(), np.abs(received - nu.weights).sum()))
