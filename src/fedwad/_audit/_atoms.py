"""Differencing of a coreset's rounds: atoms on a line cut the records into slabs, and the masses
give their counts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fedwad._audit._curve import Curve, random_direction
from fedwad._audit._session import AttackSession
from fedwad.federation import AtomsRequest, CellSums
from fedwad.ot import Floats

__all__ = ["by_slabs", "outermost"]

_LINES, _QUERIES = 2, 120
_DIRECTIONS, _HALVINGS, _FAR = 5, 24, 50.0


def by_slabs(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Slabs across a line, moved a little from query to query; see `_curve`.

    A minimum cell size does not help: two slabs that differ by one record reveal it.
    """
    mean, scale = session.rough_moments()
    queries = session.queries(_QUERIES, reserved=1)
    found: list[Floats] = []
    for _ in range(_LINES):
        curve = Curve(session.count, session.features)
        direction = random_direction(session.features, rng)
        width = 2.5 * float(np.sqrt((direction**2) @ scale**2))  # half the range of the slabs
        for _ in range(max(1, queries // _LINES)):
            atoms = max(2, min(session.max_support, max(2, (2 * session.max_support) // 3)))
            places = width * (np.linspace(-1, 1, atoms) + rng.uniform(-1, 1) / atoms)
            request = AtomsRequest(mean + np.outer(places, direction), np.zeros(atoms), 0.0)
            reply = session.ask(request)
            if not isinstance(reply, CellSums):
                if session.is_hopeless:
                    break
                continue
            filled = reply.masses > 0
            held = np.cumsum(np.rint(reply.masses[filled] * session.count).astype(np.int64))
            sums = reply.offsets + reply.masses[:, None] * (request.atoms - mean)
            curve.add([Fraction(int(place)) for place in held], session.count * sums[filled])
        found += [mean + record for record in curve.records()]
    return np.array(found).reshape(-1, session.features)


def outermost(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The outermost records along some directions, from the dual value.

    A far atom receives the records beyond a threshold. Its cell is left out of the reply, because
    they are few. A dual value over all cells would still contain the sum over these records. If
    it is one record, directions that are turned a little give all its features.
    """
    d, found = session.features, []
    for _ in range(_DIRECTIONS):
        direction = rng.standard_normal(d)
        guess = _outermost(session, direction / np.linalg.norm(direction))
        if guess is not None:
            found.append(guess)
        if session.is_hopeless:
            break
    return np.array(found) if found else session.nothing


def _outermost(session: AttackSession, direction: Floats) -> Floats | None:
    step = 1e-4 * session.clip_norm
    low, high = 0.0, session.clip_norm
    for _ in range(_HALVINGS):  # a threshold with one record beyond: there the slope is one
        middle = (low + high) / 2
        there = _beyond(session, direction, middle), _beyond(session, direction, middle + step)
        if there[0] is None or there[1] is None:
            return None
        slope = (there[0] - there[1]) / step
        if abs(slope - 1) < 1e-4:
            break
        low, high = (middle, high) if not slope <= 1 else (low, middle)
    else:
        return None
    turned = direction + 1e-3 * np.eye(session.features)
    sides = [_beyond(session, one, middle) for one in turned]
    if any(side is None or not np.isfinite(side) for side in sides):
        return None
    return np.asarray(np.linalg.solve(turned, np.array(sides, dtype=np.float64) + middle))


def _beyond(session: AttackSession, direction: Floats, threshold: float) -> float | None:
    """Sum of what lies beyond a threshold; infinite for more records than a cell needs, None if it
    is withheld."""
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
    whole = float(reply.squares.sum()) - float(reply.masses @ potentials)
    return float(session.count * (whole - reply.dual) / (2 * far))
