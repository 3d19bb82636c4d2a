"""Differencing of a coreset's rounds: atoms on a line cut the records into slabs, and the masses
give their counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fedwad._audit._curve import Curve, random_direction
from fedwad._audit._session import AttackSession
from fedwad.federation import AtomsRequest, CellSums
from fedwad.ot import Floats

__all__ = ["by_slabs"]

_LINES, _QUERIES = 2, 120


def by_slabs(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Slabs across a line, moved a little from query to query; see `_curve`.

    A minimum cell size does not help: two slabs that differ by one record reveal it.
    """
    mean, scale = session.sketch()
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
