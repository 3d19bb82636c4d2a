"""Schema files, in TOML: people can read and edit them; an error names the mistake in a file."""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from fedwad._files import toml_value
from fedwad.errors import InputError
from fedwad.tables._schema_column import KINDS, MISSING_RULES, OTHER, SchemaColumn
from fedwad.tables._table import similar_name_hint

__all__ = ["parse_schema", "write_schema"]

_VERSION = 1  # of the format of schema files
_RANGE_HINT = "range = [0, 120], the smallest and the largest value that is possible"
_HEAD = """\
# What each column of a table becomes when sites are compared.
# kind: number, category, boolean, date, label or ignored.
# Numbers, dates (in days since 1970) and booleans become (x - centre) / scale.
# A category becomes one column per level; two different levels are `weight` apart in squares.
# Levels that are not listed become "other"; without "other" among the levels they are refused.
# missing: "indicator", "mean" or "refuse" for numbers; "level", "other" or "refuse" for categories.
# missing_values: values that stand for a missing one, such as ["0"] or ["-9", "99"].
# range: smallest and largest value that is possible; centre and scale follow if they are left out.
"""
_SCALED_KEYS = ("kind", "centre", "scale", "missing", "missing_values")
_KEYS: dict[str, tuple[str, ...]] = {
    "number": (*_SCALED_KEYS, "range"),
    "date": (*_SCALED_KEYS, "range"),
    "boolean": _SCALED_KEYS,
    "category": ("kind", "levels", "weight", "missing", "missing_values"),
    "label": ("kind",),
    "ignored": ("kind", "reason"),
}
_REQUIRED: dict[str, tuple[str, ...]] = {
    "number": ("centre", "scale"),
    "date": ("centre", "scale"),
    "category": ("levels",),
}


def write_schema(columns: Iterable[SchemaColumn]) -> str:
    """The columns as the text of a schema file."""
    parts = [_HEAD, f"version = {_VERSION}\n"]
    for column in columns:
        lines = [f"[columns.{toml_value(column.name)}]"]
        for key in _KEYS[column.kind]:
            value = getattr(column, key)
            if value not in ((), ""):
                lines.append(f"{key} = {_to_toml(value)}")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _to_toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_to_toml, value)) + "]"
    return toml_value(value if isinstance(value, str) else float(value))


def parse_schema(text: str, name: str) -> tuple[SchemaColumn, ...]:
    """The columns of a schema file; InputError names the column and the key that are wrong."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = " ".join(str(error).split())
        raise InputError(f"{name} is not valid TOML ({where}); correct that place.") from None
    _check_head(content, name)
    return tuple(_parse_column(column, value, name) for column, value in content["columns"].items())


def _check_head(content: Mapping[str, Any], name: str) -> None:
    for key in content:
        if key not in ("version", "columns"):
            near = similar_name_hint(key, ("version", "columns"))
            raise InputError(f"{name} has an unknown key '{key}'{near}; remove or correct it.")
    if content.get("version") != _VERSION:
        shown = content.get("version", "no version")
        raise InputError(
            f"{name} has version {shown!r} where {_VERSION} is read; is it a schema file?"
        )
    if not isinstance(content.get("columns"), dict) or not content["columns"]:
        raise InputError(f"{name} describes no columns; add a section such as [columns.age].")


def _parse_column(column: str, content: Any, name: str) -> SchemaColumn:
    subject = f"Column '{column}' of {name}"  # of the sentence of an error
    if not isinstance(content, dict):
        raise InputError(
            f"{subject} is not a section; write [columns.{toml_value(column)}] above its keys."
        )
    kind = content.get("kind")
    if kind not in KINDS:
        near = similar_name_hint(kind, KINDS) if isinstance(kind, str) else ""
        problem = "has no kind" if kind is None else f"has the kind {kind!r}{near}"
        raise InputError(f"{subject} {problem}; choose one of {', '.join(KINDS)}.")
    _check_keys(kind, content, subject)
    values = {key: _check_value(key, value, subject) for key, value in content.items()}
    values = _default_values(kind, values) | values
    if "missing" in values and values["missing"] not in MISSING_RULES[kind]:
        raise InputError(
            f"{subject} has missing = {values['missing']!r}; choose one of"
            f" {', '.join(MISSING_RULES[kind])}."
        )
    try:
        return SchemaColumn(name=column, **values)
    except InputError as error:
        raise InputError(f"In {name}, {error}") from None


def _check_keys(kind: str, content: Mapping[str, Any], subject: str) -> None:
    allowed = _KEYS[kind]
    for key in content:
        if key not in allowed:
            near = similar_name_hint(key, allowed)
            raise InputError(
                f"{subject} has a key '{key}'{near} that a {kind} does not have; its keys are"
                f" {', '.join(allowed)}."
            )
    for key in _REQUIRED.get(kind, ()):
        if key not in content and "range" not in content:
            or_range = f", or a range ({_RANGE_HINT})" if "range" in allowed else ""
            raise InputError(f"{subject} has no {key}; a {kind} needs one{or_range}.")


def _default_values(kind: str, values: Mapping[str, Any]) -> dict[str, float]:
    """What a file may leave out.

    Centre and scale are those of values uniform over their range, or of equally frequent booleans;
    the weight is that of equally frequent levels.
    """
    if kind == "boolean":
        return {"centre": 0.5, "scale": 0.5}
    if kind == "category":
        levels = max(2, len([level for level in values["levels"] if level != OTHER]))
        return {"weight": 2.0 * levels / (levels - 1.0)}
    if len(values.get("range", ())) == 2:
        low, high = values["range"]
        return {"centre": (low + high) / 2.0, "scale": (high - low) / math.sqrt(12.0) or 1.0}
    return {}


def _check_value(key: str, value: Any, subject: str) -> Any:
    """The value in the form that `SchemaColumn` takes; InputError if its type is wrong."""
    if key in ("centre", "scale", "weight"):
        if not _is_finite(value):
            raise InputError(f"{subject} has {key} = {value!r}; give a finite number.")
        return float(value)
    if key == "range":
        if not isinstance(value, list) or len(value) != 2 or not all(map(_is_finite, value)):
            raise InputError(f"{subject} has range = {value!r}; write {_RANGE_HINT}.")
        return tuple(map(float, value))
    if key in ("levels", "missing_values"):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(f'{subject} has {key} that are not a list of texts; write ["a", "b"].')
        return tuple(value)
    if not isinstance(value, str):
        raise InputError(f"{subject} has {key} = {value!r}; give a text in quotes.")
    return value


def _is_finite(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max
