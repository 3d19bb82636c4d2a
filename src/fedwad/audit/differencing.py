"""Differencing: sums over nested sets of records, from which single records follow.

A support on one line sorts the records along it and cuts that order into cells. The cells of all
queries along one line describe one curve: C(q) = the sum of the first q records in that order,
where a record that is cut counts in part. The curve is linear between integers, with slope x_(i)
between i and i + 1. Two queries that cut the same record in two positions reveal it, whatever the
number of samples in each cell. Rounds of a coreset give the same sums: over slabs between planes,
or over records far outside.

The same request again gains nothing, unless a record joined the data in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import accumulate, takewhile
from typing import Any

import numpy as np

from fedwad.audit.session import AttackSession, attack, halve
from fedwad.federation import (
    AtomsRequest,
    CellSums,
    ColumnsReply,
    ColumnsRequest,
    Prototypes,
    PrototypesRequest,
    Reply,
    Request,
    SummaryReply,
    SummaryRequest,
)
from fedwad.statistics import Summary
from fedwad.transport import Floats, Measure


class Curve:
    """Known values of C at some positions q from 0 to n."""

    def __init__(self, count: int, features: int) -> None:
        self._count = count
        self._heights: dict[Fraction, Floats] = {Fraction(0): np.zeros(features)}

    def add(self, positions: list[Fraction], sums: Floats) -> None:
        """Add the values at the ends of consecutive cells with these sums."""
        for position, height in zip(positions, np.cumsum(sums, axis=0), strict=True):
            self._heights.setdefault(position, height)

    def records(self) -> list[Floats]:
        """The records in which C is known at two positions or more, from the two farthest apart."""
        positions = sorted(self._heights)
        positions_in: dict[int, list[Fraction]] = {}
        for position in positions:
            positions_in.setdefault(int(position), []).append(position)
            if position.denominator == 1:  # an integer also ends the record before
                positions_in.setdefault(int(position) - 1, []).append(position)
        records = []
        for index, ends in positions_in.items():
            if 0 <= index < self._count and len(ends) >= 2:
                low, high = ends[0], ends[-1]
                records.append((self._heights[high] - self._heights[low]) / float(high - low))
        return records


def random_direction(features: int, rng: np.random.Generator) -> Floats:
    """A random unit vector."""
    direction = rng.standard_normal(features)
    return np.asarray(direction / np.linalg.norm(direction))


@attack("differencing by weights", "rounds to supports of unequal weights")
def difference_by_weights(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Cells of the smallest allowed size, the first of up to twice that size.

    Every record is then the last of some cell.
    """
    min_size = max(1, session.policy.min_cell_size)
    count, most = session.count, session.policy.max_support or session.count

    def queries() -> Iterable[list[Fraction]]:
        for shift in range(min_size + 1):
            ends = range(min_size + shift, count - min_size + 1, min_size)[: most - 1]
            yield [Fraction(cell) for cell in np.diff([0, *ends, count]).tolist()]

    return _attack(session, rng, queries)


