"""`fedwad.distance` and `fedwad.matrix`: how far sites lie from each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_choice, check_flag, check_integer
from fedwad._files import SavedResult
from fedwad._options import Method, resolve
from fedwad.compare.answers import (
    between_populations,
    between_samples,
    compressed,
    evidence_of,
    notes,
    of_causes,
    run_tests,
    total_variances,
    verdict,
    verdicts,
    with_column_bounds,
)
from fedwad.compare.evidence import Evidence, PairEvidence, build_columns, column_index, moments_of
from fedwad.compare.explanation import Explanation, explain_pair
from fedwad.compare.hub import estimate_by_hub
from fedwad.compare.results import DistanceResult, MatrixResult
from fedwad.compare.rounds import OpenRound, estimate_by_pairs, estimate_by_private_rounds
from fedwad.compare.sentences import pair_sentence, units_in_words
from fedwad.compare.summaries import (
    estimate_from_releases,
    estimate_from_summaries,
    require_blocks,
    summary_request,
)
from fedwad.compare.task import ColumnNames, MatrixEstimates, MatrixTask, Progress, as_sites
from fedwad.errors import InputError
from fedwad.federation import (
    ClassStatistics,
    Federation,
    MeteredFederation,
    SummaryReply,
    Traffic,
    as_federation,
    check_same_features,
    choose_sites,
    fill_clipping,
)
from fedwad.federation.federation import feature_count
from fedwad.federation.kept import KeptReplies
from fedwad.methods import DISTANCE_METHODS, MATRIX_METHODS, FedWaD, Hub, Pairs, Summary
from fedwad.privacy import DP
from fedwad.statistics import LabelledSummary
from fedwad.statistics.testing import permutation_test as run_permutation_test
from fedwad.statistics.testing import rows_needed
from fedwad.transport import ClassCovariance, check_order


def distance(
    a: Any,
    b: Any,
    method: Literal["summary", "fedwad"] | Summary | FedWaD = "summary",
    *,
    p: float = 2.0,
    seed: int = 0,
    labels: bool = False,
    class_covariance: ClassCovariance = "diag",
    privacy: DP | Mapping[str, Any] | None = None,
    callback: Callable[[OpenRound], None] | None = None,
    **options: Any,
) -> DistanceResult:
    """Estimate W_p between the data of two sites without pooling the data.

    Parameters
    ----------
    a, b : two sites of one federation (`fed["paris"]`), or data (arrays, frames, paths), which
        become local sites. The federation's other sites are asked for "columns" too: their units
        enter the p-value, and those of their tables the distance. A federation of the two alone
        avoids it.
    method : "summary" for one message from each site, "fedwad" for the paper's rounds, or an
        object of `fedwad.methods`, which holds its options
    p : order of the distance, at least 1
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    labels : True to estimate the dataset distance between labelled data. That is W2 with the cost
        |x-x'|^2 + |m_y-m_y'|^2 + |s_y-s_y'|^2, where the class y of x has the mean m_y and the
        standard deviations s_y (divisor n). Label names do not matter, and the two sites may have
        different classes.
    class_covariance : with labels, "diag" for the cost above. "full" replaces its last term by the
        squared Frobenius norm of the difference between the square roots of the covariance matrices
        of the two classes.
    privacy : `fedwad.DP`: each site releases noisy histograms of its columns under differential
        privacy. `value` then is `population`, the distance between the populations by columns;
        `lower` and `upper` are its likely range and not certified; nothing is tested. For p = 2.
        The rounds of "fedwad" are played between synthetic rows that are drawn from a private
        release of moments, so that any number of rounds has the guarantee of the release. With
        labels, `DP` lists the public names of classes, and the range counts no noise of classes.
    callback : called with each finished round of "fedwad": a `Round`, with the `points` of the
        support and the `replies` of both sites
    options : options of the method. "summary" takes `cells` and `covariance_type`; "fedwad" takes
        `support`, `rounds`, `t`, `interpolant`, `reveal`, `tol`, `max_support`, `init` and
        `covariance_type`. See `fedwad.methods.Summary` and `fedwad.methods.FedWaD`.

    Returns
    -------
    DistanceResult
        `value`, the certified `lower` and `upper`, the paper's estimate `fedwad`, `history`,
        `support`, `traffic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (300, 2)), rng.normal(3, 1, (300, 2))
    >>> r, exact = fedwad.distance(X, Y), fedwad.wasserstein(X, Y)
    >>> bool(r.lower <= exact <= r.upper), abs(r.value / exact - 1) < 0.02
    (True, True)

    Labelled data:

    >>> y = np.repeat(["cat", "dog"], 150)
    >>> r = fedwad.distance((X, y), (Y, y), labels=True)
    >>> r.lower <= fedwad.transport.dataset_distance(X, y, Y, y) <= r.upper
    True

    References
    ----------
    Rakotomamonjy, Nadjahi, Ralaivola, Federated Wasserstein Distance, ICLR 2024.
    Alvarez-Melis, Fusi, Geometric Dataset Distances via Optimal Transport, NeurIPS 2020.
    """
    chosen_method: Method = resolve(method, options, DISTANCE_METHODS)
    order, seed = check_order(p), check_integer(seed, "seed", 0)
    class_statistics = check_class_statistics(labels, class_covariance, order)
    guarantee = check_private(privacy, chosen_method, order, class_statistics)
    check_callback(callback)
    first, second = as_sites(a, b)
    if first == second:
        # nothing is asked
        return DistanceResult(
            *(0.0, 0.0, 0.0),
            sites=(first.name, first.name),
            method=chosen_method.name,
            options=chosen_method.to_dict(),
            p=order,
            seed=seed,
            fedwad=0.0 if isinstance(chosen_method, FedWaD) else None,
            class_covariance=None if class_statistics == "ignored" else class_statistics,
            noise=0.0,
            pvalue=1.0,
            smallest=0.0,
            population_interval=(0.0, 0.0),
        )
    task = MatrixTask((first.name, second.name), seed, order, class_statistics)
    metered = MeteredFederation(first.federation)
    m, estimates = _compare(first.federation, metered, task, chosen_method, guarantee, callback)
    loop = estimates.loops.get((0, 1))
    history, support = ((), None) if loop is None else (tuple(loop.history), loop.support)
    return DistanceResult.of(m, history, support)


def check_class_statistics(labels: Any, class_covariance: Any, p: float) -> ClassStatistics:
    """Return what classes are compared by: "diag", "full", or "ignored" without labels.

    InputError if the options contradict each other.
    """
    check_choice(class_covariance, "class_covariance", ("diag", "full"))
    if not check_flag(labels, "labels"):
        if class_covariance != "diag":
            raise InputError(
                f"class_covariance is '{class_covariance}' without labels; set labels too.",
                "conflicting-options",
            )
        return "ignored"
    if p != 2:
        raise InputError(f"p is {p:g}; a dataset distance has p = 2.", "bad-option")
    class_statistics: ClassStatistics = class_covariance
    return class_statistics


def check_private(
    privacy: Any, method: Method, p: float, class_statistics: ClassStatistics
) -> DP | None:
    """Return the guarantee that `privacy` asks for, or None; InputError if it cannot be given."""
    if privacy is None:
        return None
    guarantee = DP.of(privacy)
    labelled, rounds = class_statistics != "ignored", isinstance(method, FedWaD)
    if not (rounds or isinstance(method, Summary)) or p != 2 or (labelled and not rounds):
        raise InputError(
            "Differential privacy is for methods 'summary' and 'fedwad' of a distance and for"
            " 'summary' of a matrix, with p = 2, and with labels for 'fedwad' alone; set these or"
            " leave it out.",
            "bad-option",
        )
    if labelled and guarantee.labels is None:
        raise InputError(
            "Labelled data need the public names of their classes under differential privacy; give"
            " them as labels of DP.",
            "missing-option",
        )
    if guarantee.labels is not None and not labelled:
        raise InputError(
            "Distances without labels have no classes under differential privacy; leave the labels"
            " out of DP.",
            "bad-option",
        )
    changed_options = method.changed()
    if changed_options and isinstance(method, Summary):
        raise InputError(
            f"{changed_options[0]} has no effect under differential privacy, where"
            " releases replace summaries; leave it out.",
            "conflicting-options",
        )
    return guarantee


def matrix(
    fed: Federation | Mapping[str, Any],
    method: Literal["summary", "hub", "pairs"] | Summary | Hub | Pairs = "summary",
    labels: bool = False,
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
        `sentence`, `test`, `differs`, `pvalue`, `population`; `value` with the certified `lower`
        and `upper`; `.cluster`, `.explain`, `.nearest`, `.save`. A site that does not answer is
        left out and listed in `failed`.

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
        raise InputError(f"p is {p!r}; methods 'hub' and 'pairs' have p = 2.", "bad-option")
    guarantee = check_private(privacy, chosen_method, order, class_statistics)
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
    result, _ = _compare(federation, metered, task, chosen_method, guarantee)
    result = replace(result, failed=metered.failed)
    if isinstance(chosen_method, Summary):
        return replace(result, kept=kept.of(result.sites))
    return result


def _compare(
    federation: Federation,
    metered: MeteredFederation,
    task: MatrixTask,
    method: Method,
    guarantee: DP | None,
    callback: Callable[[OpenRound], None] | None = None,
) -> tuple[MatrixResult, MatrixEstimates]:
    with single_threaded_blas():
        if guarantee is not None:
            guarantee = fill_clipping(federation, guarantee)
        if guarantee is not None and isinstance(method, FedWaD):
            estimates = estimate_by_private_rounds(metered, task, method, guarantee, callback)
        elif guarantee is not None:
            estimates = estimate_from_releases(metered, task, guarantee)
        elif isinstance(method, Hub):
            estimates = estimate_by_hub(metered, task, method)
        elif isinstance(method, Pairs | FedWaD):
            estimates = estimate_by_pairs(metered, task, method, callback)
        else:
            assert isinstance(method, Summary)  # noqa: S101
            estimates = estimate_from_summaries(metered, task, method)
        names = metered.features, metered.schema
        return matrix_of(estimates, task, method, names, metered.traffic, guarantee), estimates


def matrix_of(
    estimates: MatrixEstimates,
    task: MatrixTask,
    method: Method,
    column_names: ColumnNames,
    traffic: Traffic,
    guarantee: DP | None = None,
) -> MatrixResult:
    """Return the matrix of these estimates, with sites in the order of the task."""
    order = [estimates.sites.index(name) for name in task.names if name in estimates.sites]
    d, replies = 0, estimates.replies
    rows = tuple(reply.summary.count for reply in replies)
    if estimates.private is not None:
        d = estimates.private.means.shape[1]
    elif replies:
        summary = replies[0].summary
        d = summary.dimension
        if not isinstance(summary, LabelledSummary):  # then statistics of classes come after them
            d = feature_count(d, task.class_statistics)
    columns = build_columns(d, *column_names) if d else ()
    if d and task.p == 2:
        estimates = with_column_bounds(estimates, columns)
    value, noise, error = between_samples(estimates)
    blocks = [reply.blocks for reply in replies] or [None] * len(estimates.sites)
    tests = run_tests(blocks, column_index(columns).tolist(), task.seed, rows)
    found = between_populations(estimates, columns, value, error)
    differs = verdicts(tests.pvalue, tests.smallest)
    population, interval = found.population, found.interval
    if guarantee is None and population is not None and interval is not None:
        # no estimate without evidence, and without a difference zero is not excluded
        low, high = interval
        evident = differs == True  # noqa: E712
        population = np.maximum(population, of_causes(found, tests, column_index(columns)))
        population = np.clip(np.where(evident, population, np.nan), low, high)
        population[population == 0] = np.nan  # a difference too small to estimate
        np.fill_diagonal(population, 0.0)
        interval = np.where(evident, low, 0.0), high
    result = MatrixResult(
        sites=estimates.sites,
        value=value,
        noise=noise,
        lower=np.minimum(estimates.lower, estimates.upper),
        upper=estimates.upper,
        test=tests.overall,
        pvalue=tests.pvalue,
        smallest=tests.smallest,
        population=population,
        population_interval=interval,
        square=found.square,
        variance=tuple(total_variances(estimates)) if d else (),
        enough=tests.enough,
        notes=notes(
            rows,
            [one.count for k in order if replies and (one := replies[k].order)],
            [
                len(own.weights)
                for reply in replies
                if not isinstance(own := reply.summary, LabelledSummary)
            ],
            getattr(method, "cells", 0),
        )
        + (compressed([r.order for r in replies if r.order], columns) if tests.overall else ()),
        fedwad=estimates.fedwad,
        method=method.name,
        options=method.to_dict(),
        seed=task.seed,
        class_covariance=None if task.class_statistics == "ignored" else task.class_statistics,
        p=task.p,
        history=estimates.history,
        traffic=traffic,
        min_cell_size=estimates.min_cell_size,
        covariance_types=tuple(reply.summary.covariance_type for reply in replies),
        rows=rows,
        privacy=None if guarantee is None else guarantee.to_dict(),
        evidence=(
            evidence_of(estimates, tests, found, d, column_names) if task.p == 2 and d else None
        ),
    )
    return result.of_sites(order)


@dataclass(frozen=True, eq=False)
class PermutationTestResult(SavedResult):
    """A permutation test of whether two sites have one population.

    Attributes
    ----------
    pvalue : float
        P-value of the hypothesis that both sites have the same population. It is exact: if the
        hypothesis is true, and the rows (or units) of both sites together are exchangeable under
        it, the p-value is at most alpha with probability at most alpha.
    statistic : float
        Between 0 and 1. It says how strong the evidence for a difference is, not how large the
        difference is.
    smallest : float
        The smallest p-value that is possible with these numbers of blocks and of permutations.
    enough : int
        About how many rows at each site the test would need; 0 if there are enough.
    sites : tuple of two str
    sizes : tuple of two int
        Rows of each site.
    rows : int
        Number of rows in each block of the test, in which the blocks that were sent are merged.
    blocks : tuple of two int
        Number of these blocks at each site.
    seed : int
    traffic : Traffic
    evidence : Evidence
        A few numbers for each column, from which `explain` is computed.
    notes : tuple of str
        What readers should know first: that rows of one unit were kept together.
    """

    _format: ClassVar[str] = "fedwad permutation test 3"
    _noun: ClassVar[str] = "permutation test"

    pvalue: float
    statistic: float
    smallest: float
    enough: int
    sites: tuple[str, str]
    sizes: tuple[int, ...]
    rows: int
    blocks: tuple[int, ...]
    seed: int
    traffic: Traffic
    evidence: Evidence
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<permutation test {' - '.join(self.sites)}: p = {self.pvalue:.4g}>"

    @property
    def differs(self) -> bool | None:
        """Whether the sites differ at 5%; None if there are too few rows to tell."""
        return verdict(self.pvalue, self.smallest)

    @property
    def sentence(self) -> str:
        """What may be said, in the words that the command line prints."""
        return pair_sentence(self, self.sizes)

    def explain(self, names: Sequence[str] | None = None) -> Explanation:
        """Return which columns differ, by their own p-values.

        Parameters
        ----------
        names : names of the columns, if the sites' data have none
        """
        return explain_pair(self.evidence, 0, 1, self.sites, self.differs, names)

    def _html_rows(self) -> dict[str, str]:
        return {
            "answer": self.sentence,
            "p-value": f"{self.pvalue:.3g}",
            "smallest possible": f"{self.smallest:.2g}",
        }

    def _check(self) -> None:
        if not 0 < self.pvalue <= 1:
            raise ValueError("not a p-value")


def permutation_test(a: Any, b: Any, seed: int = 0) -> PermutationTestResult:
    """Test whether the data of two sites come from one population, without pooling them.

    Each site shuffles its rows, with a hash of its data as the seed, and divides them into blocks
    of 10, 20, 40, ... rows. With its summary it sends the means over each block of functions that
    are the same at all sites. The server merges blocks until all have one size, and permutes them
    between the sites. The p-value is exact for any distribution if, under the hypothesis, the rows
    of both sites together are exchangeable.

    Parameters
    ----------
    a, b : two sites of one federation (`fed["paris"]`), or data, which become local sites
    seed : seed of random permutations, which are drawn if there are too many to try all

    Returns
    -------
    PermutationTestResult
        `pvalue`, `statistic`, `smallest`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (300, 4)), rng.normal(0.5, 1, (200, 4))
    >>> fedwad.permutation_test(X, Y).pvalue < 0.01
    True
    """
    seed = check_integer(seed, "seed", 0)
    first, second = as_sites(a, b)
    if first == second:
        raise InputError(
            "Both sites are the same; a test compares two different ones.", "nothing-to-compare"
        )
    metered = MeteredFederation(first.federation)
    names = (first.name, second.name)
    with single_threaded_blas():
        request = summary_request(metered, names)
        replies = metered.ask(dict.fromkeys(names, request), SummaryReply)
        check_same_features({name: replies[name].summary.dimension for name in names})
        blocks = [require_blocks(name, replies[name]) for name in names]
        columns = build_columns(blocks[0].features, metered.features, metered.schema)
        test = run_permutation_test(blocks, column_index(columns).tolist(), seed=seed)
    summaries = [replies[name].summary for name in names]
    return PermutationTestResult(
        pvalue=test.pvalue,
        statistic=test.statistic,
        smallest=test.smallest,
        enough=rows_needed(blocks) if verdict(test.pvalue, test.smallest) is None else 0,
        sites=names,
        sizes=tuple(summary.count for summary in summaries),
        rows=test.rows,
        blocks=test.blocks,
        seed=seed,
        traffic=metered.traffic,
        evidence=Evidence(
            tuple(moments_of(summary, blocks[0].features) for summary in summaries),
            ((0, 1, PairEvidence(pvalues=test.columns)),),
            features=metered.features,
            schema=metered.schema,
        ),
        notes=units_in_words(
            [summary.count for summary in summaries],
            [order.count for name in names if (order := replies[name].order) is not None],
        ),
    )
