"""All distances between many clients: from one summary each, through a hub, or pair by pair as in the paper."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from fedwad._checks import check_choice, check_whole
from fedwad._matrix.hub import by_hub
from fedwad._matrix.pairs import by_pairs
from fedwad._matrix.plan import Plan, Progress
from fedwad._matrix.told import by_release, by_summary
from fedwad._matrix_result import MatrixResult
from fedwad._steady import steady
from fedwad.distance import check_private
from fedwad.errors import InputError
from fedwad.federation import Federation, Line, chosen, local
from fedwad.ot import (
    ClassCovariance,
    Form,
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
    covariance: ClassCovariance = "diagonal",
    form: Form = "auto",
    p: float = 2.0,
    clients: Sequence[str] | None = None,
    privacy: DP | Mapping[str, Any] | None = None,
    threads: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> MatrixResult:
    """Estimate the distances between all clients without bringing their data together.

    Parameters
    ----------
    fed : a federation, or a mapping from names to data, which become local clients
    method : "summary": one message from each client serves all pairs. "hub": all clients transport to one shared
        support. "pairs": the paper's protocol for each pair, all pairs of a round in one message to each client.
    support : cells of a summary, or points of each support
    rounds : rounds of "hub" and "pairs"
    labels : dataset distance between labelled data: W2 under |x-x'|^2 + |m_y-m_y'|^2 + |s_y-s_y'|^2 with mean m_y
        and standard deviations s_y of the class y of x
    seed : the same seed gives the same bits
    covariance : "full" compares classes by the Frobenius norm between root covariances instead of |s_y-s_y'|
    form : what clients tell of covariances, see `fedwad.distance`; with labels "auto" is full up to 64 features,
        beyond that 40 main directions and the diagonal of each class
    p : order of the distance, at least 1; 2 for labelled data, "hub" and "pairs"
    clients : some of the names, if not all
    privacy : `fedwad.DP`: one release from each client under differential privacy serves all pairs, see
        `fedwad.distance`
    threads : that work on pairs at the same time; as many as cores when left out. They change no number.
    on_progress : called with each bit of progress

    Returns
    -------
    MatrixResult
        `ids`, `value`, the certified `lower` and `upper`, `traffic`, `lost`; `.cluster`, `.nearest`, `.save`.
        A client that does not answer is left out and listed in `lost`.

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
    check_choice(covariance, "covariance", ("diagonal", "full"))
    check_choice(form, "form", get_args(Form))
    if type(labels) is not bool:
        raise InputError(f"labels is {labels!r}; give True or False.")
    if check_order(p) != 2 and (labels or method != "summary"):
        raise InputError(f"p is {p!r}; dataset distances and methods 'hub' and 'pairs' have p = 2.")
    plan = Plan(
        names=chosen(federation, clients, "a matrix", least=2),
        support=check_whole(support, "support"),
        rounds=check_whole(rounds, "rounds"),
        seed=check_whole(seed, "seed", 0),
        p=check_order(p),
        classes=covariance if labels else "ignored",
        form=form,
        threads=(os.cpu_count() or 1) if threads is None else check_whole(threads, "threads"),
        tell=on_progress or (lambda _: None),
    )
    line = Line(federation)
    promise = None if privacy is None else check_private(privacy, method, plan.p, labels)
    with steady():
        if promise is not None:
            found = by_release(line, plan, promise)
        else:
            found = {"summary": by_summary, "hub": by_hub, "pairs": by_pairs}[method](line, plan)
    smallest = [] if promise is not None else [summary.smallest for summary in found.summaries]
    lower = np.minimum(found.lower, found.upper)
    return MatrixResult(
        ids=found.ids, value=np.clip(found.value, lower, found.upper), lower=lower, upper=found.upper,
        fedwad=found.fedwad, method=method, support=plan.support, rounds=plan.rounds if found.history else 0,
        seed=plan.seed, labels=labels, covariance=covariance, p=plan.p, history=found.history, traffic=line.traffic,
        smallest=min(smallest, default=None), forms=tuple(sorted({summary.form for summary in found.summaries})),
        lost=line.lost, privacy=None if promise is None else promise.to_dict(),
    )  # fmt: skip
