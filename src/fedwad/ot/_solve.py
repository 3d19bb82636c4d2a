"""The front door: choose an exact solver, check its answer, return a plan."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedwad.errors import InputError
from fedwad.ot._assignment import assignment
from fedwad.ot._cost import ground_cost, pairwise_cost
from fedwad.ot._line import sorted_transport
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._plan import Plan, Solution
from fedwad.ot._simplex import network_simplex

__all__ = ["check_order", "solve", "wasserstein"]

_ROWS = 256  # checked at a time
# Square uniform problems: in few dimensions the network simplex overtakes the assignment solver as they grow.
_FLAT, _FEW = 3, 1000


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


def solve(mu: Measure, nu: Measure, p: float = 2.0) -> Plan:
    """Optimal plan between two measures, with its proof.

    Measures on a line are sorted; equally many points of equal weight are an assignment;
    everything else goes to the network simplex. The points are first moved to the origin and
    scaled by a power of two, so that no solver meets a scale it was not made for.

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
    x, y, scale = _normalised(mu.points, nu.points)
    if mu.dimension == 1:
        solver = "sorted"
        found = sorted_transport(x[:, 0], y[:, 0], mu.weights, nu.weights, p)
        largest = float(max(abs(x.max() - y.min()), abs(y.max() - x.min())) ** p)
    else:
        cost = ground_cost(x, y, p)
        square = len(mu) == len(nu) and mu.is_uniform and nu.is_uniform
        if square and (mu.dimension > _FLAT or len(mu) <= _FEW):
            solver = "assignment"
            found = assignment(cost)
        else:
            solver = "network simplex"
            found = network_simplex(cost, mu.weights, nu.weights)
        found = _feasible(found, cost)
        largest = float(cost.max())
    rows, cols, mass, f, g = found
    primal = float(mass @ pairwise_cost(x[rows], y[cols], p))
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


def _normalised(x: Floats, y: Floats) -> tuple[Floats, Floats, float]:
    """Both clouds moved to a common origin and divided by a power of two: no digit is lost."""
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    if largest == 0:
        return x, y, 1.0
    first = _power_of_two(largest)
    x, y = x / first, y / first
    centre = (x[0] + y[0]) / 2
    x, y = x - centre, y - centre
    spread = max(float(np.abs(x).max()), float(np.abs(y).max()))
    second = _power_of_two(spread) if spread > 0 else 1.0
    return x / second, y / second, first * second


def _power_of_two(number: float) -> float:
    return math.ldexp(1.0, max(math.frexp(number)[1], -1021))


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
