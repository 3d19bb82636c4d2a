"""One column of a schema: how it is encoded."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.tables.table import first_repeated

Kind = Literal["number", "category", "boolean", "date", "label", "ignored"]
KINDS: tuple[str, ...] = get_args(Kind)

#: The level that stands for all that are not listed.
OTHER = "other"
_MISSING = "missing"
#: What may become of a missing value, by the kind of column.
MISSING_RULES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("number", "date", "boolean"), ("refuse", "indicator", "mean")),
    "category": ("refuse", "level", "other"),
    **dict.fromkeys(("label", "ignored"), ("refuse",)),
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
            self._refuse("missing", f"is {self.missing!r}; leave it out of a {self.kind}")
        limits = list(self.range)
        if limits and self.kind not in ("number", "date"):
            self._refuse("range", f"is {limits}; leave it out of a {self.kind}")
        ordered = len(limits) == 2 and limits[0] < limits[1]
        if limits and not (ordered and all(map(math.isfinite, limits))):
            self._refuse("range", f"is {limits}; give the smallest and the largest value")
        for key in ("scale", "weight"):
            if not 0.0 < getattr(self, key) < math.inf:
                self._refuse(key, f"is {getattr(self, key)}; give a number above 0")
        if not math.isfinite(self.centre):
            self._refuse("centre", f"is {self.centre}; give a finite number")
        if self.kind == "category" and not self.levels:
            self._refuse("levels", "are missing; list them, or make it ignored")
        repeated = first_repeated(self.levels)
        if repeated is not None:
            self._refuse("levels", f"have '{repeated}' twice; keep one")

    def _refuse(self, key: str, problem: str) -> NoReturn:
        raise InputError(f"{key} of column '{self.name}' {problem}.", "bad-schema")

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
            some = self.levels[:6]
            shown = ", ".join(v if len(v) <= 16 else f"{v[:13]}..." for v in some)
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


def accept_missing(
    column: SchemaColumn, number: str = "indicator", category: str = "level"
) -> SchemaColumn:
    """The column with a rule for missing values."""
    rule = category if column.kind == "category" else number
    return replace(column, missing=rule) if column.missing == "refuse" else column


def accept_new_data(
    column: SchemaColumn, number: str = "indicator", category: str = "level"
) -> SchemaColumn:
    """The column with a rule for missing values, and with the level "other" if it has levels."""
    if not column.width:
        return column
    added = (OTHER,) if column.kind == "category" and OTHER not in column.levels else ()
    return accept_missing(replace(column, levels=(*column.levels, *added)), number, category)
