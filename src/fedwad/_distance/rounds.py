"""Algorithm 1 of the paper as a state machine: what to ask next, and what to make of the
replies."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from fedwad._checks import check_choice, check_whole
from fedwad.errors import InputError
from fedwad.federation import Classes, TransportReply, TransportRequest
from fedwad.ot import Floats, Interpolant, Measure, interpolate, reduce_support, solve

__all__ = ["FedWaD", "Round"]

_RANDOM_T = 0.25, 0.75
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Round:
    """What the server knows after one round.

    `running` is its own estimate W_p(xi_mu, xi_nu) / (1 - t), for which no client tells a distance.
    `fedwad` and `upper` are the paper's estimate and the tighter bound at this round's support,
    where distances were revealed.
    """

    number: int
    t: float
    support: int
    reduced: bool
    running: float
    seconds: float
    fedwad: float | None = None
    upper: float | None = None


class FedWaD:
    """The server's side of FedWaD between two clients mu and nu.

    `request()` holds the support xi^(k-1) for both; `advance()` takes their interpolating measures
    xi_mu^(k), xi_nu^(k) and moves the support to xi^(k), an interpolating measure between them.
    """

    reply_type: ClassVar[type[TransportReply]] = TransportReply

    def __init__(
        self,
        start: Measure,
        p: float = 2.0,
        t: float | Literal["random"] = 0.5,
        interpolant: Interpolant = "barycentric",
        reveal: Literal["last", "every"] = "last",
        max_support: int = 1000,
        rng: np.random.Generator | None = None,
        classes: Classes = "ignored",
    ) -> None:
        if not (isinstance(t, str) and t == "random") and not (
            isinstance(t, int | float | np.floating) and 0 < t < 1
        ):
            raise InputError(f"t is {t!r}; give a number strictly between 0 and 1, or 'random'.")
        check_choice(interpolant, "interpolant", ("barycentric", "exact"))
        check_choice(reveal, "reveal", ("last", "every"))
        self.support = start
        self.p = p
        self.run = os.urandom(8).hex()
        self.history: list[Round] = []
        self._t = t
        self._interpolant = interpolant
        self.classes = classes
        self._reveal = reveal == "every"
        self._max_support = check_whole(max_support, "max_support")
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._asked: TransportRequest | None = None
        self._potentials: Floats | None = (
            None  # of the server's last transport, to start the next one from
        )
        self._since = 0.0

    def request(self) -> TransportRequest:
        """The next round's question, the same for both clients."""
        t = float(self._rng.uniform(*_RANDOM_T)) if self._t == "random" else float(self._t)
        self._asked = TransportRequest(
            self.run, self.support, t, self.p, self._interpolant, self._reveal, self.classes
        )
        self._since = time.perf_counter()
        return self._asked

    def advance(self, mu: TransportReply, nu: TransportReply) -> Round:
        """Move the support by one round, given both replies to the last request."""
        assert self._asked is not None, "advance() follows request()"
        asked, self._asked = self._asked, None
        if mu.distance is not None and nu.distance is not None and self.history:
            upper = _upper_from_messages(asked, mu, nu)
            self.history[-1] = replace(
                self.history[-1], fedwad=mu.distance + nu.distance, upper=upper
            )
        plan = solve(mu.interpolant, nu.interpolant, self.p, start=self._potentials)
        self._potentials = plan.g
        moved = interpolate(plan, asked.t, self._interpolant)
        reduced = self._interpolant == "exact" and len(moved) > self._max_support
        self.support = reduce_support(moved, self._max_support) if reduced else moved
        self.history.append(
            Round(
                number=len(self.history) + 1,
                t=asked.t,
                support=len(self.support),
                reduced=reduced,
                running=plan.distance / (1 - asked.t),
                seconds=time.perf_counter() - self._since,
            )
        )
        return self.history[-1]

    def has_settled(self, tol: float) -> bool:
        """Whether the running estimate changed by no more than this fraction in each of the last
        two rounds.

        One is not enough: the estimate may stand still for a round while the support still moves.
        """
        if not (isinstance(tol, int | float) and 0 <= tol < math.inf):
            raise InputError(f"tolerance is {tol!r}; give a number of at least 0.")
        if tol == 0 or len(self.history) < 3:
            return False
        last = [past.running for past in self.history[-3:]]
        return all(abs(now - before) <= tol * max(now, before) for before, now in pairwise(last))

    def closed_history(self, fedwad: float, upper: float) -> tuple[Round, ...]:
        """All rounds, the last one completed by what the closing message told."""
        return (*self.history[:-1], replace(self.history[-1], fedwad=fedwad, upper=upper))


def _upper_from_messages(asked: TransportRequest, mu: TransportReply, nu: TransportReply) -> float:
    """The glued upper bound from the paper's own messages, at the support that was asked about.

    A barycentric reply at t is (1 - t) x_s + t z_s, so the cell means x_s follow, and with them tr
    C = d^2 - sum_s w_s |x_s - z_s|^2. In other cases the paper's estimate is the bound. Dividing by
    1 - t magnifies rounding, which is accounted for upwards.
    """
    fedwad = (mu.distance or 0.0) + (nu.distance or 0.0)
    size = len(asked.support)
    on_support = len(mu.interpolant) == len(nu.interpolant) == size
    if asked.p != 2 or asked.interpolant != "barycentric" or not on_support:
        return fedwad
    within_stds, means, rounding_error = [], [], 0.0
    for reply in (mu, nu):
        cells: Floats = (reply.interpolant.points - asked.t * asked.support.points) / (1 - asked.t)
        moved = asked.support.weights @ ((cells - asked.support.points) ** 2).sum(axis=1)
        largest = max(
            np.abs(points).max() for points in (reply.interpolant.points, asked.support.points)
        )
        off = 8 * _EPSILON * float(largest) * math.sqrt(cells.shape[1]) / (1 - asked.t)
        rounding_error += off
        distance = reply.distance or 0.0
        within_stds.append(
            math.sqrt(max(0.0, distance**2 - float(moved)) + 2 * distance * off + off**2)
        )
        means.append(Measure(cells, asked.support.weights))
    return min(
        fedwad, math.hypot(solve(means[0], means[1]).distance + rounding_error, *within_stds)
    )
