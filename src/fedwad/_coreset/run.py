"""The methods of a coreset: the union of the sites, one summary of each, the paper's epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from fedwad._coreset.from_summaries import from_summaries
from fedwad._coreset.paper import (
    DirectGradient,
    EpochOptions,
    FedWaDGradient,
    GradientMethod,
    epochs,
)
from fedwad._coreset.result import CoresetResult, CoresetRound
from fedwad._coreset.seeding import ask_moments, ask_summaries, seed_atoms
from fedwad._coreset.task import CoresetTask
from fedwad._coreset.union import Ask, UnionSolver
from fedwad._distance.run import draw_support
from fedwad.federation import AtomsRequest, CellSums, MeteredFederation, Moments
from fedwad.methods import DirectCoreset, FedWaDCoreset, SummaryCoreset, UnionCoreset
from fedwad.ot import Measure

__all__ = ["by_epochs", "by_summary", "by_union"]

_CLOSING_ROUNDS = 15  # they certify what the paper's methods found
_CLOSING_TOL = 1e-4
_ADAM_RATE, _SGD_RATE = 0.1, 0.5


def by_union(metered: MeteredFederation, task: CoresetTask, method: UnionCoreset) -> CoresetResult:
    """Learn atoms of all sites' data together, from masses and sums of their power cells."""
    seed = seed_atoms(metered, task.names, task.size, method.init, method.weights, task.seed)
    union = UnionSolver(
        ask=_asking(metered),
        names=task.names,
        atoms=seed.atoms,
        potentials=seed.potentials,
        weights=_equal(task.size) if method.weights == "equal" else None,
        rng=np.random.default_rng([task.seed, 1]),
        scale=seed.scale,
        tol=method.tol,
        callback=task.callback,
    )
    found = union.run(method.rounds, method.clients_per_round)
    return task.result(metered, found, tuple(union.history), union.converged, union.min_cell_size)


def by_summary(
    metered: MeteredFederation, task: CoresetTask, method: SummaryCoreset
) -> CoresetResult:
    """Ask each site for one summary and make a coreset of those."""
    since = time.perf_counter()
    summaries = ask_summaries(metered, task.names, task.size, task.seed)
    found, value = from_summaries(summaries, task.size, method.weights, task.seed)
    seconds = time.perf_counter() - since
    record = CoresetRound(
        1, seconds, value, 0.0, len(summaries), lower=found.lower, upper=found.upper
    )
    if task.callback is not None:
        task.callback(record)
    min_cell_size = min(summary.min_cell_size for summary in summaries.values())
    return task.result(metered, found, (record,), True, min_cell_size, value)


def by_epochs(
    metered: MeteredFederation, task: CoresetTask, method: FedWaDCoreset | DirectCoreset
) -> CoresetResult:
    """Run the paper's epochs, then certify the distance of the atoms from the union."""
    moments = ask_moments(metered, task.names)
    start = seed_atoms(metered, task.names, task.size, method.init, "equal", task.seed, moments)
    rng = np.random.default_rng([task.seed, 2])
    support = method.support if isinstance(method, FedWaDCoreset) else 2
    fill = draw_support(moments, max(support, 2), rng)
    options = EpochOptions(
        epochs=method.rounds,
        clients_per_epoch=method.clients_per_round,
        learning_rate=_learning_rate(method, moments, fill),
        optimizer=method.optimizer,
        tol=method.tol,
    )
    gradient: GradientMethod = (
        FedWaDGradient(method.support, method.inner_rounds, fill, rng)
        if isinstance(method, FedWaDCoreset)
        else DirectGradient.new()
    )
    done = epochs(metered, task.names, start.atoms, gradient, options, rng, task.callback)
    closing = UnionSolver(
        ask=_asking(metered),
        names=tuple(name for name in task.names if name not in metered.failed),
        atoms=done.atoms,
        potentials=np.zeros(task.size),
        weights=_equal(task.size),
        rng=rng,
        tol=_CLOSING_TOL,
    )
    found = closing.certify(_CLOSING_ROUNDS)
    return task.result(metered, found, done.history, done.converged, done.min_cell_size)


def _asking(metered: MeteredFederation) -> Ask:
    def ask(names: Sequence[str], request: AtomsRequest) -> Mapping[str, CellSums]:
        return metered.ask(dict.fromkeys(names, request), CellSums, allow_failures=True)

    return ask


def _equal(size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.full(size, 1 / size)


def _learning_rate(
    method: FedWaDCoreset | DirectCoreset, moments: Sequence[Moments], fill: Measure
) -> float:
    if method.learning_rate is not None:
        return method.learning_rate
    return _ADAM_RATE * _scale(moments, fill) if method.optimizer == "adam" else _SGD_RATE


def _scale(moments: Sequence[Moments], fill: Measure) -> float:
    """Return the root mean square of the features' standard deviations over the union."""
    counts = np.array([one.count for one in moments], dtype=np.float64)
    mean = (
        fill.mean
        if len(moments) == 1
        else np.average([one.mean for one in moments], axis=0, weights=counts)
    )
    squares = [float((one.scale**2 + (one.mean - mean) ** 2).mean()) for one in moments]
    return float(np.sqrt(np.average(squares, weights=counts))) or 1.0
