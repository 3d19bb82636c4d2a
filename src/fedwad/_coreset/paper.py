"""The paper's coresets: gradient steps towards a few random sites, through FedWaD or directly.

The paper is Rakotomamonjy, Nadjahi and Ralaivola, Federated Wasserstein Distance, ICLR 2024. In its
words, an epoch is one gradient step of the coreset; a round is one exchange of FedWaD inside it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from fedwad._coreset.result import CoresetRound
from fedwad._distance.rounds import FedWaDLoop
from fedwad.errors import FederationError, InputError
from fedwad.federation import CellsRequest, MeteredFederation, SummaryReply, TransportReply
from fedwad.ot import Floats, Measure, Plan, Summary, solve

__all__ = [
    "SGD",
    "Adam",
    "DirectGradient",
    "EpochOptions",
    "Epochs",
    "FedWaDGradient",
    "GradientMethod",
    "GradientStep",
    "epochs",
]


@dataclass(frozen=True, eq=False)
class GradientStep:
    """Mean distance of the asked sites to the coreset, its gradient (S, d), and who answered."""

    loss: float
    gradient: Floats
    sites: tuple[str, ...]
    min_cell_size: int | None


class GradientMethod(Protocol):
    def step(
        self, metered: MeteredFederation, names: Sequence[str], coreset: Measure
    ) -> GradientStep: ...


class Optimizer(Protocol):
    def step(self, atoms: Floats, gradient: Floats, rate: float) -> Floats: ...


class SGD:
    """Gradient steps z <- z - rate * S * gradient.

    For W2^2 a rate of one half moves each atom to the mean of the mass that it receives.
    """

    def step(self, atoms: Floats, gradient: Floats, rate: float) -> Floats:
        return np.asarray(atoms - rate * len(atoms) * gradient)


class Adam:
    """Adam (Kingma and Ba 2015): the mean gradient over its root mean square, by coordinate."""

    def __init__(self, first: float = 0.9, second: float = 0.999) -> None:
        self._decays = first, second
        self._mean: Floats | float = 0.0
        self._square: Floats | float = 0.0
        self._steps = 0

    def step(self, atoms: Floats, gradient: Floats, rate: float) -> Floats:
        first, second = self._decays
        self._steps += 1
        self._mean = first * self._mean + (1 - first) * gradient
        self._square = second * self._square + (1 - second) * gradient**2
        mean = self._mean / (1 - first**self._steps)
        square = self._square / (1 - second**self._steps)
        return np.asarray(
            atoms
            - rate * mean / (np.sqrt(square) + 1e-12 * float(np.sqrt(np.max(square))) + 1e-300)
        )


@dataclass(frozen=True, eq=False)
class FedWaDGradient:
    """FedWaD between the coreset, which the server holds, and each asked site.

    xi is FedWaD's support, which moves to a measure between the coreset and the data of the site.
    The gradient is that of W2(coreset, xi) in the coreset's points with the plan P fixed. By the
    envelope theorem it is the right one where W2 is differentiable: d W2^2 / d z_s = 2 (b_s z_s -
    sum_j P_sj xi_j), and d W2 = d W2^2 / (2 W2).
    """

    support: int
    rounds: int
    fill: Measure  # random points about the mean of the data, which fill up the first support
    rng: np.random.Generator

    def step(
        self, metered: MeteredFederation, names: Sequence[str], coreset: Measure
    ) -> GradientStep:
        loops = {name: FedWaDLoop(self._start(coreset), rng=self.rng) for name in names}
        potentials: dict[str, Floats | None] = dict.fromkeys(names)
        for _ in range(self.rounds):
            asked = {name: loop.request() for name, loop in loops.items()}
            replies = metered.ask(asked, TransportReply, allow_failures=True)
            loops = {name: loop for name, loop in loops.items() if name in replies}
            for name, loop in loops.items():
                plan = solve(coreset, asked[name].support, start=potentials[name])
                potentials[name] = plan.g
                # t: the place of the interpolating measure, 0 at the coreset and 1 at the support
                t = asked[name].t
                loop.advance(TransportReply(_on_support(plan, t), None), replies[name])
        gradient, loss = np.zeros_like(coreset.points), 0.0
        for loop in loops.values():
            gradient += _gradient(solve(loop.support, coreset)) / len(loops)
            # running: FedWaD's estimate of the distance after its last round
            loss += loop.history[-1].running / len(loops)
        return GradientStep(loss, gradient, tuple(loops), None)

    def _start(self, coreset: Measure) -> Measure:
        """Return the coreset itself, filled up with random points about the mean of the data."""
        extra = self.rng.permutation(len(self.fill))[: max(0, self.support - len(coreset))]
        kept = coreset.points[: self.support]
        return Measure(np.concatenate([kept, self.fill.points[extra]]))


@dataclass(frozen=True, eq=False)
class DirectGradient:
    """The coreset itself is the support that travels; sites reply with the means of its cells."""

    run_id: str

    @classmethod
    def new(cls) -> DirectGradient:
        return cls(os.urandom(8).hex())

    def step(
        self, metered: MeteredFederation, names: Sequence[str], coreset: Measure
    ) -> GradientStep:
        request = CellsRequest(self.run_id, coreset, p=2.0, covariance_type="spherical")
        came = metered.ask(dict.fromkeys(names, request), SummaryReply, allow_failures=True)
        replies = _on_all_points(metered, came, len(coreset))
        gradient, loss, min_cell_size = np.zeros_like(coreset.points), 0.0, math.inf
        for reply in replies.values():
            summary, distance = reply.summary, reply.distance or 0.0
            assert isinstance(summary, Summary)  # noqa: S101
            towards = 2 * coreset.weights[:, None] * (coreset.points - summary.means)
            gradient += towards / (2 * distance or 1.0) / len(replies)
            loss += distance / len(replies)
            min_cell_size = min(min_cell_size, summary.min_cell_size)
        return GradientStep(loss, gradient, tuple(replies), int(min_cell_size))


def _on_all_points(
    metered: MeteredFederation, replies: Mapping[str, SummaryReply], size: int
) -> dict[str, SummaryReply]:
    """The replies with a cell for each of the `size` points; sites without are left out."""
    found = {name: reply for name, reply in replies.items() if len(reply.summary.weights) == size}
    for name in replies:
        if name not in found:
            metered.leave_out(
                name,
                InputError(
                    f"{name} has fewer samples than the coreset has points; take a smaller size."
                ),
            )
    if not found:
        raise FederationError("No site has as many samples as the coreset has points.")
    return found


def _on_support(plan: Plan, t: float) -> Measure:
    """Return the barycentric interpolant on the points of the support."""
    return Measure((1 - t) * plan.target_means() + t * plan.target.points, plan.target.weights)


def _gradient(plan: Plan) -> Floats:
    """Return the gradient of W2(source, target) in the target's points."""
    towards = 2 * plan.target.weights[:, None] * (plan.target.points - plan.target_means())
    return np.asarray(towards / (2 * plan.distance or 1.0))


