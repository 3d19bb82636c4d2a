"""The audit: it runs all attacks and scores them."""

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

_MAX_RECORDS = 1000  # that are attacked; of larger data a random part
_N_SHOWN = 8  # records that the page shows beside their reconstructions


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
        data, with PyTorch), "private" or "schema" (of tables: a record counts as reconstructed if
        one of its values is revealed that fewer than ten records have); all by default
    seed : seed of the random numbers; the same seed gives the same result, bit for bit, except for
        "private", whose releases have fresh noise
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
    policy, policy_name = _load_policy(policy)
    columns = Columns.of(label_column, drop, missing, schema)
    source = read_raw(data, columns=columns)
    dataset = read(source, columns=columns).sort_features()
    all_records = Dataset(Measure(dataset.measure.points), dataset.labels)  # without weights
    part = _random_part(all_records, seed)
    points = part.measure.points
    if len(points) < 2:
        raise InputError("The data have one record; an audit needs at least two records.")
    if method == "schema" and not isinstance(source, RawTable):
        raise InputError(
            "The data are no table with named columns, so their site would send no profile."
        )
    scorer = ReconstructionScorer(points)
    shown = points[np.sort(np.random.default_rng(seed).permutation(len(points))[:_N_SHOWN])]
    methods = METHODS if method is None else (method,)
    tasks = [(name, attack) for name in methods for attack in ATTACKS if name in attack.methods]
    scorer_of_all = scorer
    if part is not all_records:
        scorer_of_all = ReconstructionScorer(all_records.measure.points)
    rows: list[Row] = []
    closest: dict[tuple[str, str], Floats] = {}  # guesses to the shown records
    for k, (name, attack) in enumerate(tasks):
        if callback is not None:
            callback(f"{name}: {attack.name}", k, len(tasks))
        is_all = attack.on_all_records
        target, target_scorer = (all_records, scorer_of_all) if is_all else (part, scorer)
        session = AttackSession(target, policy, REQUEST_KINDS[name])
        guesses = attack.run(session, np.random.default_rng([seed, k]))
        rows.append(_row(name, attack, session, guesses, target_scorer))
        if len(guesses):
            closest[name, attack.name] = scorer.nearest(shown, guesses)
    return AuditResult(
        rows=(*rows, *_other_rows(methods, source, dataset, policy)),
        baseline=scorer.baseline,
        policy=policy_name,
        n_attacked=len(points),
        n_features=points.shape[1],
        n_records=len(dataset.measure),
        seed=seed,
        samples=Samples(shown, closest, dataset.features, dataset.schema),
    )


def _load_policy(policy: Policy | str | Path | None) -> tuple[Policy, str]:
    """The policy, and its name in sentences."""
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
    guesses: Floats,
    scorer: ReconstructionScorer,
) -> Row:
    score = scorer.score(guesses)
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
    methods: Sequence[str], source: Dataset | RawTable, dataset: Dataset, policy: Policy
) -> Iterator[Row]:
    """The attacks that are not about whole records."""
    if "schema" in methods and isinstance(source, RawTable):
        yield _profile_row(source, policy)
    if "private" in methods and dataset.labels is not None and policy.label_names:
        yield _label_row(dataset, policy)


def _profile_row(table: RawTable, policy: Policy) -> Row:
    """The attack on the profile, which is about values in columns and not about whole records."""
    revealed, answered, refused = count_revealed_rows(table, policy)
    score = Score(revealed, revealed, 0.0 if revealed else math.inf)
    attack, requests, count = "values of few records", "one profile of the table", table.table.rows
    return Row("schema", attack, requests, answered, refused, score, revealed > 0, n_attacked=count)


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
    """Whether a count of the score is three standard deviations above that of a fresh sample.

    Any exact reconstruction is beyond chance if the fresh sample has none.
    """
    if score.exact and not baseline.exact:
        return True
    # Both are counts of rare events, so the variance of their difference is about their sum.
    pairs = (score.exact, baseline.exact), (score.near, baseline.near)
    return any(count - fresh > 3 * math.sqrt(count + fresh + 1) for count, fresh in pairs)
