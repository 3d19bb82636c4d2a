"""What a result keeps to explain itself: a few numbers for each feature and pair of sites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._files import read_fields, to_plain
from fedwad.compare.task import Pair
from fedwad.errors import InputError
from fedwad.statistics import LabelledSummary, Summary
from fedwad.statistics.summaries import feature_variances
from fedwad.tables import Schema, SchemaColumn
from fedwad.transport import Floats


@dataclass(frozen=True, eq=False)
class Moments:
    """Rows, mean and standard deviations (population form) of the features of one site.

    `std` is None if only the mean square of the standard deviations is known.
    """

    count: int
    mean: Floats
    std: Floats | None


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name, kind : as in the schema; without a schema each feature is a column of kind "number"
    feature_slice : which features of a row encode the column
    on_values : one number for each of these features. Some features are either 0 or one fixed
        value, such as that of a level of a category; then it is that value. Otherwise it is nan.
    entry : the column's entry in the schema, if there is one
    """

    name: str
    kind: str
    feature_slice: slice
    on_values: tuple[float, ...]
    entry: SchemaColumn | None = None

    def describe(self, moments: Moments) -> dict[str, float]:
        """The column at one site in its own units.

        A number or a date has its mean, its standard deviation (divisor n - 1) and the fraction of
        missing values, where they are known, a boolean the same without the standard deviation; a
        category has the fraction of each level, and of missing values. All but the last are about
        the values that are present. Dates are in days.
        """
        mean = moments.mean[self.feature_slice]
        std = None if moments.std is None else moments.std[self.feature_slice]
        if self.entry is None:
            values = {"mean": float(mean[0])}
            scale, missing = 1.0, 0.0
        else:
            values = self.entry.describe(mean)
            scale, missing = self.entry.scale, values.get("missing", 0.0)
        present = 1.0 - missing
        if self.kind == "category":
            whole = present if present > 0 else math.nan
            return {
                level: min(max(fraction / (1.0 if level == "missing" else whole), 0.0), 1.0)
                for level, fraction in values.items()
            }
        if std is None or self.kind == "boolean":
            return values
        rows, spread = moments.count * present, math.nan
        if rows > 1:
            square = (float(std[0]) ** 2 + float(mean[0]) ** 2) / present
            square -= (float(mean[0]) / present) ** 2
            spread = scale * math.sqrt(max(square, 0.0) * rows / (rows - 1))
        return {"mean": values.pop("mean"), "std": spread} | values


def build_columns(
    dimension: int, features: Sequence[str] | None = None, schema: Schema | None = None
) -> tuple[Column, ...]:
    """The columns behind the features of a distance; numbered from 1 where nothing names them."""
    if schema is not None:
        if schema.width != dimension:
            raise InputError(
                f"The schema encodes {schema.width} features and the distance has {dimension}; give"
                " the schema that the sites used.",
                "different-schema",
            )
        columns = []
        for entry in schema.compared_columns:
            if entry.kind == "category":
                on_values = (entry.on_value,) * entry.width
            else:
                first = 1 / entry.scale if entry.kind == "boolean" else math.nan
                on_values = (first, *((1.0,) * (entry.width - 1)))
            where = schema.feature_slice(entry.name)
            columns.append(Column(entry.name, entry.kind, where, on_values, entry))
        return tuple(columns)
    names = [f"column {k + 1}" for k in range(dimension)] if features is None else list(features)
    if len(names) != dimension:
        raise InputError(
            f"{len(names)} names came for {dimension} columns; give one for each column.",
            "wrong-shape",
        )
    return tuple(
        Column(str(name), "number", slice(k, k + 1), (math.nan,)) for k, name in enumerate(names)
    )


def column_index(columns: Sequence[Column]) -> NDArray[np.int64]:
    """The index of the column that each feature belongs to."""
    widths = [column.feature_slice.stop - column.feature_slice.start for column in columns]
    return np.repeat(np.arange(len(columns)), widths)


def add_class_parts(squares: Floats, d: int) -> Floats:
    """The parts of d features, each with the parts of its class means and class spreads added.

    The last axis of `squares` has features, and for labelled data class means and class spreads.
    """
    if squares.shape[-1] == d:
        return squares
    spreads = squares[..., 2 * d :].reshape(*squares.shape[:-1], d, -1).sum(axis=-1)
    return np.asarray(squares[..., :d] + squares[..., d : 2 * d] + spreads)


