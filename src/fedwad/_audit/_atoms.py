"""Attacks on a coreset's rounds: slabs of records between planes, and records far outside."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fedwad._audit._curve import Curve, random_direction
from fedwad._audit._session import AttackSession
from fedwad.federation import AtomsRequest, CellSums
from fedwad.ot import Floats

__all__ = ["difference_slabs", "find_outermost"]

_LINES, _QUERIES = 2, 120
_DIRECTIONS, _HALVINGS = 5, 24
_FAR = 50.0  # distance of the far atom from the origin, in clip norms


def difference_slabs(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Records from slabs, into which atoms on a line cut the data; see `_curve`.

    Each query cuts a little differently. The masses give the number of records in each slab. A
    minimum cell size does not help: two slabs that differ by one record reveal it.
    """
    mean, scale = session.estimate_moments()
    queries = session.queries(_QUERIES, reserved=1)
    guesses: list[Floats] = []
    for _ in range(_LINES):
        curve = Curve(session.count, session.features)
        direction = random_direction(session.features, rng)
        half_range = 2.5 * float(np.sqrt((direction**2) @ scale**2))  # of the atoms
        for _ in range(max(1, queries // _LINES)):
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


def find_outermost(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The outermost records along some directions, from the dual value.

    A far atom receives the records beyond a threshold. Its cell is left out of the reply, because
    these records are few. A dual value over all cells would still contain the sum over them. If
    there is one such record, directions that are turned a little give all its features.
    """
    guesses = []
    for _ in range(_DIRECTIONS):
        guess = _find_along(session, random_direction(session.features, rng))
        if guess is not None:
            guesses.append(guess)
        if session.should_stop:
            break
    return np.array(guesses) if guesses else session.no_guesses


def _find_along(session: AttackSession, direction: Floats) -> Floats | None:
    """The outermost record along a direction; None if it is not found."""
    step = 1e-4 * session.clip_norm
    low, high = 0.0, session.clip_norm
    for _ in range(_HALVINGS):  # a threshold with one record beyond: there the slope is one
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


def _sum_beyond(session: AttackSession, direction: Floats, threshold: float) -> float | None:
    """The sum over records of how far they lie beyond a threshold along a direction.

    It is infinite for more records than a cell needs, and None if the client withholds it.
    """
    far = _FAR * session.clip_norm
    size = max(2, session.policy.min_support)
    atoms = np.zeros((size, session.features))
    atoms[1:] = far * direction
    potential = far**2 * float(direction @ direction) - 2 * far * threshold
    potentials = np.full(size, potential)
    potentials[0] = 0.0
    reply = session.ask(AtomsRequest(atoms, potentials, 0.0))
    if not isinstance(reply, CellSums):
        return None
    if float(reply.masses[1:].sum()) > 0:
        return math.inf
    if reply.dual is None:
        return None
    total = float(reply.squares.sum()) - float(reply.masses @ potentials)
    return float(session.count * (total - reply.dual) / (2 * far))
