"""A few points that represent the data of all sites: the public function."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_integer
from fedwad._options import Method, resolve
from fedwad.coresets.initial import (
    ask_summaries,
    distil_summaries,
    initial_atoms,
    synthetic_union,
)
from fedwad.coresets.paper import learn_by_epochs
from fedwad.coresets.result import CoresetResult, CoresetRound, Learned
from fedwad.coresets.union import UnionSolver
from fedwad.federation import Federation, MeteredFederation, Site, as_federation, choose_sites
from fedwad.methods import (
    CORESET_METHODS,
    DirectCoreset,
    FedWaDCoreset,
    SummaryCoreset,
    UnionCoreset,
)
from fedwad.statistics import Summary, lower_bounds, reduce_covariance, upper_bounds
from fedwad.transport import Measure, solve

MethodName = Literal["union", "summary", "fedwad", "direct"]


def coreset(
    fed: Federation | Mapping[str, Any] | Any,
    size: int = 10,
    method: MethodName | UnionCoreset | SummaryCoreset | FedWaDCoreset | DirectCoreset = "union",
    rounds: int | None = None,
    seed: int = 0,
    *,
    sites: Sequence[str] | None = None,
    callback: Callable[[CoresetRound], None] | None = None,
    **options: Any,
) -> CoresetResult:
    """Learn a few points that are as close as possible in W2 to the union of all sites' samples.

    Parameters
    ----------
    fed : a federation, one site of it (`fed["paris"]`), a mapping from names to data, or one array
    size : number of points S
    method : "union": the coreset of all samples together, with a certified distance. "summary":
        from one summary of each site and nothing else; less exact, with a wider interval. "fedwad":
        the paper's method, gradient steps on the mean distance to a few random sites. "direct": as
        "fedwad", but the coreset itself travels instead of a support. Or an object of
        `fedwad.methods`, which holds its options.
    rounds : largest number of rounds of "union", epochs of "fedwad" and "direct"; 50 when left out
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    sites : names of the sites to ask; all when left out
    callback : called with each finished `CoresetRound`, for progress bars
    options : options of the method. "union" takes `weights`, `init`, `clients_per_round` and `tol`;
        "summary" takes `weights`; "direct" takes `init`, `clients_per_round`, `tol` and
        `learning_rate`; "fedwad" takes those of "direct", `support` and `inner_rounds`. See
        `fedwad.methods.UnionCoreset`, `SummaryCoreset`, `DirectCoreset` and `FedWaDCoreset`.

    Returns
    -------
    CoresetResult
        `points`, `weights`, the distance `value` with its certified `lower` and `upper`, `history`,
        `failed`, `traffic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> data = {"paris": rng.normal(0, 1, (90, 2)), "oslo": rng.normal(9, 1, (30, 2))}
    >>> c = fedwad.coreset(data, size=4)
    >>> sorted((c.points.mean(axis=1) > 4.5).tolist())  # oslo has a quarter of the rows
    [False, False, False, True]
    >>> c.upper / c.lower < 1.001
    True

    References
    ----------
    Rakotomamonjy, Nadjahi, Ralaivola, Federated Wasserstein Distance, ICLR 2024.
    Claici, Genevay, Solomon, Wasserstein Measure Coresets, 2018.
    """
    if rounds is not None:
        options["rounds"] = rounds
    chosen: Method = resolve(method, options, CORESET_METHODS)
    size, seed = check_integer(size, "size"), check_integer(seed, "seed", 0)
    check_callback(callback)
    if isinstance(fed, Site):
        sites = (fed.name,) if sites is None else sites
        fed = fed.federation
    has_sites = isinstance(fed, Mapping) or hasattr(type(fed), "ask")
    federation = as_federation(fed if has_sites else {"data": fed})
    names = choose_sites(federation, sites, "a coreset")
    metered = MeteredFederation(federation)
    with single_threaded_blas():
        learned = _LEARN[type(chosen)](metered, names, size, chosen, seed, callback)
    has_mass = learned.weights > 0
    return CoresetResult(
        points=learned.atoms[has_mass],
        weights=learned.weights[has_mass],
        value=(learned.lower or learned.upper) if learned.value is None else learned.value,
        lower=learned.lower,
        upper=learned.upper,
        method=chosen.name,
        options=chosen.to_dict(),
        history=learned.history,
        sites=tuple(name for name in names if name in learned.sites),
        converged=learned.converged,
        seed=seed,
        min_cell_size=learned.min_cell_size,
        failed=dict(metered.failed),
        traffic=metered.traffic,
        features=metered.features,
        schema=metered.schema,
    )


def _learn_from_union(
    metered: MeteredFederation,
    names: tuple[str, ...],
    size: int,
    method: UnionCoreset,
    seed: int,
    callback: Callable[[CoresetRound], None] | None,
) -> Learned:
    """Learn atoms for all sites' data together, from masses and sums of their power cells."""
    start = initial_atoms(metered, names, size, method.init, method.weights, seed)
    rng = np.random.default_rng([seed, 1])
    solver = UnionSolver(metered, start.names, start, rng, method.weights, method.tol, callback)
    return solver.run(method.rounds, method.clients_per_round)


def _learn_from_summaries(
    metered: MeteredFederation,
    names: tuple[str, ...],
    size: int,
    method: SummaryCoreset,
    seed: int,
    callback: Callable[[CoresetRound], None] | None,
) -> Learned:
    """Ask each site for one summary; the atoms are the coreset of a synthetic sample of the union.

    The estimate is their distance to a second synthetic union, because they are closer to the first
    one than to the data. The summaries together are a summary of the union, with the diagonal
    covariance at most, and a coreset is a summary without spread. So Gelbrich's bound and the
    coupling of cells bound the distance from below and above.
    """
    started = time.perf_counter()
    by_site = ask_summaries(metered, names, size, seed)
    best, sample = distil_summaries(by_site, size, method.weights, seed)
    second_sample = synthetic_union(by_site, len(sample), seed + 1)
    value, atoms = solve(second_sample, best.measure).distance, best.measure
    summaries = list(by_site.values())
    counts = np.array([summary.count for summary in summaries], dtype=np.float64)
    weighted = list(zip(counts / counts.sum(), summaries, strict=True))
    ndim = min(1, *(summary.within.ndim for summary in summaries))
    within = [weight * reduce_covariance(summary.within, ndim) for weight, summary in weighted]
    cells = Measure(
        np.concatenate([summary.means for summary in summaries]),
        np.concatenate([weight * summary.weights for weight, summary in weighted]),
    )
    union = Summary(
        cells.weights,
        cells.points,
        covariance=np.asarray(sum(within)),
        count=int(counts.sum()),
        within_std=math.sqrt(sum(float(weight) * one.within_std**2 for weight, one in weighted)),
        p=2.0,
        min_cell_size=min(summary.min_cell_size for summary in summaries),
    )
    coreset = replace(
        union,
        weights=atoms.weights,
        means=atoms.points,
        covariance=np.zeros(union.covariance.shape),
        within_std=0.0,
    )
    upper = float(upper_bounds([union, coreset])[0, 1])
    lower = min(float(lower_bounds([union, coreset])[0, 1]), upper)
    value = min(max(value, lower), upper)
    seconds = time.perf_counter() - started
    record = CoresetRound(1, seconds, value, 0.0, len(summaries), lower, upper)
    if callback is not None:
        callback(record)
    return Learned(
        atoms.points,
        atoms.weights,
        lower,
        upper,
        tuple(by_site),
        value,
        history=(record,),
        converged=True,
        min_cell_size=union.min_cell_size,
    )


_LEARN: dict[type[Method], Callable[..., Learned]] = {
    UnionCoreset: _learn_from_union,
    SummaryCoreset: _learn_from_summaries,
    FedWaDCoreset: learn_by_epochs,
    DirectCoreset: learn_by_epochs,
}
