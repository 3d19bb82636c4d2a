"""The paper's coresets: gradient steps towards a few random sites, through FedWaD or directly.

The paper is Rakotomamonjy, Nadjahi and Ralaivola, Federated Wasserstein Distance, ICLR 2024. In its
words, an epoch is one gradient step of the coreset; a round is one exchange of FedWaD inside it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    "run_epochs",
]


@dataclass(frozen=True, eq=False)
class GradientStep:
    """The loss of one epoch and its gradient.

    Attributes
    ----------
    loss : mean distance of the sites that answered to the coreset
    gradient : gradient of the loss in the points of the coreset, (S, d)
    sites : the sites that answered
    min_cell_size : number of samples in the smallest cell whose mean a site sent; None if no cell
        means were sent
    """

    loss: float
    gradient: Floats
    sites: tuple[str, ...]
    min_cell_size: int | None


class GradientMethod(Protocol):
    """How to get the gradient from the named sites."""

    def step(
        self, metered: MeteredFederation, names: Sequence[str], coreset: Measure
    ) -> GradientStep: ...


class SGD:
    """Gradient steps z <- z - rate * S * gradient.

    With the gradient of W2^2, a rate of one half moves each atom to the mean of the mass that it
    receives.
    """

    def step(self, atoms: Floats, gradient: Floats, rate: float) -> Floats:
        return np.asarray(atoms - rate * len(atoms) * gradient)


class Adam:
    """Adam (Kingma and Ba 2015): the mean gradient over its root mean square, by coordinate."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999) -> None:
        self._betas = beta1, beta2
        self._mean: Floats | float = 0.0
        self._square: Floats | float = 0.0
        self._steps = 0

    def step(self, atoms: Floats, gradient: Floats, rate: float) -> Floats:
        beta1, beta2 = self._betas
        self._steps += 1
        self._mean = beta1 * self._mean + (1 - beta1) * gradient
        self._square = beta2 * self._square + (1 - beta2) * gradient**2
        mean = self._mean / (1 - beta1**self._steps)
        square = self._square / (1 - beta2**self._steps)
        epsilon = 1e-12 * float(np.sqrt(np.max(square)))
        return np.asarray(atoms - rate * mean / (np.sqrt(square) + epsilon + 1e-300))


@dataclass(frozen=True, eq=False)
class FedWaDGradient:
    """FedWaD between the coreset, which the server holds, and each named site.

    xi is FedWaD's support, which moves to a measure between the coreset and the data of the site.
    The gradient is that of W2(coreset, xi) in the coreset's points z with the plan P fixed. By the
    envelope theorem it is the right one where W2 is differentiable: d W2^2 / d z_s = 2 (b_s z_s -
    sum_j P_sj xi_j), and d W2 = d W2^2 / (2 W2).

    Attributes
    ----------
    support : number of points of the support
    rounds : rounds of FedWaD in one epoch
    fill : random points around the mean of the data; with the coreset they are the first support
    rng : generator that chooses among these points
    """

    support: int
    rounds: int
    fill: Measure
    rng: np.random.Generator

    def step(
        self, metered: MeteredFederation, names: Sequence[str], coreset: Measure
    ) -> GradientStep:
        loops = {name: FedWaDLoop(self._start(coreset), rng=self.rng) for name in names}
        potentials: dict[str, Floats | None] = dict.fromkeys(names)
        for _ in range(self.rounds):
            requests = {name: loop.request() for name, loop in loops.items()}
            replies = metered.ask(requests, TransportReply, allow_failures=True)
            loops = {name: loop for name, loop in loops.items() if name in replies}
            for name, loop in loops.items():
                plan = solve(coreset, requests[name].support, start=potentials[name])
                potentials[name] = plan.g
                own = TransportReply(_interpolate_on_support(plan, requests[name].t), None)
                loop.advance(own, replies[name])
        gradient, loss = np.zeros_like(coreset.points), 0.0
        for loop in loops.values():
            plan = solve(loop.support, coreset)
            gradient += _gradient(plan.target, plan.target_means(), plan.distance) / len(loops)
            loss += loop.history[-1].running / len(loops)
        return GradientStep(loss, gradient, tuple(loops), None)

    def _start(self, coreset: Measure) -> Measure:
        """Return the first support: points of the coreset, and of `fill` if these are too few."""
        extra = self.rng.permutation(len(self.fill))[: max(0, self.support - len(coreset))]
        return Measure(np.concatenate([coreset.points[: self.support], self.fill.points[extra]]))


