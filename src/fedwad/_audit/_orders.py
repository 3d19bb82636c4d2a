"""Attacks by distances of orders other than two.

If all points of a support lie in one place z, the p-th power of the distance of order p is the mean
of |x - z|^p over all records x. However many samples a cell must have, this mean is sent.
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
_QUERIES = 60  # places at which the mean distance is asked for, at most


def find_flagged_record(session: AttackSession, _: np.random.Generator) -> Floats:
    """The one record with a flag, from mean fourth powers of distances.

    A flag is an integer feature with the same value for all records but one. Let y be the centred
    records and C their covariance. The sum of E|y - z|^4 and E|y + z|^4 gives z'Cz, and thereby all
    entries of C. The column of C that belongs to the flag is a multiple of the centred record.
    """
    moments = session.ask(MomentsRequest())
    if not isinstance(moments, Moments) or session.features < 2:
        return session.no_guesses
    n, mean, variance = session.count, moments.mean, moments.scale**2
    flag, difference = _find_flag(n, mean, variance)
    if flag < 0:
        return session.no_guesses
    far, unit = _FAR * float(np.sqrt(variance.sum())), np.eye(session.features)

    def mean_power_less_variances(z: Floats) -> float:
        """The mean of E|y - z|^4 and E|y + z|^4 without the terms that the variances give.

        It is E|y|^4 plus four times the part of z'Cz off the diagonal of C.
        """
        powers = _mean_power(session, mean + z, 4.0) + _mean_power(session, mean - z, 4.0)
        square = float(z @ z)
        from_variances = square**2 + 2 * square * float(variance.sum()) + 4 * float(z**2 @ variance)
        return powers / 2 - from_variances

    fourth_moment = mean_power_less_variances(far * unit[flag])  # E|y|^4
    covariances = np.array(variance)  # of the flag with each feature, after the loop
    for k in np.flatnonzero(np.arange(session.features) != flag):
        power = mean_power_less_variances(far * (unit[flag] + unit[k]))
        covariances[k] = (power - fourth_moment) / (8 * far**2)
    guess = mean + covariances * n / difference
    return guess[None] if np.isfinite(guess).all() else session.no_guesses


def _find_flag(n: int, mean: Floats, variance: Floats) -> tuple[int, float]:
    """The index of a feature that may be a flag, and by how much the one record differs in it.

    The index is -1 if there is none.
    """
    for sign in (1.0, -1.0):
        difference = sign * n * np.sqrt(variance / max(1, n - 1))
        common = mean - difference / n  # the value of all other records
        error = np.abs(difference - np.rint(difference)) + np.abs(common - np.rint(common))
        error[np.rint(difference) == 0] = np.inf
        best = int(error.argmin())
        if error[best] < _WHOLE:
            return best, float(difference[best])
    return -1, 0.0


def find_tail_records(session: AttackSession, _: np.random.Generator) -> Floats:
    """The largest records of data with one feature, from mean distances.

    Mean distances give the sum over all records of max(x - z, 0). As a function of z it is
    piecewise linear, and its slope is minus the number of records above z. If no record lies
    between two places z, the slope between them gives the number of records above both and thereby
    the sum of these records. Sums of k and of k - 1 records give the k-th largest record.
    """
    moments = session.ask(MomentsRequest())
    if not isinstance(moments, Moments) or session.features > 1:
        return session.no_guesses
    n, mean, scale = session.count, float(moments.mean[0]), float(moments.scale[0])
    queries = session.queries(_QUERIES, reserved=1)
    places = mean + scale * np.geomspace(2.0, 20.0, max(2, queries))
    excesses = [n * (_mean_power(session, np.array([z]), 1.0) - (z - mean)) / 2 for z in places]
    sums = {0: 0.0}  # of the k largest records, by k
    for (a, excess_a), (b, excess_b) in pairwise(zip(places, excesses, strict=True)):
        above = (excess_a - excess_b) / (b - a)  # number of records above b, if none is between
        if np.isfinite(above) and abs(above - round(above)) < _WHOLE:
            sums[round(above)] = excess_a + round(above) * a
    guesses = [sums[k] - sums[k - 1] for k in sorted(sums) if k > 0 and k - 1 in sums]
    return np.array(guesses)[:, None] if guesses else session.no_guesses


def _mean_power(session: AttackSession, z: Floats, p: float) -> float:
    """The mean of |x - z|^p over all records x; NaN if the site refuses it."""
    support = Measure(np.tile(z, (max(1, session.policy.min_support), 1)))
    reply = session.ask(CellsRequest("audit", support, p=p, covariance_type="spherical"))
    if not isinstance(reply, SummaryReply) and session.may_ask("transport"):
        request = TransportRequest(
            "audit", support, t=0.5, p=p, interpolant="barycentric", with_distance=True
        )
        reply = session.ask(request)
    if not isinstance(reply, SummaryReply | TransportReply) or reply.distance is None:
        return float("nan")
    return float(reply.distance**p)
