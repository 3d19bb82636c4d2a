"""Attacks on releases under differential privacy, up to the attacker that the promise is about.

That attacker knows all records but one, and wants this one. From a mean without noise it follows at
once, x_i = n mean - sum of the others; from a noisy one it comes back as x_i + n noise. So each
record's guess is made here with the help of all others, which no attack on another method may use.
"""

from __future__ import annotations

import math

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import PrivateReply, PrivateRequest
from fedwad.ot import Floats
from fedwad.privacy import DP, denoise

__all__ = ["averaged_releases", "known_others", "one_release"]

_REPEATS = 20
_UNLIMITED = 100.0  # asked of a client that grants everything


def one_release(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from what the whole budget buys."""
    reply = _release(session)
    if reply is None:
        return np.empty((0, session.features))
    summary = denoise(reply).summary
    cells = rng.choice(len(summary.weights), size=session.count, p=summary.weights)
    values, vectors = np.linalg.eigh(summary.covariance)
    noise = (
        rng.standard_normal((session.count, session.features))
        @ (vectors * np.sqrt(np.maximum(values, 0))).T
    )
    return np.asarray(summary.means[cells] + noise)


def known_others(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Each record from one release and all other records."""
    reply = _release(session)
    return (
        np.empty((0, session.features)) if reply is None else _from_others(session, [_mean(reply)])
    )


def averaged_releases(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """The same from twenty releases, each with the whole budget if the client lets it; no two are
    the same request."""
    means = []
    for k in range(_REPEATS):
        reply = _release(session, 1 + 1e-6 * k)
        if reply is None:
            break
        means.append(_mean(reply))
    return _from_others(session, means) if means else np.empty((0, session.features))


def _release(session: AttackSession, factor: float = 1.0) -> PrivateReply | None:
    granted = session.policy.epsilon
    epsilon = _UNLIMITED if granted is None or math.isinf(granted) else granted
    reply = session.ask(
        PrivateRequest.of(DP(epsilon, session.policy.delta, session.clip_norm * factor))
    )
    return reply if isinstance(reply, PrivateReply) else None


def _mean(reply: PrivateReply) -> Floats:
    return np.asarray(reply.origin + reply.clip_norm * reply.first_mean)


def _from_others(session: AttackSession, means: list[Floats]) -> Floats:
    others = session.known.sum(axis=0) - session.known
    return np.asarray(session.count * np.mean(means, axis=0) - others)
