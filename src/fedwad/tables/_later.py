"""A schema for data that are still to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedwad.tables._schema_column import OTHER, SchemaColumn

__all__ = ["changes_for_new_data"]


def changes_for_new_data(columns: Sequence[SchemaColumn]) -> dict[str, dict[str, Any]]:
    """Changes by which every compared column can encode missing values and new levels."""
    changes: dict[str, dict[str, Any]] = {}
    for column in columns:
        category = column.kind == "category"
        if column.missing == "refuse":
            changes[column.name] = {"missing": "level" if category else "indicator"}
        if category and OTHER not in column.levels:
            changes.setdefault(column.name, {})["levels"] = (*column.levels, OTHER)
    return changes
