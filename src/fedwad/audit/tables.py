"""Attacks on tables: on the columns that a site publishes, and by schemas of the server's choice.

A site takes a schema as a proposal. Whether it takes it, and what comes back, must not tell values
of few rows, and lies about columns must cost the liar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedwad._words import pluralize
from fedwad.audit.score import Finding
from fedwad.audit.session import Asker, halve
from fedwad.errors import FedwadError
from fedwad.federation import (
    Client,
    ColumnsReply,
    ColumnsRequest,
    Policy,
    RawTable,
    SummaryReply,
    SummaryRequest,
)
from fedwad.statistics import Summary
from fedwad.statistics.order import count_dealt
from fedwad.tables import Column, ColumnStatistics, Profile, Schema, SchemaColumn, agree

_MIN_ROWS = 10  # a value that at least so many rows have identifies none of them


class Proposer(Asker):
    """A server that learned a site's columns and proposes schemas to it."""

    def __init__(self, source: RawTable, policy: Policy) -> None:
        super().__init__(Client(source, policy))
        self.cells = max(1, min(policy.max_support or 100, source.table.rows // 10))

    def summarise(self, schema: Schema) -> tuple[SummaryReply, Summary] | None:
        """A summary of the table, encoded by this schema, with as many cells as it gives."""
        request = SummaryRequest(self.cells, "diag", 2.0, 0, calibration=False)
        reply = self.ask(replace(request, schema=schema.to_toml()))
        if isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary):
            return reply, reply.summary
        return None

    def finding(self, found: int, count: int) -> Finding:
        return Finding(found, count, self.answered, "" if self.answered > 1 else self.refused)


def by_proposals(
    attack: Callable[[Proposer, RawTable, Profile], Finding],
) -> Callable[[RawTable, Policy, np.random.Generator], Finding]:
    """An attack by a server that has asked for the profile of a table."""

    @wraps(attack)
    def run(source: RawTable, policy: Policy, rng: np.random.Generator) -> Finding:
        server = Proposer(source, policy)
        reply = server.ask(ColumnsRequest())
        if not isinstance(reply, ColumnsReply):
            return Finding(refused=server.refused)
        return attack(server, source, reply.profile)

    return run


@by_proposals
def count_revealed_rows(server: Proposer, source: RawTable, profile: Profile) -> Finding:
    """How many rows have a value that the profile reveals and that fewer than ten rows have."""
    revealed = np.zeros(source.table.rows, dtype=bool)
    for statistics in profile.columns:
        for value in infer_values(statistics):
            revealed |= rare_rows(source.table[statistics.name], value)
    return server.finding(int(revealed.sum()), source.table.rows)


def rare_rows(column: Column, value: str | float) -> NDArray[np.bool_]:
    """The rows with this value, if they are fewer than ten; otherwise none."""
    rows = _rows_with(column, value)
    return np.asarray(rows & (rows.sum() < _MIN_ROWS))


_LIES: dict[str, Callable[[ColumnStatistics], ColumnStatistics | None]] = {
    "a spread of 1e12": lambda s: replace(s, moments=(s.mean, 1e12 * (1 + s.sum_of_squares))),
    "an identifier": lambda s: replace(s, identifier=True),
    "no such column": lambda _: None,
}


def move_agreement(table: RawTable, policy: Policy, rng: np.random.Generator) -> Finding:
    """How many columns of a schema a lying site takes from three honest ones, or rescales.

    The honest sites are random thirds of the rows. The liar says that a column spreads by 1e12, is
    an identifier, or does not exist.
    """
    honest = {}
    for k, rows in enumerate(np.array_split(rng.permutation(table.table.rows), 3)):
        try:
            site = Client(table.take(np.sort(rows), f"site {k}"), policy)
            honest[f"site {k}"] = cast("ColumnsReply", site.answer(ColumnsRequest())).profile
        except FedwadError as error:
            return Finding(refused=str(error))
    agreed = agree(honest, majority=True)
    own, moved = honest["site 0"], set()
    for column in agreed.compared_columns:
        for lie in _LIES.values():
            told = (lie(s) if s.name == column.name and s.moments else s for s in own.columns)
            liar = replace(own, columns=tuple(s for s in told if s is not None))
            after = agree({**honest, "liar": liar}, majority=True)
            now = {one.name: one for one in after.compared_columns}.get(column.name)
            if now is None or not 0.5 < now.scale / column.scale < 2:
                moved.add(column.name)
    words = f"{pluralize(len(moved), 'column')} of {len(agreed.compared_columns)} moved by one liar"
    return Finding(len(moved), len(agreed.compared_columns), 1, words=words)


def infer_values(s: ColumnStatistics) -> list[str | float]:
    """Values that the column may hold, judging by what a profile says about it.

    Some hold only under an assumption, for example that all other values are equal.
    """
    guesses: list[str | float] = [*s.levels, *s.sentinels]
    if not s.moments:
        return guesses
    codes = [(float(v), n) for v, n in zip(s.levels, s.level_counts, strict=True) if _is_number(v)]
    sentinels = list(zip(s.sentinels, s.sentinel_counts, strict=True))
    for known in ([], codes, sentinels):  # values with their numbers of rows
        guesses += _remaining_values(s, known)
    guesses += _values_in_groups(s)
    if s.count > 1:  # the one value that differs, if all others are equal
        deviation = math.sqrt(s.sum_of_squares * (s.count - 1) / s.count)
        guesses += [s.mean - deviation, s.mean + deviation]
    return guesses


def _values_in_groups(s: ColumnStatistics) -> Iterator[float]:
    """Values that follow from expected order statistics, which are means over groups of m rows.

    Both values of an order statistic follow from its mean and its variance if there are two groups;
    with more groups, the one that differs does if all others are equal. Groups of all order
    statistics together hold all rows but those that are left over, and these follow from the
    moments if they are one or two.
    """
    m = len(s.order)
    if m < 2:
        return
    # The attacker knows the rule, and tries each minimum that fits.
    for least in range(2, _MIN_ROWS + 1):
        groups = count_dealt(s.count, m, least) // m
        if groups < 2:
            continue
        left = s.count - groups * m
        total = s.mean * s.count - groups * sum(s.order)
        squares = s.sum_of_squares + s.count * s.mean**2
        for mean, variance in zip(s.order, s.order_variance, strict=True):
            deviation = (groups - 1) * math.sqrt(variance)
            yield from (mean - deviation, mean + deviation)
            squares -= groups * ((groups - 1) * variance + mean**2)
        if left == 2:
            yield from _two_values(total, squares)
        elif left == 1:
            yield total


def _two_values(total: float, squares: float) -> tuple[float, float]:
    """Two values with this sum and this sum of squares."""
    difference = math.sqrt(max(0.0, 2.0 * squares - total * total))
    return (total - difference) / 2, (total + difference) / 2


def _remaining_values(s: ColumnStatistics, known: Sequence[tuple[float, int]]) -> Iterator[float]:
    """The other values of a column, if `known` has all but these, each with its number of rows.

    One or two remaining values follow from the moments. More are assumed to be equal.
    """
    remaining = s.count - sum(number for _, number in known)
    if remaining < 1:
        return
    total = s.mean * s.count - sum(value * number for value, number in known)
    squares = s.sum_of_squares + s.count * s.mean**2 - sum(v * v * number for v, number in known)
    if remaining == 2:
        yield from _two_values(total, squares)
    else:
        yield total / remaining


def _is_number(level: str) -> bool:
    try:
        return math.isfinite(float(level))
    except ValueError:
        return False


def _rows_with(column: Column, value: str | float, tolerance: float = 1e-6) -> NDArray[np.bool_]:
    if isinstance(value, str) and column.kind in ("category", "boolean"):
        code = column.levels.index(value) if value in column.levels else len(column.levels)
        return np.asarray(column.values == code)
    if column.kind not in ("number", "date") or (isinstance(value, str) and not _is_number(value)):
        return np.zeros(len(column), dtype=bool)
    max_error = tolerance * (float(np.nanstd(column.values)) or 1.0)
    return np.asarray(np.abs(column.values - float(value)) <= max_error)


def _agreed_schema(profile: Profile) -> Schema:
    """The one on which sites with this table would agree, taking any later value."""
    return agree({"site": profile}).for_new_data()


@by_proposals
def bisect_refusals(
    server: Proposer,
    source: RawTable,
    profile: Profile,
    columns: int = 3,
    steps: int = 60,
    limit: float = 1e100,
) -> Finding:
    """The largest value of some columns, if a schema is taken or not according to the values.

    A value that would be encoded above 1e100 cannot be; with centre c and scale w / 1e100 it is the
    one above c + w.

    60 halvings give all bits of a number.
    """
    schema, revealed = _agreed_schema(profile), np.zeros(source.table.rows, dtype=bool)
    numbers = [s for s in profile.columns if s.kind in ("number", "date") and s.moments]
    usable = [s for s in numbers if s.std > 0 and schema[s.name].kind == s.kind]
    for s in usable[:columns]:
        low, high = s.mean, s.mean + 1000 * s.std
        centre = s.mean - 1000 * s.std

        def takes(threshold: float, name: str = s.name, centre: float = centre) -> bool:
            change = {"centre": centre, "scale": (threshold - centre) / limit}
            server.summarise(schema.edited({name: change}))
            return server.code != "schema-refused"

        if takes(low) or not takes(high):
            continue
        _, high = halve(takes, low, high, steps)
        revealed |= rare_rows(source.table[s.name], round(high) if s.whole else high)
    return server.finding(int(revealed.sum()), source.table.rows)


@by_proposals
def find_present_values(server: Proposer, source: RawTable, profile: Profile) -> Finding:
    """Values of a column that few rows have, from cells in which one row has a value.

    A missing value is encoded as 0 and an indicator, so that a cell's mean holds the sum over the
    present values and their number. Large scales keep these columns from making cells of their own,
    so that some cells have one present value by chance. Columns whose moments the profile withholds
    are proposed, too: those of the encoded column would tell the same values.
    """
    schema, sparse, published = _agreed_schema(profile), {}, profile.by_name()
    for s in profile.columns:
        if s.kind == "number" and s.count and not s.identifier and (s.missing or not s.moments):
            scale = 100 * s.std if s.std > 0 else 1e3
            centre = s.mean if s.moments else 0.0
            sparse[s.name] = SchemaColumn(s.name, "number", centre, scale, missing="indicator")
    if not sparse:
        return Finding(skipped_reason="No column of numbers has missing values or is withheld.")
    proposed = replace(schema, columns=tuple(sparse.get(c.name, c) for c in schema.columns))
    reply = server.summarise(proposed)
    revealed = np.zeros(source.table.rows, dtype=bool)
    if reply is not None:
        for name, column in sparse.items():
            start, rows = proposed.feature_slice(name).start, source.table.rows
            values = [*_single_values(*reply, start, rows)]
            if not published[name].moments:
                # Its mean and variance tell two values if all others are equal, or small.
                mean = float(reply[1].mean[start])
                variance = float(reply[1].total_covariance()[start])
                deviation = math.sqrt(rows * variance * (rows - 1) / rows)
                values += [mean - deviation, mean + deviation]
            for value in values:
                revealed |= rare_rows(source.table[name], column.centre + column.scale * value)
    return server.finding(int(revealed.sum()), source.table.rows)


def _single_values(reply: SummaryReply, summary: Summary, place: int, rows: int) -> Iterator[float]:
    """Values of a feature of one row each: where it alone has a value in its cell, and where its
    group alone has an order statistic that is not 0."""
    counts = np.rint(summary.weights * summary.count)
    present = np.rint(counts * (1 - summary.means[:, place + 1]))
    yield from (counts * summary.means[:, place])[present == 1]
    if reply.order is None or len(reply.order.levels) < 2:
        return
    # The variance of the mean of one value and zeros is its square.
    dealt = {count_dealt(rows, reply.order.levels[-1], least) for least in range(2, 21)}
    for m, means, variances in zip(
        reply.order.levels[1:], reply.order.means[1:], reply.order.variances[1:], strict=True
    ):
        single = np.abs(variances[:, place] - means[:, place] ** 2) < 1e-9 * variances[:, place]
        yield from (mean * total / m for mean in means[single, place] for total in dealt)
        for total in dealt:  # rows that are left over, of which one may have a value
            yield reply.order.means[0][0, place] * rows - means[:, place].sum() * total / m


@by_proposals
def ask_for_persons(
    server: Proposer, source: RawTable, profile: Profile, known: int = 5
) -> Finding:
    """Whether named persons, or classes of the label, are rows of a cell.

    The attacker knows some identifiers and proposes them as levels with a large weight; and it
    proposes to compare the label column, which the site's operator kept out.
    """
    schema = _agreed_schema(profile)
    hidden = [
        s for s in profile.columns if s.kind == "label" or (s.identifier and s.kind == "category")
    ]
    if not hidden:
        return Finding(skipped_reason="No compared column has identifiers, and there is no label.")
    found = 0
    for s in hidden:
        column = source.table[s.name]
        names = column.levels if column.kind == "category" else ("0", "1", "2")
        chosen = (*names[:known], "other")
        proposed = SchemaColumn(s.name, "category", levels=chosen, weight=50.0, missing="level")
        others = [one for one in schema.columns if one.name != s.name]
        columns = tuple(sorted([*others, proposed], key=lambda one: one.name))
        asked = replace(schema, columns=columns)
        answer = server.summarise(asked)
        if answer is not None:
            start = asked.feature_slice(s.name).start
            shares = answer[1].mean[start : start + len(chosen) - 1] / proposed.on_value
            found += round(source.table.rows * float(shares.sum()))
    return server.finding(found, source.table.rows)
