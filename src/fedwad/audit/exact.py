"""Inversion of rounds: the paper's exact interpolant, and supports of as many points as samples.

An atom of an exact reply is (1 - t) x_i + t z_j. From inside a geodesic the optimal plan to its end
is a unique map. Therefore the plan from the *reply* to the support gives j for each atom, whatever
t is, and x_i follows once t is known. A sample that is split between z_j and z_k gives two atoms
whose difference is t (z_j - z_k), which reveals t.

With S = n points the reply of a barycentric round is a_s = (1 - t) x_(s) + t z_s in an unknown
order, so x_(s) = z_s + u (a_s - z_s) with u = 1 / (1 - t). The mean of the samples does not depend
on the order and is the same in two rounds:

    mean z + u (mean a - mean z) = mean z' + u' (mean a' - mean z'),

d equations for the two unknowns u, u'. With one feature the order is known, and all n samples are
equations.
"""

from __future__ import annotations

import numpy as np

from fedwad.audit.session import AttackSession, attack, need
from fedwad.federation import TransportReply, TransportRequest
from fedwad.transport import Floats, Measure, solve


@attack("exact interpolant, t known", "one round with the exact interpolant")
def invert_with_known_t(session: AttackSession, rng: np.random.Generator) -> Floats:
    """One round with the exact interpolant, after mean and scale were asked for; the server chose
    t."""
    return _attack(session, rng, secret=False)


@attack("exact interpolant, t secret", "one round with the exact interpolant")
def invert_with_secret_t(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The same where the client draws t and keeps it secret."""
    return _attack(session, rng, secret=True)


def _attack(session: AttackSession, rng: np.random.Generator, secret: bool) -> Floats:
    """Records from one round; if t is secret, it is inferred from the reply."""
    mean, scale = session.estimate_moments()
    shape = _support_size(session.count), session.features
    support = Measure(mean + scale * rng.standard_normal(shape))
    known = None if secret else 0.5
    request = TransportRequest("audit", support, 2.0, known, "exact", False)
    atoms = session.require(request, TransportReply).interpolant
    plan = solve(atoms, support)
    heavy = np.lexsort((plan.mass, plan.rows))[::-1]  # of each atom, the entry with most mass first
    rows, first = np.unique(plan.rows[heavy], return_index=True)
    ends = support.points[plan.cols[heavy][first]]
    points, masses = atoms.points[rows], atoms.weights[rows]
    t = need(_infer_t(points, ends, masses)) if known is None else known
    records = (points - t * ends) / (1 - t)
    records = records[np.argsort(-masses, kind="stable")]  # the heaviest first
    size = float(np.abs(records).max()) or 1.0  # without the second piece of a split sample
    _, first = np.unique(np.round(records / (1e-9 * size)), axis=0, return_index=True)
    return np.asarray(records[np.sort(first)])


def _support_size(count: int, points: int = 7) -> int:
    """A number of points that does not divide the number of samples, so that samples are split.

    For two samples, and for multiples of all numbers from 2 to 13, there is none.
    """
    sizes = [*range(points, 2 * points), *range(points - 1, 1, -1)]
    return next((size for size in sizes if size < count and count % size), min(points, count))


def _infer_t(points: Floats, ends: Floats, masses: Floats, equal: float = 1e-8) -> float | None:
    """t from pairs of light atoms whose difference is a multiple of their ends' difference.

    Numbers with relative errors up to `equal` count as equal.
    """
    light = np.flatnonzero(masses < masses.max() * (1 - equal))
    votes = []
    for k, i in enumerate(light):
        for j in light[k + 1 :]:
            difference, end_difference = points[i] - points[j], ends[i] - ends[j]
            square = float(end_difference @ end_difference)
            if square == 0:
                continue
            t = float(difference @ end_difference) / square
            error = float(np.linalg.norm(difference - t * end_difference))
            one_sample = masses[i] + masses[j] <= masses.max() * (1 + equal)
            if one_sample and 0 < t < 1 and error <= equal * np.sqrt(square):
                votes.append(t)
    if not votes:
        return None
    # With one feature every difference is a multiple. The pieces of one sample agree on t; other
    # pairs do not.
    values = np.array(votes)
    agree = (np.abs(values[:, None] - values) <= equal).sum(axis=1)
    return float(values[agree.argmax()])


@attack("n points, t secret", "two rounds with S = n")
def invert_two_rounds(session: AttackSession, rng: np.random.Generator) -> Floats:
    """All records from two rounds with S = n points, for each of which the client draws its own
    t."""
    mean, scale = session.estimate_moments()
    starts, moves = [], []
    for k in range(2):
        support = Measure(
            mean + scale * (2 * k + rng.standard_normal((session.count, session.features)))
        )
        request = TransportRequest("audit", support, 2.0, None, "barycentric", False)
        reply = session.require(request, TransportReply)
        if len(reply.interpolant) != session.count:
            return session.no_guesses
        starts.append(support.points)
        moves.append(reply.interpolant.points - support.points)
    if session.features == 1:
        order = [np.argsort(start[:, 0], kind="stable") for start in starts]
        first, second = ([part[k][order[k]][:, 0] for part in (starts, moves)] for k in range(2))
    else:
        first, second = ([part[k].mean(axis=0) for part in (starts, moves)] for k in range(2))
    equations = np.column_stack([first[1], -second[1]])
    (u, _), *_ = np.linalg.lstsq(equations, second[0] - first[0], rcond=None)
    return np.asarray(starts[0] + u * moves[0])
