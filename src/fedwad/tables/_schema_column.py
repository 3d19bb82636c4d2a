"""What one column of a table becomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.tables._table import first_repeated, nearest_name

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
_SHOWN = 16  # characters of a level in a table of columns
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
    """What a column becomes, and its numbers.

    Parameters
    ----------
    name : of the column in the tables
    kind : "number", "category", "boolean", "date", "label" or "ignored"
    centre, scale : of numbers, dates and booleans, which become (x - centre) / scale
    levels : of a category, each an encoded column; with "other" among them, levels that are not
        listed become that one, and without it they are refused
    weight : lambda of a category, the squared distance of two different levels
    missing : for numbers "indicator" (the centre, and an encoded column that says so), "mean" (the
        centre) or "refuse"; for categories "level" (one of its own), "other" or "refuse"
    missing_values : values of the column that stand for a missing one, such as 0 or -9
    range : smallest and largest value that numbers or dates can have, from public knowledge; a
        schema under differential privacy needs it
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
        what = f"of column '{self.name}'"
        check_choice(self.kind, f"kind {what}", KINDS)
        if len(MISSING_RULES[self.kind]) > 1:
            check_choice(self.missing, f"missing {what}", MISSING_RULES[self.kind])
        elif self.missing != "refuse":
            raise InputError(f"missing {what} is {self.missing!r}; leave it out of a {self.kind}.")
        for key, value in (("scale", self.scale), ("weight", self.weight)):
            if not math.isfinite(value) or value <= 0.0:
                raise InputError(f"{key} {what} is {value}; give a number above 0.")
        if not math.isfinite(self.centre):
            raise InputError(f"centre {what} is {self.centre}; give a finite number.")
        self._check_range(what)
        self._check_levels(what)

    def _check_levels(self, what: str) -> None:
        if self.kind == "category" and not self.levels:
            raise InputError(f"levels {what} are missing; list them, or make it ignored.")
        repeated = first_repeated(self.levels)
        if repeated is not None:
            raise InputError(f"levels {what} have '{repeated}' twice; keep one.")

    def _check_range(self, what: str) -> None:
        if not self.range:
            return
        if self.kind not in ("number", "date"):
            raise InputError(f"range {what} is {list(self.range)}; leave it out of a {self.kind}.")
        ordered = len(self.range) == 2 and self.range[0] < self.range[1]
        if not ordered or not all(map(math.isfinite, self.range)):
            raise InputError(
                f"range {what} is {list(self.range)}; give the smallest and the largest value."
            )

    @property
    def numeric(self) -> bool:
        """Whether it has a centre and a scale."""
        return self.kind in ("number", "date", "boolean")

    @property
    def on_value(self) -> float:
        """The value sqrt(lambda / 2) of the feature of a row's level; other levels are 0."""
        return math.sqrt(self.weight / 2.0)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The encoded columns that it becomes."""
        missing = (f"{self.name}={_MISSING}",) if self.missing in ("indicator", "level") else ()
        if self.numeric:
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
        """Where its encoded values are on average, if all levels but "other" count equally."""
        if self.kind != "category":
            return (0.0,) * self.width
        listed = [level for level in self.levels if level != OTHER] or [OTHER]
        share = self.on_value / len(listed)
        middle = tuple(share if level in listed else 0.0 for level in self.levels)
        return middle + (0.0,) * (self.width - len(middle))

    @property
    def becomes(self) -> str:
        """One line about it."""
        if self.numeric:
            unit = " days since 1970" if self.kind == "date" else ""
            sign = "+" if self.centre < 0 else "-"
            return f"(x {sign} {abs(self.centre):.6g}) / {self.scale:.6g}{unit}"
        if self.kind == "category":
            shown = ", ".join(map(_shorten, self.levels[:6]))
            more = ", ..." if len(self.levels) > 6 else ""
            return f"{len(self.levels)} levels ({shown}{more}), lambda {self.weight:.4g}"
        return self.reason

    def describe(self, mean: NDArray[np.float64]) -> dict[str, float]:
        """A mean of this column's encoded values in own units, or as shares of levels."""
        if self.kind == "category":
            names = (*self.levels, *((_MISSING,) if self.missing == "level" else ()))
            shares = (mean / self.on_value).tolist()
            return dict(zip(names, shares, strict=True))
        missing = float(mean[1]) if self.missing == "indicator" else 0.0
        present = 1.0 - missing
        value = self.centre + self.scale * float(mean[0]) / present if present > 0 else math.nan
        return {"mean": value, **({_MISSING: missing} if self.missing == "indicator" else {})}


def _shorten(level: str) -> str:
    return level if len(level) <= _SHOWN else f"{level[: _SHOWN - 3]}..."


def edit_column(column: SchemaColumn, changes: Mapping[str, Any]) -> SchemaColumn:
    """The column with some fields changed.

    A rule for missing values that the new kind does not have goes back to "refuse".
    """
    rules = MISSING_RULES.get(changes.get("kind", column.kind), ())
    reset = {} if column.missing in rules else {"missing": "refuse"}
    try:
        return replace(column, **{**reset, **changes})
    except TypeError:
        keys = [field.name for field in fields(SchemaColumn)]
        wrong = next(key for key in changes if key not in keys)
        raise InputError(
            f"A change of column '{column.name}' has an unknown key '{wrong}'"
            f"{nearest_name(wrong, keys)}; its keys are {', '.join(keys)}."
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
