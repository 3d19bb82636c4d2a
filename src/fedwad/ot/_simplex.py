"""POT's network simplex, called so that it cannot stop early unnoticed."""

from __future__ import annotations

import math

import numpy as np

from fedwad.errors import CertificateError
from fedwad.ot._measure import Floats
from fedwad.ot._plan import Solution

__all__ = ["network_simplex"]

# POT's default of 100,000 pivots returns wrong plans from about 5000 x 5000 on, with only a warning.
_PIVOTS = 10**9


def network_simplex(cost: Floats, a: Floats, b: Floats) -> Solution:
    """Optimal plan for any weights; the longer side goes first, which POT solves faster.

    Uniform weights are counted in whole units, so that flows are whole numbers: marginals hold
    exactly and no splinters of mass arise from rounding.
    """
    n, m = cost.shape
    if n < m:
        return network_simplex(np.ascontiguousarray(cost.T), b, a).transposed()
    from ot.lp import emd

    units = 1.0
    if (a == a[0]).all() and (b == b[0]).all():
        units = float(math.lcm(n, m))
        a, b = np.full(n, units / n), np.full(m, units / m)
    plan, log = emd(a, b * (a.sum() / b.sum()), cost, numItermax=_PIVOTS, log=True, check_marginals=False)
    if log["warning"] is not None:
        raise CertificateError(f"The network simplex did not finish: {log['warning'].rstrip('. ')}.")
    rows, cols = np.nonzero(plan)
    mass = np.asarray(plan[rows, cols]) / units
    return Solution(rows.astype(np.int64), cols.astype(np.int64), mass, np.asarray(log["u"]), np.asarray(log["v"]))
