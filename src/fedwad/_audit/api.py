"""Running the attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fedwad._audit._atoms import by_slabs
from fedwad._audit._differencing import by_sizes, by_weights
from fedwad._audit._exact import exact_known, exact_secret
from fedwad._audit._permuted import permuted
from fedwad._audit._private import averaged_releases, known_others, one_release
from fedwad._audit._prototypes import many_prototypes
from fedwad._audit._repeats import repeated_rounds, repeated_summaries
from fedwad._audit._result import AuditResult, Row, Samples
from fedwad._audit._score import Score, Yardstick
from fedwad._audit._session import AttackSession
from fedwad._audit._summaries import many_summaries, one_summary, rare_features
from fedwad._audit._tomography import tomography
from fedwad._checks import check_choice, check_whole
from fedwad.errors import InputError
from fedwad.federation import Columns, Dataset, Policy, read
from fedwad.ot import Floats, Measure

__all__ = ["METHODS", "Method", "audit"]

Method = Literal["fedwad", "hub", "summary", "coreset", "classifier", "private"]
METHODS: tuple[Method, ...] = get_args(Method)

_MOST = 1000  # records; a larger data set is audited on a random part of it
_SHOWN = 8

#: What each method asks; an attack on it asks nothing else.
_KINDS: dict[str, frozenset[str]] = {
    "fedwad": frozenset({"moments", "transport", "cells"}),
    "hub": frozenset({"moments", "cells"}),
    "summary": frozenset({"summary"}),
    "coreset": frozenset({"moments", "summary", "atoms"}),
    "classifier": frozenset({"labels", "prototypes"}),
    "private": frozenset({"private"}),
}


@dataclass(frozen=True)
class _Attack:
    name: str
    methods: tuple[str, ...]
    asks: str
    run: Callable[[AttackSession, np.random.Generator], Floats]


_ATTACKS = (
    _Attack(
        "exact interpolant, t known",
        ("fedwad",),
        "one round with the exact interpolant",
        exact_known,
    ),
    _Attack(
        "exact interpolant, t secret",
        ("fedwad",),
        "one round with the exact interpolant",
        exact_secret,
    ),
    _Attack("n points, t secret", ("fedwad",), "two rounds with S = n", permuted),
    _Attack(
        "tomography", ("fedwad", "hub"), "rounds to supports on lines in one plane", tomography
    ),
    _Attack(
        "differencing by weights",
        ("fedwad", "hub"),
        "rounds to supports of unequal weights",
        by_weights,
    ),
    _Attack(
        "differencing by sizes", ("fedwad", "hub"), "rounds to supports of many sizes", by_sizes
    ),
    _Attack(
        "averaging of repeats", ("fedwad", "hub"), "the same round twenty times", repeated_rounds
    ),
    _Attack("drawing from one summary", ("summary",), "one summary", one_summary),
    _Attack("rare features", ("summary",), "one summary with its covariance", rare_features),
    _Attack(
        "differencing of summaries",
        ("summary",),
        "summaries with other cells and seeds",
        many_summaries,
    ),
    _Attack(
        "averaging of repeats", ("summary",), "the same summary twenty times", repeated_summaries
    ),
    _Attack("differencing by slabs", ("coreset",), "rounds with atoms on a line", by_slabs),
    _Attack(
        "differencing of prototypes",
        ("classifier",),
        "prototypes of other numbers and seeds",
        many_prototypes,
    ),
    _Attack("drawing from one release", ("private",), "one release", one_release),
    _Attack("all other records known", ("private",), "one release", known_others),
    _Attack("averaging, all others known", ("private",), "twenty releases", averaged_releases),
)


def audit(
    data: Any,
    policy: Policy | str | Path | None = None,
    method: Method | None = None,
    seed: int = 0,
    *,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    callback: Callable[[str, int, int], None] | None = None,
) -> AuditResult:
    """Play the curious server against your own data, on this machine, before anything is sent.

    Each attack gets a client with these data, this policy and an empty ledger, asks it through the
    one door that a real server has, and tries to reconstruct the records. How many came back is
    compared with what a fresh draw from the same law would give.

    Parameters
    ----------
    data : array (n, d), a pair (X, y), a data frame, or the path of a .npy, .npz, .csv or .parquet
        file Of more than 1000 records a random 1000 are attacked.
    policy : Policy or the path of a policy; when left out the open one, under which everything is
        answered, as in the protocol that the paper describes
    method : "fedwad", "hub", "summary", "coreset", "classifier" or "private"; all of them when left
        out
    seed : the same seed gives the same bits
    label_column : column of a table that is a label and not a feature
    drop : column or columns of a table that are not read
    callback : called with the name of each attack, its number and how many there are

    Returns
    -------
    AuditResult
        `rows`, one for each attack; `baseline`; `verdict(method)`; `recovered`; `save`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> fedwad.audit(X, method="fedwad").recovered
    60
    """
    if method is not None:
        check_choice(method, "method", METHODS)
    seed = check_whole(seed, "seed", 0)
    name = "the open policy"
    if isinstance(policy, str | Path):
        name, policy = str(policy), Policy.load(policy)
    elif isinstance(policy, Policy):
        name = f"the policy of '{policy.name}'" if policy.name else "the given policy"
    rules = Policy.open() if policy is None else policy
    if not isinstance(rules, Policy):
        raise InputError(f"policy is a {type(rules).__name__}; give a Policy or the path of one.")
    whole = (
        data if isinstance(data, Dataset) else read(data, columns=Columns.of(label_column, drop))
    )
    part = _part(whole, seed)
    points = part.measure.points
    if len(points) < 2:
        raise InputError("An audit needs at least two records.")
    yardstick = Yardstick(points)
    shown = np.sort(np.random.default_rng(seed).permutation(len(points))[:_SHOWN])
    wanted = METHODS if method is None else (method,)
    tasks = [(kind, attack) for kind in wanted for attack in _ATTACKS if kind in attack.methods]
    rows: list[Row] = []
    guesses: dict[tuple[str, str], Floats] = {}
    for k, (kind, attack) in enumerate(tasks):
        if callback is not None:
            callback(f"{kind}: {attack.name}", k, len(tasks))
        session = AttackSession(part, rules, _KINDS[kind])
        found = attack.run(session, np.random.default_rng([seed, k]))
        score = yardstick.score(found)
        leaks = _beyond_chance(score, yardstick.baseline)
        refused = (session.refusals or session.unfit or [""])[-1]
        untried = (
            session.unfit[-1]
            if session.unfit and not session.answered and not session.refusals
            else ""
        )
        rows.append(
            Row(kind, attack.name, attack.asks, session.answered, refused, score, leaks, untried)
        )
        if len(found):
            guesses[kind, attack.name] = yardstick.nearest(points[shown], found)
    return AuditResult(
        rows=tuple(rows),
        baseline=yardstick.baseline,
        policy=name,
        count=len(points),
        features=points.shape[1],
        of=len(whole.measure),
        seed=seed,
        samples=Samples(points[shown], guesses),
    )


def _part(data: Dataset, seed: int) -> Dataset:
    """The data, without the weights of records that a file may give, or a random part of a large
    set."""
    points = data.measure.points
    if len(points) <= _MOST:
        return Dataset(Measure(points), data.labels)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(points))[:_MOST])
    return Dataset(Measure(points[chosen]), None if data.labels is None else data.labels[chosen])


def _beyond_chance(score: Score, baseline: Score) -> bool:
    """Whether that is three standard deviations above a fresh draw; exact hits are no chance where
    that has none."""
    if score.exact and not baseline.exact:
        return True
    # Both are counts of rare events, so the variance of their difference is about their sum.
    pairs = (score.exact, baseline.exact), (score.near, baseline.near)
    return any(got - by_chance > 3 * math.sqrt(got + by_chance + 1) for got, by_chance in pairs)
