"""What a result keeps to explain itself: a few numbers for each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from fedwad._explain.classes import ClassPart, class_parts
from fedwad._explain.correlations import compare_correlations
from fedwad.ot import (
    Calibration,
    ColumnMoments,
    Correlation,
    Floats,
    LabelledSummary,
    Summary,
    column_moments,
)
from fedwad.tables import Schema

__all__ = ["Evidence"]

Pair = tuple[int, int]
P = TypeVar("P", Correlation, ClassPart)
AnySummary = Summary | LabelledSummary

_MOST_NUMBERS = 400_000  # kept for all pairs


@dataclass(frozen=True, eq=False)
class Evidence:
    """Moments of each feature at all sites, and its part in the distances of their pairs.

    Attributes
    ----------
    moments : one for each site
    squares : part of each feature in the squared distance of each pair, as far as plans are known
    correlations : the changed correlations of each pair; None if no covariance is known
    classes : parts of classes in the distance of each pair, for labelled data
    features, schema : names of the features, and what made them of tables, if known
    """

    moments: tuple[ColumnMoments, ...]
    squares: Mapping[Pair, Floats] = field(default_factory=dict)
    correlations: Mapping[Pair, tuple[Correlation, ...]] | None = None
    features: tuple[str, ...] | None = None
    schema: Schema | None = None
    classes: Mapping[Pair, tuple[ClassPart, ...]] = field(default_factory=dict)

    @property
    def dimension(self) -> int:
        return len(self.moments[0].mean)

    @classmethod
    def of(
        cls,
        summaries: Sequence[AnySummary],
        calibrations: Sequence[Calibration | None],
        squares: Mapping[Pair, Floats],
        features: tuple[str, ...] | None = None,
        schema: Schema | None = None,
        count: int | None = None,
        noises: Sequence[tuple[Floats, Floats]] = (),
    ) -> Evidence:
        """Evidence from what the sites sent, in the order of the sites.

        `count` is the number of features where summaries have coordinates for classes after them.
        `noises` are the variances that noise for privacy gives to means and variances; no
        correlations are compared then.
        """
        calibrations = list(calibrations) or [None] * len(summaries)
        count = summaries[0].dimension if count is None else count
        plain = [_keep_features(summary, count) for summary in summaries]
        moments = tuple(
            _round_moments(column_moments(summary, calibration))
            for summary, calibration in zip(plain, calibrations, strict=True)
        )
        if noises:
            both = zip(moments, noises, strict=True)
            moments = tuple(_round_moments(_add_privacy_noise(*one)) for one in both)
        if len(squares) * count > _MOST_NUMBERS:
            squares = {}
        # Pairs come in the order in which threads finished them.
        squares = {pair: squares[pair] for pair in sorted(squares)}
        return cls(
            moments=moments,
            squares={pair: _round(_fold_classes(part, count)) for pair, part in squares.items()},
            correlations=None if noises else compare_correlations(plain, moments, features, schema),
            features=None if features is None else tuple(features),
            schema=schema,
            classes=_class_parts(summaries, squares),
        )

    def class_parts_between(self, i: int, j: int) -> tuple[ClassPart, ...]:
        """The parts of classes in the distance of two sites; side 0 is the first of them."""
        found = self.classes.get((min(i, j), max(i, j)), ())
        return found if i < j else tuple(replace(one, side=1 - one.side) for one in found)

    def changed(self, i: int, j: int) -> tuple[Correlation, ...]:
        """The correlations that changed between two sites; "here" is the first of them."""
        if self.correlations is None:
            return ()
        found = self.correlations.get((min(i, j), max(i, j)), ())
        if i < j:
            return found
        return tuple(replace(one, here=one.there, there=one.here) for one in found)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists."""
        correlations = self.correlations
        return {
            "moments": [_moments_to_dict(one) for one in self.moments],
            "squares": [[*pair, found.tolist()] for pair, found in self.squares.items()],
            "correlations": None if correlations is None else _pairs_to_list(correlations),
            "classes": _pairs_to_list(self.classes),
            "features": None if self.features is None else list(self.features),
            "schema": None if self.schema is None else self.schema.to_toml(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Evidence:
        """Read what `to_dict` wrote; ValueError, KeyError or TypeError if it is something else."""
        moments = tuple(_moments_from_dict(one) for one in content["moments"])
        if len({one.mean.shape for one in moments}) != 1:
            raise ValueError("sites differ in features")
        pairs, schema = content["correlations"], content["schema"]
        features = content["features"]
        squares = {(int(i), int(j)): np.array(x, float) for i, j, x in content["squares"]}
        _check_pairs(moments, squares, features)
        return cls(
            moments=moments,
            squares=squares,
            correlations=None if pairs is None else _pairs_from_list(pairs, Correlation),
            features=None if features is None else tuple(map(str, features)),
            schema=None if schema is None else Schema.from_toml(schema),
            classes=_pairs_from_list(content.get("classes", ()), ClassPart),
        )


def _class_parts(
    summaries: Sequence[AnySummary], squares: Mapping[Pair, Floats]
) -> dict[Pair, tuple[ClassPart, ...]]:
    found = {}
    for (i, j), square in squares.items():
        a, b = summaries[i], summaries[j]
        if isinstance(a, LabelledSummary) and isinstance(b, LabelledSummary) and square.any():
            found[i, j] = class_parts(a, b, float(square.sum()))
    return found


def _keep_features(summary: AnySummary, count: int) -> Summary:
    """The summary of the first features alone."""
    plain = summary.merged if isinstance(summary, LabelledSummary) else summary
    if plain.dimension == count:
        return plain
    within = plain.within
    return replace(
        plain,
        means=plain.means[:, :count],
        covariance=within[(slice(count),) * within.ndim],
        factors=None,
    )


def _add_privacy_noise(one: ColumnMoments, noise: tuple[Floats, Floats]) -> ColumnMoments:
    """Moments whose squared standard errors include the noise that was added for privacy."""
    mean_noise, variance_noise = noise
    std = np.zeros_like(one.mean) if one.std is None else one.std
    # A variance within its noise says nothing more precise about the standard deviation.
    std_noise = variance_noise / np.maximum(4 * std**2, np.sqrt(variance_noise))
    return replace(one, mean_error=one.mean_error + mean_noise, std_error=one.std_error + std_noise)


def _fold_classes(square: Floats, count: int) -> Floats:
    """The parts of features, each with the parts of its class means and spreads added."""
    if len(square) == count:
        return square
    spreads = square[2 * count :].reshape(count, -1).sum(axis=1)
    return np.asarray(square[:count] + square[count : 2 * count] + spreads)


def _round(values: Floats) -> Floats:
    """Seven digits, which keep files small."""
    return np.array([float(f"{value:.7g}") for value in values.tolist()])


_NUMBERS = ("count", "exponent", "heaviness")
_LARGEST = 1e18  # number of rows
_ARRAYS = ("mean", "std", "mean_error", "std_error", "noise")


def _round_moments(one: ColumnMoments) -> ColumnMoments:
    return replace(  # the mean keeps its digits, since it may have a large offset
        one,
        std=None if one.std is None else _round(one.std),
        mean_error=_round(one.mean_error),
        std_error=_round(one.std_error),
        noise=None if one.noise is None else _round(one.noise),
    )


def _pairs_to_list(found: Mapping[Pair, Sequence[P]]) -> list[dict[str, Any]]:
    return [
        {"pair": list(pair), "found": [asdict(one) for one in some]}
        for pair, some in found.items()
        if some
    ]


def _pairs_from_list(entries: Sequence[Any], kind: type[P]) -> dict[Pair, tuple[P, ...]]:
    """Read what `_pairs_to_list` wrote."""
    return {
        (int(one["pair"][0]), int(one["pair"][1])): tuple(kind(**found) for found in one["found"])
        for one in entries
    }


def _moments_to_dict(one: ColumnMoments) -> dict[str, Any]:
    arrays = {name: getattr(one, name) for name in _ARRAYS}
    lists = {name: None if x is None else x.tolist() for name, x in arrays.items()}
    return {name: getattr(one, name) for name in _NUMBERS} | lists


def _check_pairs(
    moments: Sequence[ColumnMoments], squares: Mapping[Pair, Floats], features: Any
) -> None:
    """Raise ValueError unless squares and names fit the moments."""
    count = len(moments[0].mean)
    if any(x.shape != (count,) for x in squares.values()):
        raise ValueError("squares of other features")
    if any(not 0 <= index < len(moments) for pair in squares for index in pair):
        raise ValueError("pairs of other sites")
    if features is not None and len(features) != count:
        raise ValueError("names of other features")


def _moments_from_dict(content: Mapping[str, Any]) -> ColumnMoments:
    numbers = {name: value for name, value in content.items() if name not in _ARRAYS}
    arrays = {name: content[name] for name in _ARRAYS}
    found = {name: None if x is None else np.array(x, float) for name, x in arrays.items()}
    moments = ColumnMoments(**numbers, **found)  # type: ignore[arg-type]
    positive = moments.count, moments.exponent, moments.heaviness
    if not all(type(one) in (int, float) and 0 < one <= _LARGEST for one in positive):
        raise ValueError("not numbers of rows")
    if any(found[name] is None for name in ("mean", "mean_error", "std_error")):
        raise ValueError("no means or errors")
    if any(x is not None and x.shape != (len(moments.mean),) for x in found.values()):
        raise ValueError("features differ")
    return moments