def moments_of(summary: Summary | LabelledSummary, features: int | None = None) -> Moments:
    """The moments of a summary's first `features` features; class statistics come after them."""
    plain = summary.merged if isinstance(summary, LabelledSummary) else summary
    d = plain.dimension if features is None else features
    total = plain.total_covariance()
    variances = np.maximum(feature_variances(total, plain.dimension), 0.0)[:d]
    return Moments(plain.count, plain.mean[:d], np.sqrt(variances) if total.ndim else None)


@dataclass(frozen=True, eq=False)
class PairEvidence:
    """What each feature and column adds to the distance of two sites; None where it is unknown.

    Attributes
    ----------
    contributions : the part of each feature in the squared distance between populations, which may
        be negative by chance
    dependence : what correlations add to that square
    pvalues : the p-value of each column, adjusted for the number of columns
    squares : the part of each feature in the squared distance between samples
    """

    contributions: Floats | None = None
    dependence: float | None = None
    pvalues: Floats | None = None
    squares: Floats | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """Moments of all sites, and what each feature and column adds to the distances of their pairs.

    Attributes
    ----------
    moments : Moments of each site
    pairs : triples of two sites i < j and what is known of them
    features, schema : names of the features, and the schema that encoded tables, if known
    """

    moments: tuple[Moments, ...]
    pairs: tuple[tuple[int, int, PairEvidence], ...] = ()
    features: tuple[str, ...] | None = None
    schema: Schema | None = None

    def __post_init__(self) -> None:
        """Raise ValueError unless arrays and names fit the moments."""
        d, sites = self.dimension, range(len(self.moments))
        known = [part for one in self.moments for part in (one.mean, one.std) if part is not None]
        if {part.shape for part in known} != {(d,)}:
            raise ValueError("sites differ in features")
        for i, j, one in self.pairs:
            if not {i, j} <= set(sites):
                raise ValueError("pairs of other sites")
            parts = one.contributions, one.squares
            if any(part is not None and part.shape != (d,) for part in parts):
                raise ValueError("parts of other features")
            if one.pvalues is not None and one.pvalues.ndim != 1:
                raise ValueError("p-values of other columns")
        if self.features is not None and len(self.features) != d:
            raise ValueError("names of other features")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; conflicts of the schema are not saved."""
        own = {name: to_plain(getattr(self, name)) for name in ("moments", "pairs", "features")}
        return own | {"schema": None if self.schema is None else self.schema.to_toml()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Evidence:
        """Read what `to_dict` wrote; one of `DAMAGE_ERRORS` if it is something else."""
        toml = content["schema"]
        evidence = read_fields(cls, {**content, "schema": None})
        return evidence if toml is None else replace(evidence, schema=Schema.from_toml(toml))

    @property
    def dimension(self) -> int:
        return len(self.moments[0].mean)

    @cached_property
    def _by_pair(self) -> dict[Pair, PairEvidence]:
        return {(i, j): one for i, j, one in self.pairs}

    def columns(self, names: Sequence[str] | None = None) -> tuple[Column, ...]:
        """The columns behind the features, with other names if some are given."""
        if names is not None:
            return build_columns(self.dimension, tuple(map(str, names)))
        return build_columns(self.dimension, self.features, self.schema)

    def between(self, i: int, j: int) -> PairEvidence:
        """What is known of two sites."""
        return self._by_pair.get((min(i, j), max(i, j)), PairEvidence())

    def of_sites(self, order: Sequence[int]) -> Evidence:
        """The evidence of these sites alone, in this order."""
        moments = tuple(self.moments[k] for k in order)
        pairs = tuple(
            (i, j, self.between(order[i], order[j]))
            for i, j in combinations(range(len(order) if self.pairs else 0), 2)
            if (min(order[i], order[j]), max(order[i], order[j])) in self._by_pair
        )
        return replace(self, moments=moments, pairs=pairs)


def rounded(values: Floats) -> Floats:
    """Round to seven digits, which keeps saved results small."""
    return np.array([float(f"{value:.7g}") for value in values.tolist()])
