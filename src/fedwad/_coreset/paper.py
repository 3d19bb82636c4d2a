"""The paper's coresets: pulled towards a few random clients at a time, through FedWaD or
directly."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from fedwad._coreset.result import CoresetRound
from fedwad._distance.rounds import FedWaD
from fedwad.errors import InputError
from fedwad.federation import CellsRequest, MeteredFederation, SummaryReply, TransportReply
from fedwad.ot import Floats, Measure, Plan, Summary, solve

__all__ = ["Adam", "Direct", "Paper", "Plain", "Pull", "epochs"]


@dataclass(frozen=True, eq=False)
class Pull:
    """Mean over the active clients of their distance to the coreset, its gradient (S, d), and who
    answered."""

    loss: float
    gradient: Floats
    clients: tuple[str, ...]
    min_cell_size: int | None


class Puller(Protocol):
    def pull(self, line: MeteredFederation, names: Sequence[str], coreset: Measure) -> Pull: ...


class Stepper(Protocol):
    def step(self, atoms: Floats, gradient: Floats, rate: float) -> Floats: ...


class Plain:
    """z <- z - rate * S * gradient: with a rate of one half, W2^2's step to the mean of what the
    atoms receive."""

    def step(self, atoms: Floats, gradient: Floats, rate: float) -> Floats:
        return np.asarray(atoms - rate * len(atoms) * gradient)


class Adam:
    """Kingma and Ba's steps: the mean gradient over the root of its mean square, coordinate by
    coordinate."""

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
class Paper:
    """FedWaD between the coreset, which the server holds, and each active client; xi travels
    between the two.

    The gradient is that of W2(coreset, xi) in the coreset's points with the plan P fixed, which is
    the right one where W2 is differentiable (the envelope theorem): d W2^2 / d z_s = 2 (b_s z_s -
    sum_j P_sj xi_j), and through the root d W2 = d W2^2 / (2 W2).
    """

    support: int
    rounds: int
    within_std: Measure  # points around the data, from which each support begins
    rng: np.random.Generator

    def pull(self, line: MeteredFederation, names: Sequence[str], coreset: Measure) -> Pull:
        loops = {name: FedWaD(self._start(coreset), rng=self.rng) for name in names}
        potentials: dict[str, Floats | None] = dict.fromkeys(names)
        for _ in range(self.rounds):
            asked = {name: loop.request() for name, loop in loops.items()}
            replies = line.ask(asked, TransportReply, tolerate=True)
            loops = {name: loop for name, loop in loops.items() if name in replies}
            for name, loop in loops.items():
                plan = solve(coreset, asked[name].support, start=potentials[name])
                potentials[name] = plan.g
                loop.advance(TransportReply(_on_support(plan, asked[name].t), None), replies[name])
        gradient, loss = np.zeros_like(coreset.points), 0.0
        for loop in loops.values():
            gradient += _gradient(solve(loop.support, coreset)) / len(loops)
            loss += loop.history[-1].running / len(loops)
        return Pull(loss, gradient, tuple(loops), None)

    def _start(self, coreset: Measure) -> Measure:
        """The coreset itself, filled up with points around the data."""
        extra = self.rng.permutation(len(self.within_std))[: max(0, self.support - len(coreset))]
        kept = coreset.points[: self.support]
        return Measure(np.concatenate([kept, self.within_std.points[extra]]))


@dataclass(frozen=True, eq=False)
class Direct:
    """The coreset itself is the support that travels; clients answer with the means of its
    cells."""

    run: str

    @classmethod
    def new(cls) -> Direct:
        return cls(os.urandom(8).hex())

    def pull(self, line: MeteredFederation, names: Sequence[str], coreset: Measure) -> Pull:
        request = CellsRequest(self.run, coreset, 2.0, "spherical")
        replies = line.ask(dict.fromkeys(names, request), SummaryReply, tolerate=True)
        gradient, loss, min_cell_size = np.zeros_like(coreset.points), 0.0, math.inf
        for name, reply in replies.items():
            summary, distance = reply.summary, reply.distance or 0.0
            if not isinstance(summary, Summary) or summary.means.shape != coreset.points.shape:
                raise InputError(
                    f"{name} has fewer samples than the coreset has points; take a smaller one."
                )
            towards = 2 * coreset.weights[:, None] * (coreset.points - summary.means)
            gradient += towards / (2 * distance or 1.0) / len(replies)
            loss += distance / len(replies)
            min_cell_size = min(min_cell_size, summary.min_cell_size)
        return Pull(loss, gradient, tuple(replies), int(min_cell_size))


def _on_support(plan: Plan, t: float) -> Measure:
    """The barycentric interpolant on the points of the support, which may be more than those of the
    coreset."""
    return Measure((1 - t) * plan.target_means() + t * plan.target.points, plan.target.weights)


def _gradient(plan: Plan) -> Floats:
    """Of W2(source, target) in the target's points."""
    towards = 2 * plan.target.weights[:, None] * (plan.target.points - plan.target_means())
    return np.asarray(towards / (2 * plan.distance or 1.0))


def epochs(
    line: MeteredFederation,
    names: tuple[str, ...],
    start: Floats,
    puller: Puller,
    count: int,
    clients_per_round: int,
    rate: float,
    steps: Literal["adam", "plain"],
    tol: float,
    rng: np.random.Generator,
    callback: Callable[[CoresetRound], None] | None,
) -> tuple[Floats, list[CoresetRound], bool, int | None]:
    """Epochs of random active clients. The rate falls linearly to a twentieth, so that the atoms
    come to rest."""
    atoms, stepper = start, Adam() if steps == "adam" else Plain()
    history: list[CoresetRound] = []
    converged, min_cell_size = False, math.inf
    for number in range(1, count + 1):
        since = time.perf_counter()
        left = [name for name in names if name not in line.failed]
        chosen = sorted(
            rng.choice(len(left), min(clients_per_round, len(left)), replace=False).tolist()
        )
        pulled = puller.pull(line, [left[k] for k in chosen], Measure(atoms))
        min_cell_size = min(min_cell_size, pulled.min_cell_size or math.inf)
        now = rate * max(0.05, 1 - (number - 1) / count)
        moved = stepper.step(atoms, pulled.gradient, now)
        shift = float(np.sqrt(((moved - atoms) ** 2).sum(axis=1).mean()))
        atoms = moved
        history.append(
            CoresetRound(
                number, time.perf_counter() - since, pulled.loss, shift, len(pulled.clients)
            )
        )
        if callback is not None:
            callback(history[-1])
        converged = shift <= tol * pulled.loss
        if converged:
            break
    return atoms, history, converged, None if min_cell_size == math.inf else int(min_cell_size)
