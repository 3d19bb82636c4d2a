"""The methods of a coreset: from the union of the sites, from summaries, by the paper's epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from fedwad._coreset.from_summaries import atoms_from_summaries
from fedwad._coreset.initial import ask_moments, ask_summaries, initial_atoms
from fedwad._coreset.paper import (
    DirectGradient,
    EpochOptions,
    FedWaDGradient,
    GradientMethod,
    run_epochs,
)
from fedwad._coreset.result import CoresetResult, CoresetRound
from fedwad._coreset.task import CoresetTask
from fedwad._coreset.union import Ask, UnionSolver
from fedwad._distance.run import draw_support
from fedwad.federation import AtomsRequest, CellSums, MeteredFederation, Moments
from fedwad.methods import DirectCoreset, FedWaDCoreset, SummaryCoreset, UnionCoreset
from fedwad.ot import Floats, Measure

__all__ = ["learn_by_epochs", "learn_from_summaries", "learn_from_union"]

# Of the rounds that certify the atoms of the paper's methods.
_CERTIFYING_ROUNDS, _CERTIFYING_TOL = 15, 1e-4
_ADAM_RATE = 0.1  # default learning rate, in standard deviations of the data
_SGD_RATE = 0.5


def learn_from_union(
    metered: MeteredFederation, task: CoresetTask, method: UnionCoreset
) -> CoresetResult:
    """Learn atoms for all sites' data together, from masses and sums of their power cells."""
    initial = initial_atoms(metered, task.names, task.size, method.init, method.weights, task.seed)
    solver = UnionSolver(
        ask=_ask_function(metered),
        names=task.names,
        atoms=initial.atoms,
        potentials=initial.potentials,
        weights=_equal_weights(task.size) if method.weights == "equal" else None,
        rng=np.random.default_rng([task.seed, 1]),
        scale=initial.scale,
        tol=method.tol,
        callback=task.callback,
    )
    certified = solver.run(method.rounds, method.clients_per_round)
    min_cell_size = _smallest(initial.min_cell_size, solver.min_cell_size)
    return task.result(metered, certified, tuple(solver.history), solver.converged, min_cell_size)


def learn_from_summaries(
    metered: MeteredFederation, task: CoresetTask, method: SummaryCoreset
) -> CoresetResult:
    """Ask each site for one summary and make a coreset from the summaries."""
    started = time.perf_counter()
    summaries = ask_summaries(metered, task.names, task.size, task.seed)
    certified, value = atoms_from_summaries(summaries, task.size, method.weights, task.seed)
    record = CoresetRound(
        number=1,
        seconds=time.perf_counter() - started,
        loss=value,
        shift=0.0,
        sites=len(summaries),
        lower=certified.lower,
        upper=certified.upper,
    )
    if task.callback is not None:
        task.callback(record)
    min_cell_size = min(summary.min_cell_size for summary in summaries.values())
    return task.result(metered, certified, (record,), True, min_cell_size, value)


def learn_by_epochs(
    metered: MeteredFederation, task: CoresetTask, method: FedWaDCoreset | DirectCoreset
) -> CoresetResult:
    """Run the paper's epochs, then certify the distance of the atoms from the union."""
    moments = ask_moments(metered, task.names)
    initial = initial_atoms(
        metered, task.names, task.size, method.init, "equal", task.seed, moments
    )
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
        else DirectGradient()
    )
    epochs = run_epochs(metered, task.names, initial.atoms, gradient, options, rng, task.callback)
    solver = UnionSolver(
        ask=_ask_function(metered),
        names=tuple(name for name in task.names if name not in metered.failed),
        atoms=epochs.atoms,
        potentials=np.zeros(task.size),
        weights=_equal_weights(task.size),
        rng=rng,
        tol=_CERTIFYING_TOL,
    )
    certified = solver.certify(_CERTIFYING_ROUNDS)
    min_cell_size = _smallest(epochs.min_cell_size, initial.min_cell_size, solver.min_cell_size)
    return task.result(metered, certified, epochs.history, epochs.converged, min_cell_size)


def _smallest(*sizes: int | None) -> int | None:
    return min((size for size in sizes if size is not None), default=None)


def _ask_function(metered: MeteredFederation) -> Ask:
    """Return the function by which a `UnionSolver` asks the sites of a federation."""

    def ask(names: Sequence[str], request: AtomsRequest) -> Mapping[str, CellSums]:
        return metered.ask(dict.fromkeys(names, request), CellSums, allow_failures=True)

    return ask


def _equal_weights(size: int) -> Floats:
    return np.full(size, 1 / size)


def _learning_rate(
    method: FedWaDCoreset | DirectCoreset, moments: Sequence[Moments], fill: Measure
) -> float:
    if method.learning_rate is not None:
        return method.learning_rate
    return _ADAM_RATE * _union_std(moments, fill) if method.optimizer == "adam" else _SGD_RATE


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
