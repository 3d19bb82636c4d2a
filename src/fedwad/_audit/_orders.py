"""Attacks by distances of orders other than two.

If all points of a support lie in one place z, the p-th power of the distance of order p is the mean
of |x - z|^p. A minimum number of samples in a cell does not protect it.
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

__all__ = ["find_flagged_record", "find_tail_records"]

_WHOLE = 1e-6  # largest error of a number that counts as an integer
_FAR = 10.0  # distance of the support from the mean, in total standard deviations
_QUERIES = 60


def find_flagged_record(session: AttackSession, _: np.random.Generator) -> Floats:
    """The one record with a flag that no other has, from mean fourth powers of distances.

    A flag is a feature that is one integer for all records but one. For centred records y,
    E|y - z|^4 and E|y + z|^4 give z'Cz with the full covariance C. The column of C at the flag is a
    multiple of the centred record.
    """
    moments = session.ask(MomentsRequest())
    if not isinstance(moments, Moments) or session.features < 2:
        return session.no_guesses
    n, mean, variance = session.count, moments.mean, moments.scale**2
    flag, value = _find_flag(n, mean, variance)
    if flag < 0:
        return session.no_guesses
    far, unit = _FAR * float(np.sqrt(variance.sum())), np.eye(session.features)

    def fourth_moment(z: Floats) -> float:
        """E|y|^4 plus four times the part of z'Cz off the diagonal of C."""
        powers = _mean_power(session, mean + z, 4.0) + _mean_power(session, mean - z, 4.0)
        length = float(z @ z)
        from_variances = length**2 + 2 * length * float(variance.sum()) + 4 * float(z**2 @ variance)
        return powers / 2 - from_variances

    base, covariances = fourth_moment(far * unit[flag]), np.array(variance)
    for k in np.flatnonzero(np.arange(session.features) != flag):
        covariances[k] = (fourth_moment(far * (unit[flag] + unit[k])) - base) / (8 * far**2)
    guess = mean + covariances * n / value
    return guess[None] if np.isfinite(guess).all() else session.no_guesses


def _find_flag(n: int, mean: Floats, variance: Floats) -> tuple[int, float]:
    """A feature that may be a flag, and by how much the one record differs from the others in it.

    The feature is -1 if there is none.
    """
    for sign in (1.0, -1.0):
        value = sign * n * np.sqrt(variance / max(1, n - 1))
        base = mean - value / n
        error = np.abs(value - np.rint(value)) + np.abs(base - np.rint(base))
        error[np.rint(value) == 0] = np.inf
        best = int(error.argmin())
        if error[best] < _WHOLE:
            return best, float(value[best])
    return -1, 0.0


def find_tail_records(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Records in the tail of data with one feature, from mean distances.

    n E max(x - z, 0) is piecewise linear in z. Its slope is minus the number of records beyond z.
    Therefore two places z with the same records beyond them give the sum of these records.
    """
    moments = session.ask(MomentsRequest())
    if not isinstance(moments, Moments) or session.features > 1:
        return session.no_guesses
    n, mean, scale = session.count, float(moments.mean[0]), float(moments.scale[0])
    queries = session.queries(_QUERIES, reserved=1)
    places = mean + scale * np.geomspace(2.0, 20.0, max(2, queries))
    beyond = [n * (_mean_power(session, np.array([z]), 1.0) - (z - mean)) / 2 for z in places]
    sums = {0: 0.0}  # of the k largest records, by k
    for (a, sum_a), (b, sum_b) in pairwise(zip(places, beyond, strict=True)):
        slope = (sum_a - sum_b) / (b - a)
        if np.isfinite(slope) and abs(slope - round(slope)) < _WHOLE:
            sums[round(slope)] = sum_a + round(slope) * a
    guesses = [sums[k] - sums[k - 1] for k in sorted(sums) if k > 0 and k - 1 in sums]
    return np.array(guesses)[:, None] if guesses else session.no_guesses


def _mean_power(session: AttackSession, z: Floats, p: float) -> float:
    """The mean of |x - z|^p over all records; NaN if it is refused."""
    support = Measure(np.tile(z, (max(1, session.policy.min_support), 1)))
    reply = session.ask(CellsRequest("audit", support, p, "spherical"))
    if not isinstance(reply, SummaryReply) and session.may_ask("transport"):
        reply = session.ask(TransportRequest("audit", support, 0.5, p, "barycentric", True))
    if not isinstance(reply, SummaryReply | TransportReply) or reply.distance is None:
        return float("nan")
    return float(reply.distance**p)
