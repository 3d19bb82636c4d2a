"""All distances between many sites: the public function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_flag, check_integer
from fedwad._distance.api import check_class_statistics, check_private
from fedwad._distance.blocks import ask_willing_blocks
from fedwad._distance.task import count_features
from fedwad._explain.dominant import warn_dominant
from fedwad._explain.evidence import Evidence
from fedwad._matrix.from_summaries import estimate_from_releases, estimate_from_summaries
from fedwad._matrix.health import Health
from fedwad._matrix.hub import estimate_by_hub
from fedwad._matrix.pairs import estimate_by_pairs
from fedwad._matrix.result import MatrixResult
from fedwad._matrix.task import MatrixEstimates, MatrixTask, Progress
from fedwad._options import Method, resolve
from fedwad.errors import InputError
from fedwad.federation import (
    Federation,
    KeptReplies,
    MeteredFederation,
    as_federation,
    choose_sites,
    fill_clipping,
)
from fedwad.methods import MATRIX_METHODS, Hub, Pairs, Summary
from fedwad.ot import (
    ClassCovariance,
    Floats,
    LabelledSummary,
    Populations,
    beyond_chance,
    check_order,
    pairwise_pvalues,
)
from fedwad.ot import Summary as CellSummary
from fedwad.privacy import DP

__all__ = ["Progress", "matrix"]


def matrix(
    fed: Federation | Mapping[str, Any],
    method: Literal["summary", "hub", "pairs"] | Summary | Hub | Pairs = "summary",
    labels: bool = False,
    test: bool = False,
    seed: int = 0,
    *,
    class_covariance: ClassCovariance = "diag",
    p: float = 2.0,
    sites: Sequence[str] | None = None,
    privacy: DP | Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[Progress], None] | None = None,
    **options: Any,
) -> MatrixResult:
    """Estimate the distances between all sites without pooling their data.

    Parameters
    ----------
    fed : a federation, or a mapping from names to data, which become local sites
    method : "summary": one message from each site serves all pairs. "hub": all sites transport
        their data to one shared support. "pairs": the paper's protocol for each pair. Or an object
        of `fedwad.methods`, which holds its options.
    labels, class_covariance : dataset distances between labelled data, see `fedwad.distance`
    test : True to test each pair for a difference by more than chance, see
        `fedwad.permutation_test`. Each site sends one message more. Not with `privacy`. Pairs of a
        site that refuses have the p-value NaN, and a `DataWarning` says why.
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    p : order of the distance, at least 1; 2 for labelled data, "hub" and "pairs"
    sites : names of the sites to compare; all when left out
    privacy : `fedwad.DP`: one release from each site under differential privacy serves all pairs,
        see `fedwad.distance`
    n_jobs : number of threads; one per core when left out. It changes no number.
    callback : called with each `Progress`
    options : options of the method. "summary" takes `cells` and `covariance_type`; "hub" and
        "pairs" take `support`, `rounds` and `covariance_type`. See `fedwad.methods.Summary`,
        `fedwad.methods.Hub` and `fedwad.methods.Pairs`.

    Returns
    -------
    MatrixResult
        `sites`, `value`, the certified `lower` and `upper`, `traffic`, `failed`; `.cluster`,
        `.nearest`, `.save`. A site that does not answer is left out and listed in `failed`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> data = {f"site{k}": rng.normal(k // 2, 1, (200, 3)) for k in range(4)}
    >>> fedwad.matrix(data).cluster(2).tolist()
    [0, 0, 1, 1]
    """
    chosen_method: Method = resolve(method, options, MATRIX_METHODS)
    order = check_order(p)
    class_statistics = check_class_statistics(labels, class_covariance, order)
    if order != 2 and not isinstance(chosen_method, Summary):
        raise InputError(f"p is {p!r}; methods 'hub' and 'pairs' have p = 2.")
    guarantee = check_private(privacy, chosen_method, order, class_statistics)
    if check_flag(test, "test") and guarantee is not None:
        raise InputError("A test needs blocks of rows, which have no private form; leave it out.")
    federation = as_federation(fed)
    task = MatrixTask(
        names=choose_sites(federation, sites, "a matrix", least=2),
        seed=check_integer(seed, "seed", 0),
        p=order,
        class_statistics=class_statistics,
        n_jobs=check_integer(os.cpu_count() or 1 if n_jobs is None else n_jobs, "n_jobs"),
        report=check_callback(callback) or (lambda _: None),
    )
    kept = KeptReplies()
    metered = MeteredFederation(federation, on_reply=kept.add)
    with single_threaded_blas():
        if guarantee is not None:
            guarantee = fill_clipping(federation, guarantee)
            estimates = estimate_from_releases(metered, task, guarantee)
        else:
            estimates = _estimate(metered, task, chosen_method)
        pvalue = _pvalues(metered, task, estimates) if test else None
    result = _result(metered, task, chosen_method, estimates, guarantee, pvalue)
    warn_dominant(result.evidence)
    if isinstance(chosen_method, Summary):
        return replace(result, kept=kept.of(result.sites))
    return result


def _estimate(metered: MeteredFederation, task: MatrixTask, method: Method) -> MatrixEstimates:
    if isinstance(method, Hub):
        return estimate_by_hub(metered, task, method)
    if isinstance(method, Pairs):
        return estimate_by_pairs(metered, task, method)
    assert isinstance(method, Summary)  # noqa: S101
    return estimate_from_summaries(metered, task, method)


def _pvalues(metered: MeteredFederation, task: MatrixTask, estimates: MatrixEstimates) -> Floats:
    """Return the adjusted p-values of all pairs, NaN for pairs of sites that sent no blocks."""
    features = count_features(estimates.summaries[0], task.class_statistics)
    blocks = ask_willing_blocks(metered, estimates.sites, features)
    tested = np.array([name in blocks for name in estimates.sites])
    pvalues = np.full((len(tested), len(tested)), np.nan)
    pvalues[np.ix_(tested, tested)] = pairwise_pvalues(list(blocks.values()), seed=task.seed)
    np.fill_diagonal(pvalues, 1.0)
    return pvalues


def _populations(estimates: MatrixEstimates, n_jobs: int) -> Populations | None:
    """Return the noise and the population distances of all pairs; None without calibrations."""
    if not estimates.calibrations:
        return None
    with single_threaded_blas():
        return beyond_chance(
            estimates.value, estimates.site_summaries, estimates.calibrations, n_jobs
        )


def _health(estimates: MatrixEstimates, populations: Populations | None) -> Health | None:
    """Return what heterogeneity and eccentricity are computed from; None if a pair is unknown."""
    if populations is None or np.isnan(populations.square).any():
        return None
    variances = np.array([_variance(summary) for summary in estimates.site_summaries])
    return Health(populations.square, populations.std, variances)


def _variance(summary: CellSummary | LabelledSummary) -> float:
    """Return the total variance of a site's rows, with labels also that of class statistics."""
    if isinstance(summary, LabelledSummary):
        return summary.within_std**2 + float(summary.cells.variances.sum())
    between = summary.weights @ ((summary.means - summary.mean) ** 2).sum(axis=1)
    return summary.variance + float(between)


def _result(
    metered: MeteredFederation,
    task: MatrixTask,
    method: Method,
    estimates: MatrixEstimates,
    guarantee: DP | None,
    pvalue: Floats | None,
) -> MatrixResult:
    sizes = [] if guarantee is not None else [one.min_cell_size for one in estimates.summaries]
    lower, upper = np.minimum(estimates.lower, estimates.upper), estimates.upper
    value, noise, population, interval = estimates.value, estimates.sampling_noise, None, None
    populations = _populations(estimates, task.n_jobs)
    if populations is not None:
        # If both summaries of a pair are equal, its value stays the lower bound.
        value = np.where(value > estimates.lower, populations.value, value)
        noise, population = populations.noise, populations.population
        interval = populations.lower, populations.upper
    return MatrixResult(
        sites=estimates.sites,
        value=np.clip(value, lower, upper),
        noise=noise,
        population=population,
        population_interval=interval,
        lower=lower,
        upper=upper,
        pvalue=pvalue,
        health=_health(estimates, populations),
        fedwad=estimates.fedwad,
        method=method.name,
        options=method.to_dict(),
        seed=task.seed,
        class_covariance=None if task.class_statistics == "ignored" else task.class_statistics,
        p=task.p,
        history=estimates.history,
        traffic=metered.traffic,
        min_cell_size=min(sizes, default=None),
        covariance_types=estimates.covariance_types,
        failed=metered.failed,
        rows=() if guarantee else tuple(one.count for one in estimates.site_summaries),
        privacy=None if guarantee is None else guarantee.to_dict(),
        evidence=_evidence(metered, task, estimates),
    )


def _evidence(
    metered: MeteredFederation, task: MatrixTask, estimates: MatrixEstimates
) -> Evidence | None:
    """Return what explains the distances, if p = 2."""
    if task.p != 2:
        return None
    return Evidence.of(
        estimates.site_summaries,
        estimates.calibrations,
        estimates.contributions,
        metered.features,
        metered.schema,
        count_features(estimates.summaries[0], task.class_statistics),
        estimates.privacy_noise,
    )
