"""Algorithm 1 of the paper as a state machine: the next request, and what follows from replies."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fedwad.federation import ClassStatistics, TransportReply, TransportRequest
from fedwad.methods import FedWaD
from fedwad.ot import Floats, Measure, interpolate, reduce_support, solve

__all__ = ["FedWaDLoop", "Round"]

_RANDOM_T = 0.25, 0.75  # the range of a random t
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Round:
    """What the server knows after one round.

    Attributes
    ----------
    number : int
        1 for the first round.
    t : float
        Position of the interpolating measures, between 0 and 1.
    support : int
        Number of points of the support after this round.
    reduced : bool
        Whether the support was reduced to `max_support` points.
    running : float
        The server's own estimate W_p(xi_mu, xi_nu) / (1 - t), for which no site sends a distance.
    seconds : float
    fedwad, upper : float or None
        The paper's estimate and a tighter upper bound at this round's support; None unless both
        sites revealed their distances from it.
    """

    number: int
    t: float
    support: int
    reduced: bool
    running: float
    seconds: float
    fedwad: float | None = None
    upper: float | None = None


class FedWaDLoop:
    """The server's side of FedWaD between two sites mu and nu.

    The request of `request()` holds the support xi^(k-1), for both sites. `advance()` takes their
    interpolating measures xi_mu^(k), xi_nu^(k) and moves the support to xi^(k), an interpolating
    measure between these two. `run` is a random name, which all requests of the loop carry.
    """

    def __init__(
        self,
        start: Measure,
        options: FedWaD | None = None,
        p: float = 2.0,
        rng: np.random.Generator | None = None,
        class_statistics: ClassStatistics = "ignored",
    ) -> None:
        self.support = start
        self.options = FedWaD() if options is None else options
        self.p = p
        self.class_statistics = class_statistics
        self.run = os.urandom(8).hex()
        self.history: list[Round] = []
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._request: TransportRequest | None = None
        self._potentials: Floats | None = None  # of the server's last transport, for a warm start
        self._started = 0.0  # when the last request was made

    def request(self) -> TransportRequest:
        """Return the next round's request, the same for both sites."""
        t_option, with_distance = self.options.t, self.options.reveal == "every"
        t = float(self._rng.uniform(*_RANDOM_T)) if t_option == "random" else float(t_option)
        self._request = TransportRequest(
            self.run,
            self.support,
            t,
            self.p,
            self.options.interpolant,
            with_distance,
            self.class_statistics,
        )
        self._started = time.perf_counter()
        return self._request

    def advance(self, mu: TransportReply, nu: TransportReply) -> Round:
        """Move the support by one round, given both replies to the last request."""
        assert self._request is not None, "advance() follows request()"
        request, self._request = self._request, None
        if mu.distance is not None and nu.distance is not None and self.history:
            upper = _upper_from_messages(request, mu, nu)
            self.history[-1] = replace(
                self.history[-1], fedwad=mu.distance + nu.distance, upper=upper
            )
        plan = solve(mu.interpolant, nu.interpolant, self.p, start=self._potentials)
        self._potentials = plan.g
        new_support = interpolate(plan, request.t, request.interpolant)
        max_support = self.options.max_support
        reduced = request.interpolant == "exact" and len(new_support) > max_support
        self.support = reduce_support(new_support, max_support) if reduced else new_support
        self.history.append(
            Round(
                number=len(self.history) + 1,
                t=request.t,
                support=len(self.support),
                reduced=reduced,
                running=plan.distance / (1 - request.t),
                seconds=time.perf_counter() - self._started,
            )
        )
        return self.history[-1]

    def has_converged(self) -> bool:
        """Whether the running estimate changed by at most `tol` in each of the last two rounds.

        One round is not enough: the estimate can stay constant while the support still moves.
        """
        tol = self.options.tol
        if tol == 0 or len(self.history) < 3:
            return False
        estimates = [record.running for record in self.history[-3:]]
        return all(abs(b - a) <= tol * max(b, a) for a, b in pairwise(estimates))

    def completed_history(self, fedwad: float, upper: float) -> tuple[Round, ...]:
        """Return all rounds, with the last one completed by the final message."""
        return (*self.history[:-1], replace(self.history[-1], fedwad=fedwad, upper=upper))


def _upper_from_messages(
    request: TransportRequest, mu: TransportReply, nu: TransportReply
) -> float:
    """Return an upper bound from the paper's own messages: both plans are composed at the support.

    The point s of a barycentric reply at t is (1 - t) x_s + t z_s, with the point z_s of the
    support, so the cell means x_s follow. With the distance d of the site from the support, the
    trace of the covariance within cells is d^2 - sum_s w_s |x_s - z_s|^2. For p other than 2, for
    other interpolants, and for replies with another number of points, the paper's estimate is the
    bound. Dividing by 1 - t magnifies rounding errors, which are added to the bound.
    """
    fedwad = (mu.distance or 0.0) + (nu.distance or 0.0)
    on_support = len(mu.interpolant) == len(nu.interpolant) == len(request.support)
    if request.p != 2 or request.interpolant != "barycentric" or not on_support:
        return fedwad
    t, z, weights = request.t, request.support.points, request.support.weights
    within_stds, cells, rounding_error = [], [], 0.0
    for reply in (mu, nu):
        means: Floats = (reply.interpolant.points - t * z) / (1 - t)
        between = float(weights @ ((means - z) ** 2).sum(axis=1))
        max_abs = max(np.abs(points).max() for points in (reply.interpolant.points, z))
        rounding = 8 * _EPSILON * float(max_abs) * math.sqrt(means.shape[1]) / (1 - t)
        rounding_error += rounding
        distance = reply.distance or 0.0
        within = max(0.0, distance**2 - between)
        within_stds.append(math.sqrt(within + 2 * distance * rounding + rounding**2))
        cells.append(Measure(means, weights))
    between_means = solve(cells[0], cells[1]).distance + rounding_error
    return min(fedwad, math.hypot(between_means, *within_stds))
