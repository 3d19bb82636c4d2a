"""Running the attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fedwad._audit._attacks import ATTACKS, REQUEST_KINDS, Attack
from fedwad._audit._label_kinds import count_moved_by_one_label
from fedwad._audit._profiles import count_revealed_rows
from fedwad._audit._result import AuditResult, Row, Samples
from fedwad._audit._score import ReconstructionScorer, Score
from fedwad._audit._session import AttackSession
from fedwad._checks import check_choice, check_integer
from fedwad.errors import InputError
from fedwad.federation import Columns, Dataset, Policy, RawTable, read, read_raw
from fedwad.ot import Floats, Measure
from fedwad.tables import Schema

__all__ = ["METHODS", "Method", "audit"]

Method = Literal[
    "fedwad", "hub", "summary", "test", "coreset", "classifier", "training", "private", "schema"
]
METHODS: tuple[Method, ...] = get_args(Method)

_MAX_RECORDS = 1000  # records; of larger data a random part is audited
_SHOWN = 8


def audit(
    data: Any,
    policy: Policy | str | Path | None = None,
    method: Method | None = None,
    seed: int = 0,
    *,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    missing: str | Iterable[str] = (),
    schema: Schema | str | Path | None = "auto",
    callback: Callable[[str, int, int], None] | None = None,
) -> AuditResult:
    """Attack your own data as a curious server would, on this machine, before anything is sent.

    Each attack gets a client with these data, this policy and an empty ledger. It sends the
    requests that a real server could send and tries to reconstruct the records. The result compares
    the number of reconstructed records with that of a fresh sample from the same population.

    Parameters
    ----------
    data : array (n, d), a pair (X, y), a data frame, or the path of a .npy, .npz, .csv, .tsv,
        .parquet or .xlsx file. Of more than 1000 records a random 1000 are attacked; attacks that
        take few messages are tried on all records.
    policy : Policy or the path of one; by default the open policy, which answers everything, as in
        the paper's protocol
    method : "fedwad", "hub", "summary", "test", "coreset", "classifier", "training" (of labelled
        data, with PyTorch), "private" or, of tables, "schema", where a record counts as
        reconstructed if a value comes back that fewer than ten records have; all by default
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    label_column : column of a table that is a label and not a feature
    drop : column or columns of a table that are not read
    missing : text or texts that stand for a missing value in a table
    schema : what the columns of a table become: a Schema, the path of one, None for numbers as they
        are; by default the one that the table has alone
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
    seed = check_integer(seed, "seed", 0)
    rules, name = _policy(policy)
    columns = Columns.of(label_column, drop, missing, schema)
    source = read_raw(data, columns=columns)
    dataset = read(source, columns=columns).sort_features()
    everything = Dataset(Measure(dataset.measure.points), dataset.labels)  # without weights
    part = _random_part(everything, seed)
    points = part.measure.points
    if len(points) < 2:
        raise InputError("The data have one record; an audit needs at least two records.")
    if method == "schema" and not isinstance(source, RawTable):
        raise InputError("The data are no table with named columns, so they send no profile.")
    scorer = ReconstructionScorer(points)
    shown = points[np.sort(np.random.default_rng(seed).permutation(len(points))[:_SHOWN])]
    methods = METHODS if method is None else (method,)
    tasks = [(kind, attack) for kind in methods for attack in ATTACKS if kind in attack.methods]
    full_scorer = scorer
    if part is not everything:
        full_scorer = ReconstructionScorer(everything.measure.points)
    targets = {False: (part, scorer), True: (everything, full_scorer)}
    rows: list[Row] = []
    guesses: dict[tuple[str, str], Floats] = {}
    for k, (kind, attack) in enumerate(tasks):
        if callback is not None:
            callback(f"{kind}: {attack.name}", k, len(tasks))
        target, target_scorer = targets[attack.on_all]
        session = AttackSession(target, rules, REQUEST_KINDS[kind])
        found = attack.run(session, np.random.default_rng([seed, k]))
        rows.append(_row(kind, attack, session, found, target_scorer))
        if len(found):
            guesses[kind, attack.name] = scorer.nearest(shown, found)
    return AuditResult(
        rows=(*rows, *_other_rows(methods, source, dataset, rules)),
        baseline=scorer.baseline,
        policy=name,
        n_attacked=len(points),
        n_features=points.shape[1],
        n_records=len(dataset.measure),
        seed=seed,
        samples=Samples(shown, guesses, dataset.features, dataset.schema),
    )


def _policy(policy: Policy | str | Path | None) -> tuple[Policy, str]:
    """The policy, and its name in messages."""
    if policy is None:
        return Policy.open(), "the open policy"
    if isinstance(policy, str | Path):
        return Policy.load(policy), str(policy)
    if not isinstance(policy, Policy):
        raise InputError(f"policy is a {type(policy).__name__}; give a Policy or the path of one.")
    return policy, f"the policy of '{policy.name}'" if policy.name else "the given policy"


def _row(
    method: str,
    attack: Attack,
    session: AttackSession,
    found: Floats,
    scorer: ReconstructionScorer,
) -> Row:
    score = scorer.score(found)
    refused = (session.refusals or session.inapplicable or [""])[-1]
    is_skipped = session.inapplicable and not session.answered and not session.refusals
    return Row(
        method,
        attack.name,
        attack.requests,
        session.answered,
        refused,
        score,
        leaks=_is_beyond_chance(score, scorer.baseline),
        skipped_reason=session.inapplicable[-1] if is_skipped else "",
        n_attacked=session.count,
    )


def _other_rows(
    methods: Sequence[str], source: Dataset | RawTable, dataset: Dataset, rules: Policy
) -> Iterator[Row]:
    """The attacks that are not about whole records."""
    if "schema" in methods and isinstance(source, RawTable):
        yield _profile_row(source, rules)
    if "private" in methods and dataset.labels is not None and rules.label_names:
        yield _label_row(dataset, rules)


def _profile_row(table: RawTable, policy: Policy) -> Row:
    """The attack on the profile, which is about values in columns and not about whole records."""
    found, answered, refused = count_revealed_rows(table, policy)
    score = Score(found, found, 0.0 if found else math.inf)
    requests = "one profile of the table"
    return Row("schema", "values of few records", requests, answered, refused, score, found > 0)


def _label_row(data: Dataset, policy: Policy) -> Row:
    """The attack on releases by class, which is about contributions and not about whole records."""
    moved, answered, refused = count_moved_by_one_label(data, policy)
    score = Score(moved, moved, 0.0 if moved else math.inf)
    requests = "releases by class, with one label of another kind"
    count = len(data.measure)
    return Row(
        "private", "one odd label", requests, answered, refused, score, moved > 0, n_attacked=count
    )


def _random_part(data: Dataset, seed: int) -> Dataset:
    """A random part of large data; small data as they are."""
    points = data.measure.points
    if len(points) <= _MAX_RECORDS:
        return data
    chosen = np.sort(np.random.default_rng(seed).permutation(len(points))[:_MAX_RECORDS])
    return Dataset(Measure(points[chosen]), None if data.labels is None else data.labels[chosen])


def _is_beyond_chance(score: Score, baseline: Score) -> bool:
    """Whether the score is three standard deviations above a fresh sample's.

    Exact hits are beyond chance if the fresh sample has none.
    """
    if score.exact and not baseline.exact:
        return True
    # Both are counts of rare events, so the variance of their difference is about their sum.
    pairs = (score.exact, baseline.exact), (score.near, baseline.near)
    return any(got - by_chance > 3 * math.sqrt(got + by_chance + 1) for got, by_chance in pairs)
