"""Attacks by distances of orders other than two, which are averages of functions of their own.

If all points of a support lie in one place z, the distance of order p is the mean of |x - z|^p, and
no minimum of samples in a cell covers it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import (
    CellsRequest,
    Moments,
    MomentsRequest,
    SummaryReply,
    TransportReply,
    TransportRequest,
)
from fedwad.ot import Floats, Measure

__all__ = ["moments_by_distances", "tail_sums"]

_WHOLE = 1e-6  # a flag is an integer up to this
_FAR = 10.0  # in total standard deviations
_QUERIES = 60


def moments_by_distances(session: AttackSession, _: np.random.Generator) -> Floats:
    """The record with a flag that nobody else has, from mean fourth powers of distances.

    E|y - z|^4 and E|y + z|^4 of the centred records y give z'Cz with the full covariance C. Its
    column at the flag is a multiple of the one record.
    """
    moments = session.ask(MomentsRequest())
    nothing = np.empty((0, session.features))
    if not isinstance(moments, Moments) or session.features < 2:
        return nothing
    n, mean, variance = session.count, moments.mean, moments.scale**2
    flag, value = _flag(n, mean, variance)
    if flag < 0:
        return nothing
    far, unit = _FAR * float(np.sqrt(variance.sum())), np.eye(session.features)

    def even(z: Floats) -> float:
        """E|y|^4 plus four times the part of z'Cz off the diagonal of C."""
        powers = _power(session, mean + z, 4.0) + _power(session, mean - z, 4.0)
        length = float(z @ z)
        known = length**2 + 2 * length * float(variance.sum()) + 4 * float(z**2 @ variance)
        return powers / 2 - known

    fourth, row = even(far * unit[flag]), np.array(variance)
    for k in np.flatnonzero(np.arange(session.features) != flag):
        row[k] = (even(far * (unit[flag] + unit[k])) - fourth) / (8 * far**2)
    guess = mean + row * n / value
    return guess[None] if np.isfinite(guess).all() else nothing


def _flag(n: int, mean: Floats, variance: Floats) -> tuple[int, float]:
    """The feature that may be an integer for all records but one, and by how much that one
    differs; -1 if there is none."""
    for sign in (1.0, -1.0):
        value = sign * n * np.sqrt(variance / max(1, n - 1))
        base = mean - value / n
        off = np.abs(value - np.rint(value)) + np.abs(base - np.rint(base))
        off[np.rint(value) == 0] = np.inf
        best = int(off.argmin())
        if off[best] < _WHOLE:
            return best, float(value[best])
    return -1, 0.0


def tail_sums(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Records in the tail of data with one feature, from mean distances.

    n E max(x - z, 0) is piecewise linear in z. Its slope is minus the number of records beyond z,
    so two places with the same records beyond give their sum.
    """
    nothing = np.empty((0, session.features))
    moments = session.ask(MomentsRequest())
    if not isinstance(moments, Moments) or session.features > 1:
        return nothing
    n, mean, scale = session.count, float(moments.mean[0]), float(moments.scale[0])
    max_queries = session.policy.max_queries
    queries = _QUERIES if max_queries is None else min(_QUERIES, max_queries - 1)
    places = mean + scale * np.geomspace(2.0, 20.0, max(2, queries))
    beyond = [n * (_power(session, np.array([z]), 1.0) - (z - mean)) / 2 for z in places]
    sums = {0: 0.0}
    for (a, sum_a), (b, sum_b) in pairwise(zip(places, beyond, strict=True)):
        slope = (sum_a - sum_b) / (b - a)
        if np.isfinite(slope) and abs(slope - round(slope)) < _WHOLE:
            sums[round(slope)] = sum_a + round(slope) * a
    found = [sums[k] - sums[k - 1] for k in sorted(sums) if k > 0 and k - 1 in sums]
    return np.array(found)[:, None] if found else nothing


def _power(session: AttackSession, z: Floats, p: float) -> float:
    """E|x - z|^p; NaN if it is refused."""
    support = Measure(np.tile(z, (max(1, session.policy.min_support), 1)))
    reply = session.ask(CellsRequest("audit", support, p, "spherical"))
    if not isinstance(reply, SummaryReply) and session.can("transport"):
        reply = session.ask(TransportRequest("audit", support, 0.5, p, "barycentric", True))
    if not isinstance(reply, SummaryReply | TransportReply) or reply.distance is None:
        return float("nan")
    return float(reply.distance**p)
