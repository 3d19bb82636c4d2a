"""A schema for data that are still to come."""

from __future__ import annotations

from typing import Any

from fedwad.tables import Schema

__all__ = ["for_new_data"]

_OTHER = "other"


def for_new_data(schema: Schema) -> Schema:
    """A copy of the schema with a place for missing values and new levels in every column.

    Values that go missing, and levels that were never seen, are drift to be found, and no reason to
    refuse a table. Of the rules for missing values (`SchemaColumn.missing`), "refuse" raises an
    error, "level" makes them one more level of a category, and "indicator" adds a feature that is 1
    where a number is missing.
    """
    changes: dict[str, dict[str, Any]] = {}
    for column in schema.used:
        category = column.kind == "category"
        if column.missing == "refuse":
            changes[column.name] = {"missing": "level" if category else "indicator"}
        if category and _OTHER not in column.levels:
            changes.setdefault(column.name, {})["levels"] = (*column.levels, _OTHER)
    return schema.edited(changes)  # a copy
