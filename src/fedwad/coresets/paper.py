"""The paper's coresets: gradient steps towards a few random sites, through FedWaD or directly.

The paper is Rakotomamonjy, Nadjahi and Ralaivola, Federated Wasserstein Distance, ICLR 2024. In its
words, an epoch is one gradient step of the coreset; a round is one exchange of FedWaD inside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedwad.compare import FedWaDLoop, draw_support
from fedwad.coresets.initial import ask_moments, initial_atoms
from fedwad.coresets.result import CoresetRound, Learned
from fedwad.coresets.union import InitialAtoms, UnionSolver, draw_sites, smallest
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    CellsRequest,
    MeteredFederation,
    Moments,
    SummaryReply,
    TransportReply,
    draw_t,
)
from fedwad.methods import DirectCoreset, FedWaD, FedWaDCoreset
from fedwad.statistics import Summary
from fedwad.transport import Floats, Measure, Plan, solve


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
class GradientStep:
    """The loss of one epoch and its gradient.

    Attributes
    ----------
    loss : mean distance of the sites that answered to the coreset
    gradient : gradient of the loss in the points of the coreset, (S, d)
    sites : number of sites that answered
    min_cell_size : number of samples in the smallest cell whose mean a site sent; None if no cell
        means were sent
    """

    loss: float
    gradient: Floats
    sites: int
    min_cell_size: int | None = None


def fedwad_step(
    metered: MeteredFederation,
    names: Sequence[str],
    coreset: Measure,
    method: FedWaDCoreset,
    fill: Measure,
    rng: np.random.Generator,
) -> GradientStep:
    """FedWaD between the coreset, which the server holds, and each named site.

    xi is FedWaD's support, which moves to a measure between the coreset and the data of the site.
    It starts at points of the coreset, and at random ones of `fill` if these are too few. The
    gradient is that of W2(coreset, xi) in the coreset's points z with the plan P fixed. By the
    envelope theorem it is the right one where W2 is differentiable: d W2^2 / d z_s = 2 (b_s z_s -
    sum_j P_sj xi_j), and d W2 = d W2^2 / (2 W2).

    With `samples_per_client`, each site takes part with that many random rows, the same in all
    rounds of the step. If sites draw their own t, the loss is the paper's estimate at the last
    support that travelled, for which sites send their distance.
    """
    loops = {}
    for name in names:
        extra = rng.permutation(len(fill))[: max(0, method.support - len(coreset))]
        start = np.concatenate([coreset.points[: method.support], fill.points[extra]])
        loops[name] = FedWaDLoop(Measure(start), FedWaD(t=method.t), rng=rng)
    samples = method.samples_per_client
    draw = 0 if samples is None else int(rng.integers(2**32))
    potentials: dict[str, Floats | None] = dict.fromkeys(names)
    estimates: dict[str, float] = {}
    for number in range(1, method.inner_rounds + 1):
        with_distance = method.t == "own" and number == method.inner_rounds
        requests = {
            name: replace(loop.request(), with_distance=with_distance, samples=samples, draw=draw)
            for name, loop in loops.items()
        }
        replies = metered.ask(requests, TransportReply, allow_failures=True)
        loops = {name: loop for name, loop in loops.items() if name in replies}
        for name, loop in loops.items():
            plan = solve(coreset, requests[name].support, start=potentials[name])
            potentials[name] = plan.g
            t = requests[name].t
            own = _interpolate_on_support(plan, draw_t(rng) if t is None else t)
            running = loop.advance(TransportReply(own, None), replies[name]).running
            paper_estimate = plan.distance + (replies[name].distance or 0.0)
            estimates[name] = paper_estimate if running is None else running
    gradient, loss = np.zeros_like(coreset.points), 0.0
    for name, loop in loops.items():
        plan = solve(loop.support, coreset)
        gradient += _gradient(plan.target, plan.target_means(), plan.distance) / len(loops)
        loss += estimates[name] / len(loops)
    return GradientStep(loss, gradient, len(loops))


def direct_step(
    metered: MeteredFederation, names: Sequence[str], coreset: Measure, run: str
) -> GradientStep:
    """The coreset itself is the support that travels; sites reply with the means of its cells.

    `run` is a random name, which all requests carry. Sites with fewer samples than the coreset has
    points are left out.
    """
    request = CellsRequest(run, coreset, p=2.0, covariance_type="spherical")
    replies = metered.ask(dict.fromkeys(names, request), SummaryReply, allow_failures=True)
    for name in [n for n, one in replies.items() if len(one.summary.weights) != len(coreset)]:
        message = f"{name} has fewer samples than the coreset has points; take a smaller size."
        metered.leave_out(name, InputError(message, "too-few-samples"))
        del replies[name]
    if not replies:
        raise FederationError(
            "No site has as many samples as the coreset has points.", "too-few-samples"
        )
    gradient, loss = np.zeros_like(coreset.points), 0.0
    for reply in replies.values():
        summary, distance = reply.summary, reply.distance or 0.0
        assert isinstance(summary, Summary)  # noqa: S101
        gradient += _gradient(coreset, summary.means, distance) / len(replies)
        loss += distance / len(replies)
    min_cell_size = min(reply.summary.min_cell_size for reply in replies.values())
    return GradientStep(loss, gradient, len(replies), min_cell_size)


def _interpolate_on_support(plan: Plan, t: float) -> Measure:
    """Return the barycentric interpolant on the points of the target, which is its end t = 1."""
    return Measure((1 - t) * plan.target_means() + t * plan.target.points, plan.target.weights)


def _gradient(coreset: Measure, means: Floats, distance: float) -> Floats:
    """Return the gradient in the coreset's points of W2 = `distance` from other data.

    `means` has the mean of the data that are transported to each point of the coreset.
    """
    of_square = 2 * coreset.weights[:, None] * (coreset.points - means)
    return np.asarray(of_square / (2 * distance or 1.0))


def learn_by_epochs(
    metered: MeteredFederation,
    names: tuple[str, ...],
    size: int,
    method: FedWaDCoreset | DirectCoreset,
    seed: int,
    callback: Callable[[CoresetRound], None] | None,
) -> Learned:
    """Run epochs, each with random sites, then certify the distance of the atoms from the union.

    An atom moves by about the rate in each coordinate. The rate falls linearly to a twentieth, so
    that the atoms converge.
    """
    moments = ask_moments(metered, names)
    names = tuple(dict.fromkeys([*moments, *names]))  # in the order of what sites sent
    initial = initial_atoms(metered, names, size, method.init, "equal", seed, moments)
    rng = np.random.default_rng([seed, 2])
    fill = draw_support(list(moments.values()), max(getattr(method, "support", 2), 2), rng)
    run, adam = os.urandom(8).hex(), Adam()
    largest_rate = method.learning_rate or 0.1 * _union_std(list(moments.values()), fill)
    atoms, history, converged = initial.atoms, list[CoresetRound](), False
    cell_size = initial.min_cell_size
    while len(history) < method.rounds and not converged:
        started = time.perf_counter()
        remaining = [name for name in names if name not in metered.failed]
        asked, coreset = draw_sites(remaining, method.clients_per_round, rng), Measure(atoms)
        if isinstance(method, FedWaDCoreset):
            step = fedwad_step(metered, asked, coreset, method, fill, rng)
        else:
            step = direct_step(metered, asked, coreset, run)
        cell_size = smallest(cell_size, step.min_cell_size)
        rate, before = largest_rate * max(0.05, 1 - len(history) / method.rounds), atoms
        atoms = adam.step(atoms, step.gradient, rate)
        shift = float(np.sqrt(((atoms - before) ** 2).sum(axis=1).mean()))
        seconds = time.perf_counter() - started
        history.append(CoresetRound(len(history) + 1, seconds, step.loss, shift, step.sites))
        if callback is not None:
            callback(history[-1])
        converged = shift <= method.tol * step.loss
    remaining = [name for name in names if name not in metered.failed]
    start = InitialAtoms(atoms, min_cell_size=cell_size)
    solver = UnionSolver(metered, tuple(remaining), start, rng)
    certified = solver.certify(rounds=15)
    return replace(certified, history=tuple(history), converged=converged)


def _union_std(moments: Sequence[Moments], fill: Measure) -> float:
    """Return the root mean square of the features' standard deviations over the union."""
    counts = np.array([one.count for one in moments], dtype=np.float64)
    mean = (
        fill.mean
        if len(moments) == 1
        else np.average([one.mean for one in moments], axis=0, weights=counts)
    )
    squares = [float((one.scale**2 + (one.mean - mean) ** 2).mean()) for one in moments]
    return float(np.sqrt(np.average(squares, weights=counts))) or 1.0
