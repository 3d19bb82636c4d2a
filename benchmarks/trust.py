"""What a server gets by attacks on three public tables, with each fix on and off.

`python -m benchmarks trust` prints the table of trust.md. Each table gets a column of identifiers
and a laboratory value that an eighth of the rows have, which are what the attacks are after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fedwad.audit import tables
from fedwad.audit.api import REQUEST_KINDS
from fedwad.audit.rare import swap_records
from fedwad.audit.session import AttackSession
from fedwad.errors import InputError
from fedwad.federation import Columns, Dataset, Policy, RawTable, read_raw
from fedwad.site import acceptance, context
from fedwad.tables import Schema, agree
from fedwad.transport import Measure

POLICIES = Path(__file__).parents[1] / "docs" / "policies"


def frames() -> dict[str, Any]:
    """Three tables of numbers with 150 to 442 rows."""
    from sklearn.datasets import load_diabetes, load_iris, load_wine

    return {
        "wine": load_wine(as_frame=True).data.iloc[:, :6],
        "diabetes": load_diabetes(as_frame=True, scaled=False).data.iloc[:, :6],
        "iris": load_iris(as_frame=True).data,
    }


def _site(frame: Any) -> RawTable:
    rng, frame = np.random.default_rng(0), frame.copy()
    rows = len(frame)
    frame["patient_id"] = [f"P{k:04d}" for k in rng.permutation(rows)]
    frame["dose"] = np.where(rng.random(rows) < 0.12, rng.normal(50, 9, rows).round(3), np.nan)
    frame["ill"] = rng.choice(["no", "yes"], rows)
    read = read_raw(frame, columns=Columns.of("ill", schema="auto", unit=None))
    assert isinstance(read, RawTable)
    return read


def _any_schema(stack: ExitStack) -> None:
    """A schema from outside is used as it is, as if it were the site's."""
    whole = RawTable.encode

    def encode(self: RawTable, schema: Schema, *rest: Any) -> Dataset:
        try:
            return whole(self, schema, *rest)
        except InputError:
            raise acceptance.refusal() from None

    any_schema = lambda text, *_, **__: Schema.from_toml(text)  # noqa: E731
    stack.enter_context(patch.object(context, "accept_schema", any_schema))
    stack.enter_context(patch.object(RawTable, "encode", encode))
    proposal = lambda self, schema, _: self.encode(schema)  # noqa: E731
    stack.enter_context(patch.object(RawTable, "encode_proposal", proposal))
    stack.enter_context(patch.object(RawTable, "_label_column", lambda *_: None))


def _no_minimum(stack: ExitStack) -> None:
    """A minimum counts rows, and not present values."""
    stack.enter_context(patch.object(context.ClientContext, "present", None))
    reveals = lambda _, groups, *__: np.zeros(groups.shape[2], bool)  # noqa: E731
    stack.enter_context(patch.object(context, "groups_reveal", reveals))


def _no_majority(stack: ExitStack) -> None:
    """Sites agree as if none could lie."""
    alone = lambda told, majority=False: agree(told)  # noqa: ARG005, E731
    stack.enter_context(patch.object(tables, "agree", alone))


Attack = Callable[[RawTable, Policy, np.random.Generator], Any]
#: Row of the attacks in trust.md, the attack, what it counts, and the fix that is switched off.
PROPOSALS: tuple[tuple[int, str, Attack, Callable[[ExitStack], None]], ...] = (
    (2, "largest values by refusals", tables.bisect_refusals, _any_schema),
    (4, "columns moved by one liar", tables.move_agreement, _no_majority),
    (5, "values of a sparse column", tables.find_present_values, _no_minimum),
    (6, "named persons, and the label", tables.ask_for_persons, _any_schema),
)


def measure() -> Iterator[dict[str, Any]]:
    """What each attack gets under a ready policy, with its fix and without."""
    for name, frame in frames().items():
        site, policy = _site(frame), Policy.load(POLICIES / "summary.toml")
        many = replace(policy, max_queries=None, max_schemas=None, max_distinct_replies=None)
        for number, attack, run, switch in PROPOSALS:
            on = run(site, policy, np.random.default_rng(0)).found
            with ExitStack() as stack:
                switch(stack)
                off = run(site, many, np.random.default_rng(0)).found
            yield _row(number, attack, name, "summary.toml", on, off)
        values, numbers = frame.to_numpy(dtype=float), frame.shape[1]
        points = np.column_stack([values, np.arange(len(values)) == len(values) // 2])
        for policy_name, method in ("hub", "hub"), ("rounds", "fedwad"):
            rules = Policy.load(POLICIES / f"{policy_name}.toml")
            got = []
            for used in rules, replace(rules, rounding=0.0):
                session = AttackSession(Dataset(Measure(points)), used, REQUEST_KINDS[method])
                guesses = swap_records(session, np.random.default_rng(0))
                near = 1e-2 * values.std(axis=0)
                away = (
                    np.abs(guesses[:, :numbers] - values[len(values) // 2])
                    if len(guesses)
                    else None
                )
                got.append(0 if away is None else int((away < near).sum(axis=1).max()))
            yield _row(
                1, f"values of the rare record, of {numbers}", name, f"{policy_name}.toml", *got
            )


def _row(number: int, attack: str, table: str, policy: str, on: int, off: int) -> dict[str, Any]:
    who = {"table": table, "policy": policy}
    return {"row": number, "attack": attack, **who, "with the fix": on, "without": off}
