"""The audit: the list of all attacks, and the function that runs and scores them.

A new attack is a function `@attack(name, requests)` in the file of its kind and an entry in
`ATTACKS`, or for raw tables in `TABLE_ATTACKS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fedwad._checks import check_choice, check_integer
from fedwad.audit import (
    blocks,
    differencing,
    exact,
    private,
    rare,
    summaries,
    tables,
    tomography,
    training,
)
from fedwad.audit.score import AuditResult, Finding, ReconstructionScorer, Row, Samples, Score
from fedwad.audit.session import Attack, AttackSession
from fedwad.errors import FedwadError, InputError
from fedwad.federation import Columns, Dataset, Policy, RawTable, read, read_raw
from fedwad.tables import Schema, agree
from fedwad.transport import Floats, Measure

#: The kinds of request that each method uses; an attack on the method may use no others.
REQUEST_KINDS: dict[str, frozenset[str]] = {
    "fedwad": frozenset({"columns", "transport", "cells"}),
    "hub": frozenset({"columns", "cells"}),
    "summary": frozenset({"summary"}),
    "test": frozenset({"summary"}),
    "coreset": frozenset({"columns", "summary", "atoms"}),
    "classifier": frozenset({"labels", "prototypes"}),
    "training": frozenset({"train", "evaluate"}),
    "private": frozenset({"private"}),
    "schema": frozenset({"columns"}),
}


#: Attacks by rounds and by requests of a hub.
_ON_ROUNDS = (
    tomography.tomography,
    differencing.difference_by_weights,
    differencing.difference_by_sizes,
    differencing.average_rounds,
    rare.find_flagged_record,
    rare.swap_records,
    rare.find_tail_records,
    differencing.difference_versions,
)

#: The attacks on each method.
ATTACKS: dict[str, tuple[Attack, ...]] = {
    "fedwad": (
        exact.invert_with_known_t,
        exact.invert_with_secret_t,
        exact.invert_two_rounds,
        differencing.difference_draws,
        *_ON_ROUNDS,
    ),
    "hub": _ON_ROUNDS,
    "summary": (
        summaries.draw_from_summary,
        summaries.find_rare_records,
        summaries.difference_summaries,
        differencing.average_summaries,
        differencing.difference_versions,
    ),
    "test": (blocks.solve_blocks, differencing.difference_versions),
    "coreset": (
        differencing.difference_slabs,
        differencing.bisect_cells,
        differencing.find_outermost,
        rare.swap_between_atoms,
        differencing.difference_versions,
    ),
    "classifier": (differencing.difference_versions, summaries.difference_prototypes),
    "training": (training.invert_update, training.bisect_by_tests),
    "private": (
        private.draw_from_columns,
        private.subtract_known_rows,
        private.draw_from_release,
        private.subtract_known_records,
        private.average_releases,
    ),
    "schema": (),  # but those on tables
}

#: Attacks on a table by what a site publishes about its columns and by schemas from outside: what
#: they ask for, and the function.
TABLE_ATTACKS: dict[str, tuple[str, Callable[[RawTable, Policy, np.random.Generator], Finding]]] = {
    "values of few records": ("one profile of the table", tables.count_revealed_rows),
    "oracle of refusals": ("schemas with other centres and scales", tables.bisect_refusals),
    "values in sparse columns": (
        "one summary by a schema of its choice",
        tables.find_present_values,
    ),
    "persons and labels by name": ("summaries by schemas that name them", tables.ask_for_persons),
    "lying profile": ("an agreement of three sites and a liar", tables.move_agreement),
}


Method = Literal[
    "fedwad", "hub", "summary", "test", "coreset", "classifier", "training", "private", "schema"
]
METHODS: tuple[Method, ...] = get_args(Method)


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
    **more: Any,
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
    more : unit, where, keep, category, number, query, header, encoding and sheet of `fedwad.local`

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
    columns = Columns.of(label_column, drop, missing, schema, **more)
    source = read_raw(data, columns=columns)
    dataset = read(source, columns=columns).sort_features()
    all_records = Dataset(Measure(dataset.measure.points), dataset.labels)  # without weights
    part, points = all_records, all_records.measure.points
    if len(points) > 1000:  # an attack on more would take hours
        chosen = np.sort(np.random.default_rng(seed).permutation(len(points))[:1000])
        points, labels = points[chosen], part.labels
        part = Dataset(Measure(points), None if labels is None else labels[chosen])
    if len(points) < 2:
        raise InputError(
            "The data have one record; an audit needs at least two records.", "too-few-rows"
        )
    if method == "schema" and not isinstance(source, RawTable):
        raise InputError(
            "The data are no table with named columns, so their site would send no profile.",
            "no-columns",
        )
    scorer = ReconstructionScorer(points)
    # The page shows these beside their reconstructions.
    shown = points[np.sort(np.random.default_rng(seed).permutation(len(points))[:8])]
    methods = METHODS if method is None else (method,)
    tasks = [(name, attack) for name in methods for attack in ATTACKS[name]]
    scorer_of_all = scorer
    if part is not all_records:
        scorer_of_all = ReconstructionScorer(all_records.measure.points)
    rows: list[Row] = []
    closest: dict[tuple[str, str], Floats] = {}  # guesses to the shown records
    for k, (name, attack) in enumerate(tasks):
        if callback is not None:
            callback(f"{name}: {attack.name}", k, len(tasks))
        target, of = (all_records, scorer_of_all) if attack.on_all else (part, scorer)
        session = AttackSession(target, policy, REQUEST_KINDS[name])
        guesses = attack(session, np.random.default_rng([seed, k]))
        score = of.score(guesses)
        is_skipped = session.inapplicable and not session.answered and not session.refusals
        rows.append(
            Row(
                name,
                attack.name,
                attack.requests,
                session.answered,
                session.refused,
                score,
                leaks=of.is_beyond_chance(guesses),
                skipped_reason=session.inapplicable[-1] if is_skipped else "",
                n_attacked=session.count,
            )
        )
        if len(guesses):
            closest[name, attack.name] = scorer.nearest(shown, guesses)
    return AuditResult(
        rows=(*rows, *_other_rows(methods, data, source, dataset, policy, columns, seed)),
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
        raise InputError(
            f"policy is a {type(policy).__name__}; give a Policy or the path of one.", "bad-option"
        )
    return policy, f"the policy of '{policy.name}'" if policy.name else "the given policy"


def _other_rows(
    methods: Sequence[str],
    data: Any,
    source: Dataset | RawTable,
    dataset: Dataset,
    policy: Policy,
    columns: Columns,
    seed: int,
) -> Iterator[Row]:
    """The attacks that are not about whole records."""

    def row(method: str, attack: str, requests: str, found: Finding) -> Row:
        n_exact = 0 if found.words else found.found  # words are not about whole records
        score = Score(n_exact, n_exact, 0.0 if n_exact else math.inf)
        return Row(
            method,
            attack,
            requests,
            found.answered,
            found.refused,
            score,
            leaks=found.found > 0,
            skipped_reason=found.skipped_reason,
            n_attacked=found.count,
            words=found.words,
            numbers=dict(found.numbers),
        )

    if "test" in methods:
        sent = dataset
        if isinstance(source, RawTable) and columns.schema == "auto" and not policy.is_private:
            # As its site encodes it by the schema on which sites with the same table agree, which
            # leaves out columns and levels of too few rows. If no schema fits, numbers are sent.
            with suppress(FedwadError):
                profile = source.profile(policy.min_cell_size)
                sent = source.encode_proposal(agree({"this site": profile}), profile)
        found = blocks.find_members(sent, policy, np.random.default_rng(seed))
        yield row("test", "membership", "the block means of a part of the rows", found)
    if "schema" in methods and isinstance(source, RawTable):
        for name, (requests, run) in TABLE_ATTACKS.items():
            try:
                found = run(source, policy, np.random.default_rng(seed))
            except InputError as error:  # no schema fits the table
                found = Finding(skipped_reason=str(error))
            yield row("schema", name, requests, found)
    if "private" in methods and dataset.labels is not None and policy.label_names:
        requests = "releases by class, with one label of another kind"
        yield row(
            "private", "one odd label", requests, private.count_moved_by_one_label(dataset, policy)
        )
    is_text = isinstance(data, str | Path) and Path(data).suffix in (".csv", ".tsv")
    if "private" in methods and is_text and policy.is_private:
        found = private.count_moved_by_one_byte(Path(data), columns, policy)
        yield row("private", "one odd byte", "releases, with one byte that is no text", found)
