"""The paper's exact interpolating measure, with t known and with t secret.

An atom of the reply is (1 - t) x_i + t z_j. From inside a geodesic the optimal plan to its end is a
unique map. Therefore the plan from the *reply* to the support gives j for each atom, whatever t is,
and x_i follows once t is known. A sample that is split between z_j and z_k gives two atoms whose
difference is t (z_j - z_k), which reveals t.
"""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import TransportReply, TransportRequest
from fedwad.ot import Floats, Measure, solve

__all__ = ["invert_with_known_t", "invert_with_secret_t"]

_POINTS = 7  # of the support
_EQUAL = 1e-8  # largest relative error of numbers that count as equal


def invert_with_known_t(session: AttackSession, rng: np.random.Generator) -> Floats:
    """One round with the exact interpolant, after mean and scale were asked for; the server chose
    t."""
    return _attack(session, rng, secret=False)


def invert_with_secret_t(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The same as if the client had drawn t and kept it secret: the attack does not use it."""
    return _attack(session, rng, secret=True)


def _attack(session: AttackSession, rng: np.random.Generator, secret: bool) -> Floats:
    """Records from one round; if t is secret, it is inferred from the reply."""
    mean, scale = session.estimate_moments()
    shape = _support_size(session.count), session.features
    support = Measure(mean + scale * rng.standard_normal(shape))
    t = float(rng.uniform(0.25, 0.75)) if secret else 0.5
    request = TransportRequest(
        run="audit", support=support, t=t, p=2.0, interpolant="exact", with_distance=False
    )
    reply = session.ask(request)
    if not isinstance(reply, TransportReply):
        return session.no_guesses
    atoms = reply.interpolant
    plan = solve(atoms, support)
    heavy = np.lexsort((plan.mass, plan.rows))[::-1]  # of each atom, the entry with most mass first
    rows, first = np.unique(plan.rows[heavy], return_index=True)
    ends = support.points[plan.cols[heavy][first]]
    points, masses = atoms.points[rows], atoms.weights[rows]
    if secret:  # from here on t is inferred, not used
        inferred = _infer_t(points, ends, masses)
        if inferred is None:
            return session.no_guesses
        t = inferred
    return _distinct((points - t * ends) / (1 - t), masses)


def _support_size(count: int) -> int:
    """A number of points that does not divide the number of samples, so that samples are split.

    For two samples, and for multiples of all numbers from 2 to 13, there is none.
    """
    sizes = [*range(_POINTS, 2 * _POINTS), *range(_POINTS - 1, 1, -1)]
    return next((size for size in sizes if size < count and count % size), min(_POINTS, count))


def _infer_t(points: Floats, ends: Floats, masses: Floats) -> float | None:
    """t from pairs of light atoms whose difference is a multiple of their ends' difference."""
    light = np.flatnonzero(masses < masses.max() * (1 - _EQUAL))
    votes = []
    for k, i in enumerate(light):
        for j in light[k + 1 :]:
            difference, end_difference = points[i] - points[j], ends[i] - ends[j]
            square = float(end_difference @ end_difference)
            if square == 0:
                continue
            t = float(difference @ end_difference) / square
            error = float(np.linalg.norm(difference - t * end_difference))
            one_sample = masses[i] + masses[j] <= masses.max() * (1 + _EQUAL)
            if one_sample and 0 < t < 1 and error <= _EQUAL * np.sqrt(square):
                votes.append(t)
    if not votes:
        return None
    # With one feature every difference is a multiple. The pieces of one sample agree on t; other
    # pairs do not.
    values = np.array(votes)
    agree = (np.abs(values[:, None] - values) <= _EQUAL).sum(axis=1)
    return float(values[agree.argmax()])


def _distinct(records: Floats, masses: Floats) -> Floats:
    """The reconstructions, heaviest first, without the second piece of a split sample."""
    order = np.argsort(-masses, kind="stable")
    size = float(np.abs(records).max()) or 1.0
    _, first = np.unique(np.round(records[order] / (1e-9 * size)), axis=0, return_index=True)
    return np.asarray(records[order][np.sort(first)])
