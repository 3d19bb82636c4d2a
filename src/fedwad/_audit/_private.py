"""Attacks on releases under differential privacy, including the attacker of its definition.

That attacker knows all records but one. A mean without noise reveals the last one:
x_i = n mean - sum of the others. A noisy mean gives x_i + n noise. Two of the attacks therefore use
all other records for each guess, which no attack on another method may do.
"""

from __future__ import annotations

import math

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad._audit._summaries import draw_from_cells
from fedwad.federation import PrivateReply, PrivateRequest
from fedwad.ot import Floats
from fedwad.privacy import DP, denoise

__all__ = ["average_releases", "draw_from_release", "subtract_known_records"]

_REPEATS = 20
_EPSILON_WITHOUT_LIMIT = 100.0  # requested if the policy sets no limit


def draw_from_release(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from a release that spends the whole budget."""
    reply = _release(session)
    if reply is None:
        return session.no_guesses
    return draw_from_cells(session, denoise(reply).summary, rng)


def subtract_known_records(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Each record from one release and all other records."""
    reply = _release(session)
    return session.no_guesses if reply is None else _subtract_others(session, [_mean(reply)])


def average_releases(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Each record from twenty releases of different clip norms, and all other records."""
    means = []
    for k in range(_REPEATS):
        reply = _release(session, 1 + 1e-6 * k)
        if reply is None:
            break
        means.append(_mean(reply))
    return _subtract_others(session, means) if means else session.no_guesses


def _release(session: AttackSession, clip_factor: float = 1.0) -> PrivateReply | None:
    """A release that spends the whole budget; None if it is refused."""
    epsilon = session.policy.epsilon
    if epsilon is None or math.isinf(epsilon):
        epsilon = _EPSILON_WITHOUT_LIMIT
    guarantee = DP(epsilon, delta=session.policy.delta, clip_norm=session.clip_norm * clip_factor)
    reply = session.ask(PrivateRequest.of(guarantee))
    return reply if isinstance(reply, PrivateReply) else None


def _mean(reply: PrivateReply) -> Floats:
    return np.asarray(reply.origin + reply.clip_norm * reply.first_mean)


def _subtract_others(session: AttackSession, means: list[Floats]) -> Floats:
    """Each record: n times the mean of these noisy means, less all other records."""
    others = session.records.sum(axis=0) - session.records
    return np.asarray(session.count * np.mean(means, axis=0) - others)
