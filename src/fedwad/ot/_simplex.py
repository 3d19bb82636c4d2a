"""POT's network simplex, called so that it cannot stop early unnoticed."""

from __future__ import annotations

import math

import numpy as np

from fedwad.errors import CertificateError
from fedwad.ot._measure import Floats
from fedwad.ot._plan import Solution

__all__ = ["clipped_simplex", "network_simplex"]

# POT's default of 100,000 pivots returns wrong plans from about 5000 x 5000 on, with only a warning.
_PIVOTS = 10**9
_RESIDUE = 256 * float(np.finfo(np.float64).eps)


def network_simplex(cost: Floats, a: Floats, b: Floats) -> Solution:
    """Optimal plan for any weights; the longer side goes first, which POT solves faster.

    Uniform weights are counted in whole units, so that flows are whole numbers: marginals hold exactly and no
    splinters of mass arise from rounding. POT's tolerances are absolute, so costs are brought to the size of one.
    """
    n, m = cost.shape
    if n < m:
        return network_simplex(np.ascontiguousarray(cost.T), b, a).transposed()
    from ot.lp import emd

    units = 1.0
    if (a == a[0]).all() and (b == b[0]).all():
        units = float(math.lcm(n, m))
        a, b = np.full(n, units / n), np.full(m, units / m)
    size = math.ldexp(1.0, math.frexp(float(cost.max()))[1])
    plan, log = emd(a, b * (a.sum() / b.sum()), cost / size, numItermax=_PIVOTS, log=True, check_marginals=False)
    if log["warning"] is not None:
        raise CertificateError(f"The network simplex did not finish: {log['warning'].rstrip('. ')}.")
    rows, cols = np.nonzero(plan)
    if units == 1.0:  # what is left of a row and of a column by rounding is no entry of the plan
        kept = plan[rows, cols] > _RESIDUE * np.minimum(a[rows], b[cols])
        rows, cols = rows[kept], cols[kept]
    mass = np.asarray(plan[rows, cols]) / units
    f, g = np.asarray(log["u"]) * size, np.asarray(log["v"]) * size
    return Solution(rows.astype(np.int64), cols.astype(np.int64), mass, f, g)


def clipped_simplex(cost: Floats, a: Floats, b: Floats) -> Solution:
    """The same where a few enormous costs hide all others in rounding.

    Costs are clipped at a limit. If the optimal plan for clipped costs makes no clipped move, then it is optimal for
    the true ones, which are nowhere lower; otherwise the limit grows. It starts from the dearest of the cheapest moves,
    which some mass has to make.
    """
    dearest = float(cost.max())
    limit = 4 * max(float(cost.min(axis=1).max()), float(cost.min(axis=0).max()))
    if limit == 0:
        limit = 4 * float(cost[cost > 0].min(initial=dearest))
    while True:
        found = network_simplex(np.minimum(cost, limit), a, b)
        if limit > dearest or float(cost[found.rows, found.cols].max()) < limit:
            return found
        limit *= 4
