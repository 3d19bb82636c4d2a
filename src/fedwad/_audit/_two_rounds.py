"""Barycentric rounds with as many points as samples, t secret: two rounds are enough.

With S = n a reply is a_s = (1 - t) x_(s) + t z_s in an unknown order, so
x_(s) = z_s + u (a_s - z_s) with u = 1 / (1 - t). The mean of the samples does not depend on the
order and is the same in both rounds:

    mean z + u (mean a - mean z) = mean z' + u' (mean a' - mean z'),

d equations for the two unknowns u, u'. With one feature the order is known, and all n samples are
equations.
"""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import TransportReply, TransportRequest
from fedwad.ot import Floats, Measure

__all__ = ["invert_two_rounds"]


def invert_two_rounds(session: AttackSession, rng: np.random.Generator) -> Floats:
    """All records from two rounds with S = n points, each with its own secret t."""
    mean, scale = session.estimate_moments()
    starts, moves = [], []
    for k in range(2):
        support = Measure(
            mean + scale * (2 * k + rng.standard_normal((session.count, session.features)))
        )
        t = float(rng.uniform(0.25, 0.75))  # drawn by the client; used nowhere below
        reply = session.ask(TransportRequest("audit", support, t, 2.0, "barycentric", False))
        if not isinstance(reply, TransportReply) or len(reply.interpolant) != session.count:
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
