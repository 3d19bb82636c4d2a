"""POT's network simplex, with a check that it does not stop early."""

from __future__ import annotations

import math

import numpy as np

from fedwad.errors import CertificateError
from fedwad.ot._measure import Floats
from fedwad.ot._plan import Solution

__all__ = ["network_simplex", "refine"]

# With POT's default of 100,000 pivots, plans are wrong from about 5000 x 5000 on, with only a
# warning.
_PIVOTS = 10**9
# Entries of a plan up to this fraction of their row and column are rounding.
_RESIDUE = 256 * float(np.finfo(np.float64).eps)


def network_simplex(cost: Floats, a: Floats, b: Floats) -> Solution:
    """Optimal plan for any weights; the longer side goes first, which POT solves faster.

    Uniform weights are counted in integer units, so flows are integers: marginals hold exactly and
    there is no rounding. POT's tolerances are absolute, so costs are scaled to about one.
    """
    n, m = cost.shape
    if n < m:
        return network_simplex(np.ascontiguousarray(cost.T), b, a).transposed()
    from ot.lp import emd

    units = 1.0
    if (a == a[0]).all() and (b == b[0]).all():
        units = float(math.lcm(n, m))
        a, b = np.full(n, units / n), np.full(m, units / m)
    scale = math.ldexp(1.0, math.frexp(float(cost.max()))[1])
    plan, log = emd(
        a,
        b * (a.sum() / b.sum()),
        cost / scale,
        numItermax=_PIVOTS,
        log=True,
        check_marginals=False,
    )
    if log["warning"] is not None:
        raise CertificateError(
            f"The network simplex did not finish: {log['warning'].rstrip('. ')}."
        )
    rows, cols = np.nonzero(plan)
    if units == 1.0:  # entries that are rounding errors are dropped
        is_mass = plan[rows, cols] > _RESIDUE * np.minimum(a[rows], b[cols])
        rows, cols = rows[is_mass], cols[is_mass]
    mass = np.asarray(plan[rows, cols]) / units
    f, g = np.asarray(log["u"]) * scale, np.asarray(log["v"]) * scale
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
