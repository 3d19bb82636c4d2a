"""Running the attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fedwad._audit._atoms import by_slabs, outermost
from fedwad._audit._blocks import repeated_blocks, solved_blocks
from fedwad._audit._differencing import by_sizes, by_weights
from fedwad._audit._exact import exact_known, exact_secret
from fedwad._audit._label_kinds import moved_by_one_label
from fedwad._audit._orders import moments_by_distances, tail_sums
from fedwad._audit._permuted import permuted
from fedwad._audit._private import averaged_releases, known_others, one_release
from fedwad._audit._profiles import rows_given_away
from fedwad._audit._prototypes import many_prototypes
from fedwad._audit._repeats import repeated_rounds, repeated_summaries
from fedwad._audit._result import AuditResult, Row, Samples
from fedwad._audit._score import ReconstructionScorer, Score
from fedwad._audit._session import AttackSession
from fedwad._audit._summaries import many_summaries, one_summary, rare_features
from fedwad._audit._tomography import tomography
from fedwad._audit._training import counted_tests, inverted_updates
from fedwad._audit._versions import differences
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

#: The requests of each method; an attack on it uses no others.
_KINDS: dict[str, frozenset[str]] = {
    "fedwad": frozenset({"moments", "transport", "cells"}),
    "hub": frozenset({"moments", "cells"}),
    "summary": frozenset({"summary"}),
    "test": frozenset({"blocks"}),
    "coreset": frozenset({"moments", "summary", "atoms"}),
    "classifier": frozenset({"labels", "prototypes"}),
    "training": frozenset({"train", "evaluate"}),
    "private": frozenset({"private"}),
    "schema": frozenset({"schema"}),
}


@dataclass(frozen=True)
class _Attack:
    name: str
    methods: tuple[str, ...]
    requests: str
    run: Callable[[AttackSession, np.random.Generator], Floats]
    #: Whether it takes few messages and guesses, so that it is tried on all records.
    on_all: bool = False


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
    _Attack(
        "rare features", ("summary",), "one summary with its covariance", rare_features, on_all=True
    ),
    _Attack(
        "moments by distances",
        ("fedwad", "hub"),
        "distances of order 4 to coinciding points",
        moments_by_distances,
        on_all=True,
    ),
    _Attack(
        "sums of tails",
        ("fedwad", "hub"),
        "distances of order 1 to coinciding points, for one feature",
        tail_sums,
        on_all=True,
    ),
    _Attack(
        "differencing of summaries",
        ("summary",),
        "summaries with other cells and seeds",
        many_summaries,
    ),
    _Attack(
        "averaging of repeats", ("summary",), "the same summary twenty times", repeated_summaries
    ),
    _Attack("solving of block means", ("test",), "one set of block means", solved_blocks),
    _Attack("averaging of repeats", ("test",), "block means twenty times", repeated_blocks),
    _Attack("differencing by slabs", ("coreset",), "rounds with atoms on a line", by_slabs),
    _Attack(
        "outermost by dual values",
        ("coreset",),
        "rounds with a far atom whose cell has too few records",
        outermost,
    ),
    _Attack(
        "differences of versions",
        ("fedwad", "hub", "summary", "test", "coreset", "classifier"),
        "the same request before and after a record joined",
        differences,
        on_all=True,
    ),
    _Attack(
        "differencing of prototypes",
        ("classifier",),
        "prototypes of different numbers and seeds",
        many_prototypes,
    ),
    _Attack(
        "inverted updates",
        ("training",),
        "one round with weights chosen to reveal records",
        inverted_updates,
    ),
    _Attack(
        "counting by tests", ("training",), "tests of networks that halve the data", counted_tests
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
    held = read_raw(data, columns=columns)
    whole = read(held, columns=columns).by_name()
    part = _part(whole, seed)
    points = part.measure.points
    if len(points) < 2:
        raise InputError("The data have one record; an audit needs at least two records.")
    if method == "schema" and not isinstance(held, RawTable):
        raise InputError("The data are no table with named columns, so they send no profile.")
    scorer = ReconstructionScorer(points)
    shown = points[np.sort(np.random.default_rng(seed).permutation(len(points))[:_SHOWN])]
    wanted = METHODS if method is None else (method,)
    tasks = [(kind, attack) for kind in wanted for attack in _ATTACKS if kind in attack.methods]
    targets = {False: (part, scorer), True: _all_records(whole, scorer)}
    rows: list[Row] = []
    guesses: dict[tuple[str, str], Floats] = {}
    for k, (kind, attack) in enumerate(tasks):
        if callback is not None:
            callback(f"{kind}: {attack.name}", k, len(tasks))
        attacked, measured_by = targets[attack.on_all]
        session = AttackSession(attacked, rules, _KINDS[kind])
        found = attack.run(session, np.random.default_rng([seed, k]))
        rows.append(_row(kind, attack, session, found, measured_by))
        if len(found):
            guesses[kind, attack.name] = scorer.nearest(shown, found)
    return AuditResult(
        rows=(*rows, *_other_rows(wanted, held, whole, rules)),
        baseline=scorer.baseline,
        policy=name,
        n_attacked=len(points),
        n_features=points.shape[1],
        n_records=len(whole.measure),
        seed=seed,
        samples=Samples(shown, guesses, whole.features, whole.schema),
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
    attack: _Attack,
    session: AttackSession,
    found: Floats,
    scorer: ReconstructionScorer,
) -> Row:
    score = scorer.score(found)
    refused = (session.refusals or session.unfit or [""])[-1]
    is_skipped = session.unfit and not session.answered and not session.refusals
    return Row(
        method,
        attack.name,
        attack.requests,
        session.answered,
        refused,
        score,
        _beyond_chance(score, scorer.baseline),
        session.unfit[-1] if is_skipped else "",
        session.count,
    )


def _other_rows(
    wanted: Sequence[str], held: Dataset | RawTable, whole: Dataset, rules: Policy
) -> Iterator[Row]:
    """The attacks that are not about whole records."""
    if "schema" in wanted and isinstance(held, RawTable):
        yield _profile_row(held, rules)
    if "private" in wanted and whole.labels is not None and rules.label_names:
        yield _label_row(whole, rules)


def _profile_row(table: RawTable, policy: Policy) -> Row:
    """The attack on the profile, which is about values in columns and not about whole records."""
    found, answered, refused = rows_given_away(table, policy)
    score = Score(found, found, 0.0 if found else math.inf)
    requests = "one profile of the table"
    return Row("schema", "values of few records", requests, answered, refused, score, found > 0)


def _label_row(data: Dataset, policy: Policy) -> Row:
    """The attack on releases by class, which is about contributions and not about whole records."""
    moved, answered, refused = moved_by_one_label(data, policy)
    score = Score(moved, moved, 0.0 if moved else math.inf)
    requests = "releases by class, with one label of another kind"
    count = len(data.measure)
    return Row(
        "private", "one odd label", requests, answered, refused, score, moved > 0, n_attacked=count
    )


def _all_records(
    data: Dataset, scorer: ReconstructionScorer
) -> tuple[Dataset, ReconstructionScorer]:
    """All records without weights, and their scorer: `scorer` if it is about the same records."""
    points = data.measure.points
    few = len(points) <= _MAX_RECORDS
    return Dataset(Measure(points), data.labels), scorer if few else ReconstructionScorer(points)


def _part(data: Dataset, seed: int) -> Dataset:
    """The data without weights of records, or a random part of large data."""
    points = data.measure.points
    if len(points) <= _MAX_RECORDS:
        return Dataset(Measure(points), data.labels)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(points))[:_MAX_RECORDS])
    return Dataset(Measure(points[chosen]), None if data.labels is None else data.labels[chosen])


def _beyond_chance(score: Score, baseline: Score) -> bool:
    """Whether the score is three standard deviations above a fresh sample's.

    Exact hits are beyond chance if the fresh sample has none.
    """
    if score.exact and not baseline.exact:
        return True
    # Both are counts of rare events, so the variance of their difference is about their sum.
    pairs = (score.exact, baseline.exact), (score.near, baseline.near)
    return any(got - by_chance > 3 * math.sqrt(got + by_chance + 1) for got, by_chance in pairs)