@dataclass(frozen=True, eq=False)
class DirectGradient:
    """The coreset itself is the support that travels; sites reply with the means of its cells.

    `run` is a random name, which all requests carry.
    """

    run: str = field(default_factory=lambda: os.urandom(8).hex())

    def step(
        self, metered: MeteredFederation, names: Sequence[str], coreset: Measure
    ) -> GradientStep:
        request = CellsRequest(self.run, coreset, p=2.0, covariance_type="spherical")
        replies = metered.ask(dict.fromkeys(names, request), SummaryReply, allow_failures=True)
        replies = _leave_out_small_sites(metered, replies, len(coreset))
        gradient, loss, min_cell_size = np.zeros_like(coreset.points), 0.0, math.inf
        for reply in replies.values():
            summary, distance = reply.summary, reply.distance or 0.0
            assert isinstance(summary, Summary)  # noqa: S101
            gradient += _gradient(coreset, summary.means, distance) / len(replies)
            loss += distance / len(replies)
            min_cell_size = min(min_cell_size, summary.min_cell_size)
        return GradientStep(loss, gradient, tuple(replies), int(min_cell_size))


def _leave_out_small_sites(
    metered: MeteredFederation, replies: Mapping[str, SummaryReply], size: int
) -> dict[str, SummaryReply]:
    """Return the replies with a cell for each of the `size` points; leave out the other sites."""
    complete = {}
    for name, reply in replies.items():
        if len(reply.summary.weights) == size:
            complete[name] = reply
        else:
            message = f"{name} has fewer samples than the coreset has points; take a smaller size."
            metered.leave_out(name, InputError(message))
    if not complete:
        raise FederationError("No site has as many samples as the coreset has points.")
    return complete


def _interpolate_on_support(plan: Plan, t: float) -> Measure:
    """Return the barycentric interpolant on the points of the target, which is its end t = 1."""
    return Measure((1 - t) * plan.target_means() + t * plan.target.points, plan.target.weights)


def _gradient(coreset: Measure, means: Floats, distance: float) -> Floats:
    """Return the gradient in the coreset's points of W2 = `distance` from other data.

    `means` has the mean of the data that are transported to each point of the coreset.
    """
    of_square = 2 * coreset.weights[:, None] * (coreset.points - means)
    return np.asarray(of_square / (2 * distance or 1.0))


@dataclass(frozen=True)
class EpochOptions:
    """Options of the paper's epochs: each asks `clients_per_epoch` random sites."""

    epochs: int
    clients_per_epoch: int
    learning_rate: float
    optimizer: Literal["adam", "sgd"]
    tol: float


@dataclass(frozen=True, eq=False)
class Epochs:
    """The atoms after the last epoch, and what the epochs were."""

    atoms: Floats
    history: tuple[CoresetRound, ...]
    converged: bool
    min_cell_size: int | None


def run_epochs(
    metered: MeteredFederation,
    names: tuple[str, ...],
    start: Floats,
    method: GradientMethod,
    options: EpochOptions,
    rng: np.random.Generator,
    callback: Callable[[CoresetRound], None] | None,
) -> Epochs:
    """Run epochs from the atoms `start`, each with random sites.

    The learning rate falls linearly to a twentieth, so that the atoms converge.
    """
    atoms, optimizer = start, Adam() if options.optimizer == "adam" else SGD()
    history: list[CoresetRound] = []
    converged, min_cell_size = False, math.inf
    for number in range(1, options.epochs + 1):
        started = time.perf_counter()
        remaining = [name for name in names if name not in metered.failed]
        count = min(options.clients_per_epoch, len(remaining))
        chosen = sorted(rng.choice(len(remaining), count, replace=False).tolist())
        step = method.step(metered, [remaining[k] for k in chosen], Measure(atoms))
        min_cell_size = min(min_cell_size, step.min_cell_size or math.inf)
        rate = options.learning_rate * max(0.05, 1 - (number - 1) / options.epochs)
        new_atoms = optimizer.step(atoms, step.gradient, rate)
        shift = float(np.sqrt(((new_atoms - atoms) ** 2).sum(axis=1).mean()))
        atoms = new_atoms
        seconds = time.perf_counter() - started
        history.append(CoresetRound(number, seconds, step.loss, shift, len(step.sites)))
        if callback is not None:
            callback(history[-1])
        converged = shift <= options.tol * step.loss
        if converged:
            break
    smallest = None if min_cell_size == math.inf else int(min_cell_size)
    return Epochs(atoms, tuple(history), converged, smallest)