@dataclass(frozen=True)
class EpochOptions:
    """Options of the paper's epochs."""

    epochs: int
    clients_per_epoch: int
    learning_rate: float
    optimizer: Literal["adam", "sgd"]
    tol: float


@dataclass(frozen=True, eq=False)
class Epochs:
    """The atoms after the last epoch, and how they came about."""

    atoms: Floats
    history: tuple[CoresetRound, ...]
    converged: bool
    min_cell_size: int | None


def epochs(
    metered: MeteredFederation,
    names: tuple[str, ...],
    start: Floats,
    method: GradientMethod,
    options: EpochOptions,
    rng: np.random.Generator,
    callback: Callable[[CoresetRound], None] | None,
) -> Epochs:
    """Run epochs with random sites.

    The learning rate falls linearly to a twentieth, so that the atoms converge.
    """
    atoms, optimizer = start, Adam() if options.optimizer == "adam" else SGD()
    history: list[CoresetRound] = []
    converged, min_cell_size = False, math.inf
    for number in range(1, options.epochs + 1):
        since = time.perf_counter()
        remaining = [name for name in names if name not in metered.failed]
        count = min(options.clients_per_epoch, len(remaining))
        picked = sorted(rng.choice(len(remaining), count, replace=False).tolist())
        found = method.step(metered, [remaining[k] for k in picked], Measure(atoms))
        min_cell_size = min(min_cell_size, found.min_cell_size or math.inf)
        rate = options.learning_rate * max(0.05, 1 - (number - 1) / options.epochs)
        moved = optimizer.step(atoms, found.gradient, rate)
        shift = float(np.sqrt(((moved - atoms) ** 2).sum(axis=1).mean()))
        atoms = moved
        seconds = time.perf_counter() - since
        history.append(CoresetRound(number, seconds, found.loss, shift, len(found.sites)))
        if callback is not None:
            callback(history[-1])
        converged = shift <= options.tol * found.loss
        if converged:
            break
    fewest = None if min_cell_size == math.inf else int(min_cell_size)
    return Epochs(atoms, tuple(history), converged, fewest)
