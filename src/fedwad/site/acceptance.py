"""Which schemas a site takes from outside: those that follow from what it published.

Whether a schema is accepted depends on the site's profile and on settings of its operator, never on
values that the profile does not reveal, and a refusal is one constant sentence. So a server learns
nothing by trying schemas.
"""

from __future__ import annotations

import logging
import math

import numpy as np

from fedwad._words import to_printable
from fedwad.errors import InputError, PolicyError
from fedwad.site.raw import RawTable
from fedwad.tables import OTHER, TRUTH, ColumnStatistics, Profile, Schema, SchemaColumn
from fedwad.tables.agreement import SPREAD
from fedwad.transport import Floats

_log = logging.getLogger("fedwad.client")


def refusal() -> PolicyError:
    """The one error for all schemas that a site does not take."""
    return PolicyError(
        "This site does not take the schema, because it does not follow from what the site"
        " publishes about its columns; agree on one with this site, or ask its operator.",
        "schema-refused",
    )


def accept_schema(
    text: str,
    raw: RawTable,
    profile: Profile,
    spread: float = SPREAD,
    smallest_scale: float = 1e-9,
    most_numbers: int = 1 << 24,
    numbers_per_column: int = 16,
    widest: int = 4096,
) -> Schema:
    """The schema in this text; PolicyError "schema-refused" unless it follows from the profile.

    Parameters
    ----------
    text : what a schema file would hold
    raw, profile : the site's table, and what the site publishes about it
    spread : by how much the scale of a number may differ from the site's own standard deviation,
        and the square of the distance of two levels from that of a category of two equal levels.
        Sites are compared to find out, among other things, that one of them writes grams and
        another milligrams, a factor of a thousand
    smallest_scale : of a number whose standard deviation the site withholds. With scales from here
        on, no value below 1e90 is clipped, so that no threshold of the server's choice is
    most_numbers, numbers_per_column : limits on the encoded table, rows times width: 128 MiB, or as
        many times the size of the table itself, which the site holds anyway, and two for each level
        that it publishes. A summary needs about four times this memory
    widest : limit on the width, or what the site's own columns and levels make of it, if that is
        more: a covariance has the square of it, 128 MiB
    """
    try:
        schema = Schema.from_toml(text, "The schema")
    except (InputError, RecursionError) as error:
        _log.warning("%s", to_printable(str(error)))
        raise refusal() from None
    own_width = sum(numbers_per_column + 2 * len(column.levels) for column in profile.columns)
    limit = max(most_numbers, own_width * profile.rows)
    fits = profile.rows * schema.width <= limit and schema.width <= max(widest, own_width)
    # A column that the site does not have is as if all its values were missing.
    names = [column.name for column in schema.compared_columns]
    absent = {name: ColumnStatistics(name, "empty", missing=profile.rows) for name in names}
    published = absent | profile.by_name()
    hidden = (raw.label, None if raw.unit is None else raw.unit.name)
    accepted = (schema.width > 0 and fits) and all(
        column.name not in hidden
        and not column.missing_values
        and _follows(column, published[column.name], spread, smallest_scale)
        for column in schema.compared_columns
    )
    if not accepted:
        raise refusal()
    return schema


def _follows(
    column: SchemaColumn, own: ColumnStatistics, spread: float, smallest_scale: float
) -> bool:
    """Whether the site would read a column so: kind, missing values, levels and scale."""
    if column.kind not in _kinds(own) or (own.missing and column.missing == "refuse"):
        return False
    if column.kind == "category":
        return OTHER in column.levels and column.weight * _gini(own) <= 2.0 * spread
    std = math.sqrt(_gini(own) / 2.0) if column.kind == "boolean" else own.std
    if not math.isfinite(std):  # withheld
        return column.scale >= smallest_scale
    return std == 0.0 or std / spread <= column.scale <= std * spread


def _kinds(own: ColumnStatistics) -> tuple[str, ...]:
    """The kinds as which a column may be encoded, judging by its published statistics."""
    if own.kind == "empty":  # without a value, so there is nothing to reveal
        return "number", "category", "boolean", "date"
    if own.identifier and own.kind in ("number", "category"):
        return ()
    complete = bool(own.levels) and own.other == 0  # whether all its values are listed
    if own.kind == "number":
        is_truth = complete and set(own.levels) <= {"0", "1"}
        # Values that no listed level has become "other", so codes without one reveal nothing.
        is_category = bool(own.levels) or own.may_be_codes
        return ("number", *(("category",) * is_category), *(("boolean",) * is_truth))
    if own.kind == "category":
        is_truth = complete and all(level.lower() in TRUTH for level in own.levels)
        return ("category", *(("boolean",) * is_truth))
    return {"boolean": ("boolean", "number", "category"), "date": ("date",)}.get(own.kind, ())


def _gini(own: ColumnStatistics) -> float:
    """The chance that two random rows differ in their published levels."""
    counts = [*own.level_counts, own.other, own.missing]
    total = sum(counts)
    return 1.0 - sum((count / total) ** 2 for count in counts) if total else 0.0


def are_units(
    scale: Floats, profile: Profile, spread: float = SPREAD, smallest_scale: float = 1e-9
) -> bool:
    """Whether features may be divided by this scale for block means, judging by the profile.

    A scale above the site's standard deviation makes columns vary less, which reveals nothing. The
    pooled one of all sites is below it by no more than the root of the site's share of all rows.
    """
    std = np.array([column.std for column in profile.columns])
    least = np.where(np.isnan(std), smallest_scale, std / spread)
    return len(scale) == len(least) and bool((scale >= least).all())


def same_encoding(text: str, own: Schema) -> bool:
    """Whether a text is a schema that encodes tables as the site's own schema does."""
    try:
        return Schema.from_toml(text).compared_columns == own.compared_columns
    except (InputError, RecursionError):
        return False
