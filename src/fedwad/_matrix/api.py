"""All distances between many clients: from one summary each, through a hub, or pair by pair as in
the paper."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_choice, check_whole
from fedwad._distance.api import check_private
from fedwad._matrix.from_summaries import by_release, by_summary
from fedwad._matrix.hub import by_hub
from fedwad._matrix.options import MatrixOptions, Progress
from fedwad._matrix.pairs import by_pairs
from fedwad._matrix.result import MatrixResult
from fedwad.errors import InputError
from fedwad.federation import Federation, MeteredFederation, choose_sites, local
from fedwad.ot import (
    ClassCovariance,
    CovarianceType,
    check_order,
)
from fedwad.privacy import DP

__all__ = ["Progress", "matrix"]

Method = Literal["summary", "hub", "pairs"]


def matrix(
    fed: Federation | Mapping[str, Any],
    method: Method = "summary",
    support: int = 10,
    rounds: int = 5,
    labels: bool = False,
    seed: int = 0,
    *,
    covariance: ClassCovariance = "diag",
    covariance_type: CovarianceType = "auto",
    p: float = 2.0,
    clients: Sequence[str] | None = None,
    privacy: DP | Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> MatrixResult:
    """Estimate the distances between all clients without bringing their data together.

    Parameters
    ----------
    fed : a federation, or a mapping from names to data, which become local clients
    method : "summary": one message from each client serves all pairs. "hub": all clients transport
        to one shared support. "pairs": the paper's protocol for each pair, all pairs of a round in
        one message to each client.
    support : cells of a summary, or points of each support
    rounds : rounds of "hub" and "pairs"
    labels : dataset distance between labelled data: W2 under |x-x'|^2 + |m_y-m_y'|^2 + |s_y-s_y'|^2
        with mean m_y and standard deviations s_y of the class y of x
    seed : the same seed gives the same bits
    covariance : "full" compares classes by the Frobenius norm between root covariances instead of
        |s_y-s_y'|
    covariance_type : what clients tell of covariances, see `fedwad.distance`; with labels "auto" is
        full up to 64 features, beyond that 40 main directions and the diagonal of each class
    p : order of the distance, at least 1; 2 for labelled data, "hub" and "pairs"
    clients : some of the names, if not all
    privacy : `fedwad.DP`: one release from each client under differential privacy serves all pairs,
        see `fedwad.distance`
    n_jobs : that work on pairs at the same time; as many as cores when left out. They change no
        number.
    callback : called with each bit of progress

    Returns
    -------
    MatrixResult
        `sites`, `value`, the certified `lower` and `upper`, `traffic`, `lost`; `.cluster`,
        `.nearest`, `.save`. A client that does not answer is left out and listed in `lost`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> data = {f"site{k}": rng.normal(k // 2, 1, (200, 3)) for k in range(4)}
    >>> fedwad.matrix(data).cluster(2).tolist()
    [0, 0, 1, 1]
    """
    federation: Federation = fed if hasattr(fed, "ask") else local(fed)  # type: ignore[assignment]
    check_choice(method, "method", ("summary", "hub", "pairs"))
    check_choice(covariance, "covariance", ("diag", "full"))
    check_choice(covariance_type, "covariance_type", get_args(CovarianceType))
    if type(labels) is not bool:
        raise InputError(f"labels is {labels!r}; give True or False.")
    if check_order(p) != 2 and (labels or method != "summary"):
        raise InputError(f"p is {p!r}; dataset distances and methods 'hub' and 'pairs' have p = 2.")
    options = MatrixOptions(
        names=choose_sites(federation, clients, "a matrix", least=2),
        support=check_whole(support, "support"),
        rounds=check_whole(rounds, "rounds"),
        seed=check_whole(seed, "seed", 0),
        p=check_order(p),
        classes=covariance if labels else "ignored",
        covariance_type=covariance_type,
        n_jobs=(os.cpu_count() or 1) if n_jobs is None else check_whole(n_jobs, "n_jobs"),
        tell=callback or (lambda _: None),
    )
    line = MeteredFederation(federation)
    promise = None if privacy is None else check_private(privacy, method, options.p, labels)
    with single_threaded_blas():
        if promise is not None:
            found = by_release(line, options, promise)
        else:
            found = {"summary": by_summary, "hub": by_hub, "pairs": by_pairs}[method](line, options)
    min_cell_size = (
        [] if promise is not None else [summary.min_cell_size for summary in found.summaries]
    )
    lower = np.minimum(found.lower, found.upper)
    return MatrixResult(
        sites=found.sites,
        value=np.clip(found.value, lower, found.upper),
        lower=lower,
        upper=found.upper,
        fedwad=found.fedwad,
        method=method,
        support=options.support,
        rounds=options.rounds if found.history else 0,
        seed=options.seed,
        labels=labels,
        covariance=covariance,
        p=options.p,
        history=found.history,
        traffic=line.traffic,
        min_cell_size=min(min_cell_size, default=None),
        covariance_types=tuple(sorted({summary.covariance_type for summary in found.summaries})),
        lost=line.failed,
        privacy=None if promise is None else promise.to_dict(),
    )