@attack("differencing by sizes", "rounds to supports of many sizes")
def difference_by_sizes(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Equal weights, as a policy may require, in supports of many sizes S: cells end at k n / S."""
    largest = min(session.max_support, max(1, session.count // 2))
    sizes = range(largest, max(1, session.policy.min_support - 1) - 1, -1)
    return _attack(session, rng, lambda: ([Fraction(session.count, size)] * size for size in sizes))


def _attack(
    session: AttackSession,
    rng: np.random.Generator,
    queries: Callable[[], Iterable[list[Fraction]]],
    lines: int = 3,
    most: int = 200,
) -> Floats:
    """Records from supports on a few lines; `queries()` gives the sizes of the cells of each.

    At most so many queries are asked, on so many lines.
    """
    mean, scale = session.estimate_moments()
    guesses: list[Floats] = []
    n_asked = 0
    for _ in range(lines):
        curve = Curve(session.count, session.features)
        direction = random_direction(session.features, rng)
        for cells in queries():
            if session.is_spent or n_asked >= most:
                break
            weights = np.array([float(cell) for cell in cells])
            along = np.arange(len(cells)) - (len(cells) - 1) / 2
            support = mean + np.outer(along, direction) * float(scale.mean())
            means = session.cell_means(Measure(support, weights))
            n_asked += 1
            if means is not None:
                curve.add(list(accumulate(cells)), weights[:, None] * (means - mean))
            elif not session.answered:  # the kind or the weights are refused: so will be all others
                return session.no_guesses
        guesses += [mean + record for record in curve.records()]
    return np.array(guesses).reshape(-1, session.features)


@attack("differencing by slabs", "rounds with atoms on a line")
def difference_slabs(
    session: AttackSession, rng: np.random.Generator, lines: int = 2, most: int = 120
) -> Floats:
    """Records from slabs, into which atoms on a line cut the data.

    Each query cuts a little differently. The masses give the number of records in each slab. A
    minimum cell size does not help: two slabs that differ by one record reveal it.
    """
    mean, scale = session.estimate_moments()
    queries = session.queries(most, reserved=1)
    guesses: list[Floats] = []
    for _ in range(lines):
        curve = Curve(session.count, session.features)
        direction = random_direction(session.features, rng)
        half_range = 2.5 * float(np.sqrt((direction**2) @ scale**2))  # of the atoms
        for _ in range(max(1, queries // lines)):
            atoms = max(2, min(session.max_support, max(2, (2 * session.max_support) // 3)))
            along = half_range * (np.linspace(-1, 1, atoms) + rng.uniform(-1, 1) / atoms)
            request = AtomsRequest(mean + np.outer(along, direction), np.zeros(atoms), 0.0)
            reply = session.ask(request)
            if not isinstance(reply, CellSums):
                if session.should_stop:
                    break
                continue
            filled = reply.masses > 0
            ends = np.cumsum(np.rint(reply.masses[filled] * session.count).astype(np.int64))
            sums = reply.offsets + reply.masses[:, None] * (request.atoms - mean)
            curve.add([Fraction(int(end)) for end in ends], session.count * sums[filled])
        guesses += [mean + record for record in curve.records()]
    return np.array(guesses).reshape(-1, session.features)


@attack("bisecting of cells", "rounds that move the plane between two atoms")
def bisect_cells(
    session: AttackSession,
    rng: np.random.Generator,
    most: int = 120,
    fewest_halvings: int = 10,
    turn: float = 0.003,
) -> Floats:
    """The record at which a cell closes, along some directions, from where two cells meet.

    The server moves the plane between two atoms, and halves. Directions that are turned a little
    meet the same record, and give all its features.
    """
    d = session.features
    halvings = session.queries(most, reserved=2) // d
    if halvings < fewest_halvings:
        return session.no_guesses
    mean, scale = session.estimate_moments()
    direction = random_direction(d, rng)
    turned, ends = direction + turn * np.eye(d), np.zeros(d)
    reach = 6.0 * float(np.sqrt(direction**2 @ scale**2))
    for k, axis in enumerate(turned):
        low, high = 0.0, reach
        if k:  # the record lies within a few standard deviations
            near = 5.0 * turn * float(scale.max())
            low, high = ends[0] - near, ends[0] + near

        def is_closed(threshold: float, axis: Floats = axis) -> bool:
            """Whether too few records lie beyond for a cell."""
            request = _beyond(session, mean, axis, threshold, session.clip_norm)
            return not session.require(request, CellSums).masses[1:].any()

        ends[k], _ = halve(is_closed, low, high, halvings)
    return np.asarray(mean + np.linalg.solve(turned, ends))[None]


def _beyond(
    session: AttackSession, origin: Floats, direction: Floats, threshold: float, far: float
) -> AtomsRequest:
    """A request whose atoms, but the first, receive the records beyond a threshold along a
    direction."""
    size = max(2, session.policy.min_support)
    atoms = np.tile(origin, (size, 1))
    atoms[1:] += far * direction
    potentials = np.full(size, far**2 * float(direction @ direction) - 2 * far * threshold)
    potentials[0] = 0.0
    return AtomsRequest(atoms, potentials, 0.0)


@attack("outermost by dual values", "rounds with a far atom whose cell has too few records")
def find_outermost(session: AttackSession, rng: np.random.Generator, directions: int = 5) -> Floats:
    """The outermost records along some directions, from the dual value.

    A far atom receives the records beyond a threshold. Its cell is left out of the reply, because
    these records are few. A dual value over all cells would still contain the sum over them. If
    there is one such record, directions that are turned a little give all its features.
    """
    guesses = []
    for _ in range(directions):
        guess = _find_along(session, random_direction(session.features, rng))
        if guess is not None:
            guesses.append(guess)
        if session.should_stop:
            break
    return np.array(guesses) if guesses else session.no_guesses


def _find_along(session: AttackSession, direction: Floats, halvings: int = 24) -> Floats | None:
    """The outermost record along a direction; None if it is not found."""
    step = 1e-4 * session.clip_norm
    low, high = 0.0, session.clip_norm
    for _ in range(halvings):  # a threshold with one record beyond: there the slope is one
        middle = (low + high) / 2
        here, next_ = (_sum_beyond(session, direction, z) for z in (middle, middle + step))
        if here is None or next_ is None:
            return None
        slope = (here - next_) / step
        if abs(slope - 1) < 1e-4:
            break
        low, high = (low, middle) if slope <= 1 else (middle, high)
    else:
        return None
    turned = direction + 1e-3 * np.eye(session.features)
    sums = [_sum_beyond(session, axis, middle) for axis in turned]
    if any(total is None or not np.isfinite(total) for total in sums):
        return None
    return np.asarray(np.linalg.solve(turned, np.array(sums, dtype=np.float64) + middle))


def _sum_beyond(
    session: AttackSession, direction: Floats, threshold: float, distance: float = 50.0
) -> float | None:
    """The sum over records of how far they lie beyond a threshold along a direction.

    It is infinite for more records than a cell needs, and None if the client withholds it.

    The far atom is so many clip norms away.
    """
    far = distance * session.clip_norm
    request = _beyond(session, np.zeros(session.features), direction, threshold, far)
    reply = session.ask(request)
    if not isinstance(reply, CellSums):
        return None
    if float(reply.masses[1:].sum()) > 0:
        return math.inf
    if reply.dual is None:
        return None
    total = float(reply.squares.sum()) - float(reply.masses @ request.potentials)
    return float(session.count * (total - reply.dual) / (2 * far))


@attack("differencing of draws", "rounds about all rows but a random one")
def difference_draws(session: AttackSession, _: np.random.Generator, most: int = 120) -> Floats:
    """The row that each draw leaves out: the sum of all rows less that of the others."""
    n, support = session.count, Measure(np.zeros((1, session.features)))
    mean, guesses = session.cell_means(support), []
    for draw in range(session.queries(most, reserved=1)):
        others = session.cell_means(support, samples=n - 1, draw=draw)
        if others is None or mean is None:
            break
        guesses.append(n * mean - (n - 1) * others)
    return np.concatenate(guesses) if guesses else session.no_guesses


@attack("averaging of repeats", "the same round twenty times")
def average_rounds(session: AttackSession, rng: np.random.Generator, repeats: int = 20) -> Floats:
    """Ask for one round twenty times and average the cell means."""
    size = max(min(session.max_support, session.count // 10 or 1), session.policy.min_support)
    mean, scale = session.estimate_moments()
    support = Measure(mean + scale * rng.standard_normal((size, session.features)))
    return _average(session, (session.cell_means(support) for _ in range(repeats)))


@attack("averaging of repeats", "the same summary twenty times")
def average_summaries(
    session: AttackSession, rng: np.random.Generator, repeats: int = 20
) -> Floats:
    """Ask for one summary twenty times and average the cell means."""
    request = SummaryRequest(session.max_support, "spherical", 2.0, 0)
    summaries = (session.ask_summary(request) for _ in range(repeats))
    return _average(session, (None if summary is None else summary.means for summary in summaries))


def _average(session: AttackSession, replies: Iterable[Floats | None]) -> Floats:
    """The mean of the replies before the first refusal."""
    answers: list[Any] = list(takewhile(lambda means: means is not None, replies))
    return np.mean(answers, axis=0) if answers else session.no_guesses


@attack("differences of versions", "the same request before and after a record joined", on_all=True)
def difference_versions(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The record that joined between two replies to the same request, on one ledger."""
    n, record = session.count, int(rng.integers(session.count))
    for request in _requests(session):
        before, after = session.ask_before_and_after(record, request)
        old_mean, new_mean = _mean(before), _mean(after)
        if old_mean is not None and new_mean is not None:
            return np.asarray(n * new_mean - (n - 1) * old_mean)[None]
    return session.no_guesses


def _requests(session: AttackSession) -> list[Request]:
    """The requests of the method whose replies contain a mean of all records.

    If the policy allows none of them, the first is tried, so that its refusal is recorded.
    """
    size = max(1, session.policy.min_support)
    atoms = np.zeros((size, session.features))
    atoms[1:] += 1e6 * session.clip_norm * np.arange(1, size)[:, None]  # no record is near these
    requests: list[Request] = [
        ColumnsRequest(),
        session.cells_request(),
        SummaryRequest(1, "diag", 2.0, 0, calibration=False),
        AtomsRequest(atoms, np.zeros(size), 0.0),
        PrototypesRequest(1, "class", "free", 0),
    ]
    usable = [request for request in requests if session.uses(type(request).kind)]
    return [request for request in usable if session.may_ask(type(request).kind)] or usable[:1]


def _mean(reply: Reply | None) -> Floats | None:
    """The mean of all records that follows from a reply; None if there is no such reply."""
    if isinstance(reply, ColumnsReply):
        means = np.array([s.mean for s in reply.profile.columns])
        return None if np.isnan(means).any() else means
    if isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary):
        return reply.summary.mean
    if isinstance(reply, CellSums):
        return np.asarray(reply.offsets[0])
    if isinstance(reply, Prototypes):
        return np.asarray(reply.weights @ reply.points / reply.weights.sum())
    return None
