"""One column of a schema: how it is encoded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.tables._table import first_repeated, similar_name_hint

__all__ = [
    "KINDS",
    "MISSING_RULES",
    "OTHER",
    "Kind",
    "SchemaColumn",
    "accept_new_data",
    "edit_column",
]

Kind = Literal["number", "category", "boolean", "date", "label", "ignored"]
KINDS: tuple[str, ...] = ("number", "category", "boolean", "date", "label", "ignored")

#: The level that stands for all that are not listed.
OTHER = "other"
_MISSING = "missing"
_MAX_SHOWN = 16  # characters of a level in `SchemaColumn.becomes`
#: What may become of a missing value, by the kind of column.
MISSING_RULES: dict[str, tuple[str, ...]] = {
    "number": ("refuse", "indicator", "mean"),
    "date": ("refuse", "indicator", "mean"),
    "boolean": ("refuse", "indicator", "mean"),
    "category": ("refuse", "level", "other"),
    "label": ("refuse",),
    "ignored": ("refuse",),
}


@dataclass(frozen=True)
class SchemaColumn:
    """How a column is encoded.

    Parameters
    ----------
    name : of the column in the tables
    kind : "number", "category", "boolean", "date", "label" or "ignored"
    centre, scale : of numbers, dates and booleans, which become (x - centre) / scale
    levels : of a category, each an encoded column; with "other" among them, levels that are not
        listed become that one, and without it they are refused
    weight : lambda of a category, the squared distance of two different levels
    missing : what a missing value becomes. For numbers, dates and booleans: "indicator" (the
        centre, and 1 in an additional encoded column), "mean" (the centre) or "refuse" (an error).
        For categories: "level" (a level of its own), "other" or "refuse".
    missing_values : values of the column that stand for a missing one, such as 0 or -9
    range : smallest and largest value that numbers or dates can have, from public knowledge;
        agreeing on a schema under differential privacy needs it
    reason : why a column is ignored
    """

    name: str
    kind: Kind
    centre: float = 0.0
    scale: float = 1.0
    levels: tuple[str, ...] = ()
    weight: float = 2.0
    missing: str = "refuse"
    missing_values: tuple[str, ...] = ()
    range: tuple[float, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        of_column = f"of column '{self.name}'"
        rules = MISSING_RULES[check_choice(self.kind, f"kind {of_column}", KINDS)]
        if len(rules) > 1:
            check_choice(self.missing, f"missing {of_column}", rules)
        elif self.missing != "refuse":
            raise InputError(
                f"missing {of_column} is {self.missing!r}; leave it out of a {self.kind}."
            )
        for key, value in (("scale", self.scale), ("weight", self.weight)):
            if not math.isfinite(value) or value <= 0.0:
                raise InputError(f"{key} {of_column} is {value}; give a number above 0.")
        if not math.isfinite(self.centre):
            raise InputError(f"centre {of_column} is {self.centre}; give a finite number.")
        self._check_range(of_column)
        self._check_levels(of_column)

    def _check_levels(self, of_column: str) -> None:
        if self.kind == "category" and not self.levels:
            raise InputError(f"levels {of_column} are missing; list them, or make it ignored.")
        repeated = first_repeated(self.levels)
        if repeated is not None:
            raise InputError(f"levels {of_column} have '{repeated}' twice; keep one.")

    def _check_range(self, of_column: str) -> None:
        if not self.range:
            return
        start = f"range {of_column} is {list(self.range)}"
        if self.kind not in ("number", "date"):
            raise InputError(f"{start}; leave it out of a {self.kind}.")
        ordered = len(self.range) == 2 and self.range[0] < self.range[1]
        if not ordered or not all(map(math.isfinite, self.range)):
            raise InputError(f"{start}; give the smallest and the largest value.")

    @property
    def _is_scaled(self) -> bool:
        """Whether it becomes (x - centre) / scale."""
        return self.kind in ("number", "date", "boolean")

    @property
    def on_value(self) -> float:
        """The value sqrt(lambda / 2) of the feature of a row's level; other levels are 0."""
        return math.sqrt(self.weight / 2.0)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The names of the encoded columns that it becomes."""
        missing = (f"{self.name}={_MISSING}",) if self.missing in ("indicator", "level") else ()
        if self._is_scaled:
            return (self.name, *missing)
        if self.kind == "category":
            return (*(f"{self.name}={level}" for level in self.levels), *missing)
        return ()

    @property
    def width(self) -> int:
        """How many encoded columns it becomes."""
        return len(self.encoded_names)

    @property
    def middle(self) -> tuple[float, ...]:
        """The mean of its encoded values if all levels but "other" are equally frequent."""
        if self.kind != "category":
            return (0.0,) * self.width
        frequent = [level for level in self.levels if level != OTHER] or [OTHER]
        mean = self.on_value / len(frequent)
        means = tuple(mean if level in frequent else 0.0 for level in self.levels)
        return means + (0.0,) * (self.width - len(means))

    @property
    def becomes(self) -> str:
        """How it is encoded, or why it is ignored, as one line of text."""
        if self._is_scaled:
            unit = " days since 1970" if self.kind == "date" else ""
            sign = "+" if self.centre < 0 else "-"
            return f"(x {sign} {abs(self.centre):.6g}) / {self.scale:.6g}{unit}"
        if self.kind == "category":
            shown = ", ".join(map(_shorten, self.levels[:6]))
            more = ", ..." if len(self.levels) > 6 else ""
            return f"{len(self.levels)} levels ({shown}{more}), lambda {self.weight:.4g}"
        return self.reason

    def describe(self, mean: NDArray[np.float64]) -> dict[str, float]:
        """A mean of this column's encoded values in its own units, or as fractions of levels."""
        if self.kind == "category":
            names = (*self.levels, *((_MISSING,) if self.missing == "level" else ()))
            fractions = (mean / self.on_value).tolist()
            return dict(zip(names, fractions, strict=True))
        missing = float(mean[1]) if self.missing == "indicator" else 0.0  # fraction of rows
        present = 1.0 - missing
        value = self.centre + self.scale * float(mean[0]) / present if present > 0 else math.nan
        return {"mean": value, **({_MISSING: missing} if self.missing == "indicator" else {})}


