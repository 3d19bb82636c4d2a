"""Attacks on a record with a rare value: swaps, and distances of orders other than two.

Points on a line order the records along it and cut that order into cells of equal size. Let one
record be the only one with some value, and let the line lean a long way towards or away from that
value: all other records keep their order, and the target is the first record or the last. The sums
of the first s cells then differ by the target less the record at the end of cell s. That record
lies between the means of cells s and s + 1 along the line, so that a line along a column tells the
target's value in this column, and all lines together tell the others.

If all points of a support lie in one place z, the p-th power of the distance of order p is the mean
of |x - z|^p over all records x. However many samples a cell must have, this mean is sent.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedwad.audit.session import AttackSession, attack, need
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    CellSums,
    SummaryReply,
    TransportReply,
    TransportRequest,
)
from fedwad.transport import Floats, Measure

_WHOLE = 1e-6  # largest error of a number that counts as an integer


@attack("swap of a rare record", "pairs of supports whose cells differ by one record", on_all=True)
def swap_records(session: AttackSession, rng: np.random.Generator, most: int = 100) -> Floats:
    """The one record with a rare value, from pairs of rounds or of hub requests.

    The server knows the rare value and its column, as a schema tells, and nothing else.
    """
    moments = session.ask_moments()
    flag, n, (mean, scale) = need(rare_column(session.records)), session.count, need(moments)
    stds = np.where(scale > 0, scale, 1.0)  # a constant column needs no unit
    size = max(2, min(session.max_support, 10), session.policy.min_support)
    columns = [k for k in range(session.features) if k != flag and scale[k] > 0]
    if not columns or n < 2 * size:
        return session.no_guesses
    totals, weights = mean / stds**2, 1 / stds**2  # what the server would guess without asking
    for pair in range(session.queries(most, reserved=session.answered) // 2):
        column = columns[pair % len(columns)]
        direction = 0.01 * rng.standard_normal(session.features)  # ties are broken at random
        direction[column], direction[flag] = 1.0, 0.0
        estimates, variances = _differences(session, direction / stds, flag, mean, stds, size)
        totals += (estimates / variances).sum(axis=0)
        weights += (1 / variances).sum(axis=0)
    guess = totals / weights
    whole = np.abs(n * mean - np.rint(n * mean)) < _WHOLE * n
    guess[whole] = np.rint(guess[whole])
    guess[flag] = _rare_value(session.records[:, flag])
    return np.asarray(guess[None])


@attack("swap between two atoms", "pairs of cells that differ by one record", on_all=True)
def swap_between_atoms(session: AttackSession, rng: np.random.Generator, most: int = 50) -> Floats:
    """The one record with a rare value, from the halves of planes that it alone changes.

    Each pair leans towards the rare value and away from it, and pairs are averaged.
    """
    base, stds = session.estimate_moments()
    flag = need(rare_column(session.records))
    base[flag] = np.median(session.records[:, flag])
    side, found = float(np.sign(_rare_value(session.records[:, flag]) - base[flag])), []
    for _ in range(session.queries(most, reserved=session.answered) // 2):
        lean, sums = rng.standard_normal(session.features) / stds, []
        for sign in (side, -side):
            lean[flag] = sign * 1e3 / stds[flag]
            atoms = base + np.array([[-1.0], [1.0]]) * lean / np.linalg.norm(lean)
            reply = session.require(AtomsRequest(atoms, np.zeros(2), 0.0), CellSums)
            sums.append(reply.offsets[1] + reply.masses[1] * atoms[1])
        found.append(session.count * (sums[0] - sums[1]))
    guess = np.mean(found, axis=0) if found else base
    whole = np.abs(session.records - np.rint(session.records)).max(axis=0) < _WHOLE
    guess[whole] = np.rint(guess[whole])
    guess[flag] = _rare_value(session.records[:, flag])
    return np.asarray(guess[None])


def rare_column(records: Floats) -> int | None:
    """A column in which one record differs from all others, which agree."""
    for column in range(records.shape[1]):
        _, counts = np.unique(records[:, column], return_counts=True)
        if len(counts) == 2 and counts.min() == 1:
            return column
    return None


def _rare_value(values: Floats) -> float:
    """The value of a column that differs from all others."""
    return float(values[np.abs(values - np.median(values)).argmax()])


def _differences(
    session: AttackSession,
    slope: Floats,
    flag: int,
    mean: Floats,
    stds: Floats,
    size: int,
    length: float = 1e3,
) -> tuple[Floats, Floats]:
    """Estimates of the target from the ends of all cells but the last (S - 1, d), and their
    variances.

    Lines lean towards the rare value by so many standard deviations of the other columns.
    """
    n, sums, means = session.count, [], []
    for sign in (-1.0, 1.0):
        lean = np.array(slope)
        lean[flag] = sign * length / stds[flag]
        # Projections on `lean` decide; the longer the support, the less its place matters.
        along = np.linspace(-1, 1, size)[:, None] * lean / float(lean @ lean) * length
        found = need(session.cell_means(Measure(mean + along)))
        means.append(found)
        cells = found * n / size
        # The sum of all records is known, so that the last cell alone tells that of all others.
        sums.append(np.vstack([np.cumsum(cells[:-1], axis=0)[:-1], n * mean - cells[-1:]]))
    values = session.records[:, flag]
    side = 1.0 if _rare_value(values) > np.median(values) else -1.0
    is_first = means[0][0, flag] * side > means[1][0, flag] * side
    with_target, without = (0, 1) if is_first else (1, 0)
    ends = sums[with_target] - sums[without]
    between = means[without]
    estimates = ends + (between[1:] + between[:-1]) / 2
    gaps = between[1:] - between[:-1]
    # Along the line the end of a cell lies within the gap; across it, anywhere.
    is_along = np.abs(slope * stds) > 0.5
    variances = np.where(is_along, gaps**2 / 12 + 1e-6 * stds**2, stds**2)
    if session.policy.rounding:  # the policy is public: only sums of one cell have one shift each
        outer = [0, -1] if size > 2 else [0]
        return estimates[outer], variances[outer] + 2 * (session.policy.rounding * stds) ** 2
    return estimates, variances


@attack("moments by distances", "distances of order 4 to coinciding points", on_all=True)
def find_flagged_record(
    session: AttackSession, _: np.random.Generator, distance: float = 10.0
) -> Floats:
    """The one record with a flag, from mean fourth powers of distances.

    A flag is an integer feature with the same value for all records but one. Let y be the centred
    records and C their covariance. The sum of E|y - z|^4 and E|y + z|^4 gives z'Cz, and thereby all
    entries of C. The column of C that belongs to the flag is a multiple of the centred record.

    Supports are so many total standard deviations away from the mean.
    """
    n, (mean, std) = session.count, need(session.ask_moments())
    if session.features < 2:
        return session.no_guesses
    variance = std**2
    flag, difference = _find_flag(n, mean, variance)
    if flag < 0:
        return session.no_guesses
    far, unit = distance * float(np.sqrt(variance.sum())), np.eye(session.features)

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


@attack("sums of tails", "distances of order 1 to coinciding points, for one feature", on_all=True)
def find_tail_records(
    session: AttackSession, _: np.random.Generator, most_places: int = 60
) -> Floats:
    """The largest records of data with one feature, from mean distances.

    Mean distances give the sum over all records of max(x - z, 0). As a function of z it is
    piecewise linear, and its slope is minus the number of records above z. If no record lies
    between two places z, the slope between them gives the number of records above both and thereby
    the sum of these records. Sums of k and of k - 1 records give the k-th largest record.
    """
    moments = need(session.ask_moments())
    if session.features > 1:
        return session.no_guesses
    n, mean, scale = session.count, float(moments[0][0]), float(moments[1][0])
    queries = session.queries(most_places, reserved=1)
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
    reply = session.ask(CellsRequest("audit", support, p, "spherical"))
    if not isinstance(reply, SummaryReply) and session.may_ask("transport"):
        reply = session.ask(TransportRequest("audit", support, p, 0.5, "barycentric", True))
    if not isinstance(reply, SummaryReply | TransportReply) or reply.distance is None:
        return float("nan")
    return float(reply.distance**p)