def _shorten(level: str) -> str:
    return level if len(level) <= _MAX_SHOWN else f"{level[: _MAX_SHOWN - 3]}..."


def edit_column(column: SchemaColumn, changes: Mapping[str, Any]) -> SchemaColumn:
    """The column with some fields changed.

    If the new kind does not have the column's rule for missing values, the rule becomes "refuse".
    """
    rules = MISSING_RULES.get(changes.get("kind", column.kind), ())
    reset = {} if column.missing in rules else {"missing": "refuse"}
    try:
        return replace(column, **{**reset, **changes})
    except TypeError:
        keys = [field.name for field in fields(SchemaColumn)]
        wrong = next((key for key in changes if key not in keys), None)
        if wrong is None:
            raise InputError(
                f"A change of column '{column.name}' has a value of the wrong type; give"
                " numbers for centre and scale, and lists of texts for levels."
            ) from None
        raise InputError(
            f"A change of column '{column.name}' has an unknown key '{wrong}'"
            f"{similar_name_hint(wrong, keys)}; its keys are {', '.join(keys)}."
        ) from None


def accept_new_data(column: SchemaColumn) -> SchemaColumn:
    """The column with a rule for missing values, and with the level "other" if it has levels."""
    if not column.width:
        return column
    category = column.kind == "category"
    added = (OTHER,) if category and OTHER not in column.levels else ()
    rule = "level" if category else "indicator"
    missing = rule if column.missing == "refuse" else column.missing
    return replace(column, levels=(*column.levels, *added), missing=missing)
