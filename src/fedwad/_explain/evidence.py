"""What a result keeps to explain itself: a few numbers for each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from fedwad._explain.classes import ClassPart, add_class_parts, class_parts
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

_MAX_NUMBERS = 400_000  # in the squares of all pairs; with more none are kept


@dataclass(frozen=True, eq=False)
class Evidence:
    """Moments of each feature at all sites, and its part in the distances of their pairs.

    Attributes
    ----------
    moments : ColumnMoments of each site
    squares : part of each feature in the squared distance of each pair, as far as plans are known
    correlations : the changed correlations of each pair; None if none were compared
    classes : parts of classes in the squared distance of each pair, for labelled data
    features, schema : names of the features, and the schema that encoded tables, if known

    A pair (i, j) of sites has i < j.
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

        `count` is the number of features; summaries may have coordinates for classes after them.
        `noises` are, for each site, the variances that noise for privacy adds to its means and to
        its variances; with them no correlations are compared.
        """
        calibrations = list(calibrations) or [None] * len(summaries)
        count = summaries[0].dimension if count is None else count
        plain = [_keep_features(summary, count) for summary in summaries]
        moments = tuple(
            _round_moments(column_moments(summary, calibration))
            for summary, calibration in zip(plain, calibrations, strict=True)
        )
        if noises:
            moments = tuple(
                _round_moments(_add_privacy_noise(of_site, noise))
                for of_site, noise in zip(moments, noises, strict=True)
            )
        if len(squares) * count > _MAX_NUMBERS:
            squares = {}
        # Pairs are sorted, because they come in the order in which threads finished them.
        squares = {pair: squares[pair] for pair in sorted(squares)}
        return cls(
            moments=moments,
            squares={pair: _round(add_class_parts(part, count)) for pair, part in squares.items()},
            correlations=None if noises else compare_correlations(plain, moments, features, schema),
            features=None if features is None else tuple(features),
            schema=schema,
            classes=_class_parts(summaries, squares),
        )

    def class_parts_between(self, i: int, j: int) -> tuple[ClassPart, ...]:
        """The parts of classes in the distance of two sites; side 0 is the first of them."""
        found = self.classes.get((min(i, j), max(i, j)), ())
        return found if i < j else tuple(replace(one, side=1 - one.side) for one in found)

    def correlations_between(self, i: int, j: int) -> tuple[Correlation, ...]:
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
        _check_squares(moments, squares, features)
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
    """The summary of the first `count` features alone, without classes."""
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


def _add_privacy_noise(moments: ColumnMoments, noise: tuple[Floats, Floats]) -> ColumnMoments:
    """Moments whose squared standard errors include the noise that was added for privacy."""
    mean_noise, variance_noise = noise
    std = np.zeros_like(moments.mean) if moments.std is None else moments.std
    # By the delta method the divisor is 4 std^2. It has a bound where noise hides the variance.
    std_noise = variance_noise / np.maximum(4 * std**2, np.sqrt(variance_noise))
    return replace(
        moments,
        mean_error=moments.mean_error + mean_noise,
        std_error=moments.std_error + std_noise,
    )


def _round(values: Floats) -> Floats:
    """Round to seven digits, which keeps saved results small."""
    return np.array([float(f"{value:.7g}") for value in values.tolist()])


_MAX_NUMBER = 1e18  # of `count`, `exponent` and `heaviness` in a saved result
# Fields of ColumnMoments.
_NUMBERS = ("count", "exponent", "heaviness")
_ARRAYS = ("mean", "std", "mean_error", "std_error", "noise")


def _round_moments(moments: ColumnMoments) -> ColumnMoments:
    return replace(  # the mean keeps its digits, since it may have a large offset
        moments,
        std=None if moments.std is None else _round(moments.std),
        mean_error=_round(moments.mean_error),
        std_error=_round(moments.std_error),
        noise=None if moments.noise is None else _round(moments.noise),
    )


def _pairs_to_list(found: Mapping[Pair, Sequence[P]]) -> list[dict[str, Any]]:
    return [
        {"pair": list(pair), "found": [asdict(item) for item in items]}
        for pair, items in found.items()
        if items
    ]


def _pairs_from_list(entries: Sequence[Any], kind: type[P]) -> dict[Pair, tuple[P, ...]]:
    """Read what `_pairs_to_list` wrote."""
    return {
        (int(entry["pair"][0]), int(entry["pair"][1])): tuple(kind(**x) for x in entry["found"])
        for entry in entries
    }


def _moments_to_dict(moments: ColumnMoments) -> dict[str, Any]:
    arrays = {name: getattr(moments, name) for name in _ARRAYS}
    lists = {name: None if x is None else x.tolist() for name, x in arrays.items()}
    return {name: getattr(moments, name) for name in _NUMBERS} | lists


def _check_squares(
    moments: Sequence[ColumnMoments], squares: Mapping[Pair, Floats], features: Any
) -> None:
    """Raise ValueError unless squares and names of features fit the moments."""
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
    fields = {name: None if x is None else np.array(x, float) for name, x in arrays.items()}
    moments = ColumnMoments(**numbers, **fields)  # type: ignore[arg-type]
    values = moments.count, moments.exponent, moments.heaviness
    if not all(type(value) in (int, float) and 0 < value <= _MAX_NUMBER for value in values):
        raise ValueError("count, exponent or heaviness is not a positive number")
    if any(fields[name] is None for name in ("mean", "mean_error", "std_error")):
        raise ValueError("no means or errors")
    if any(x is not None and x.shape != (len(moments.mean),) for x in fields.values()):
        raise ValueError("arrays have different numbers of features")
    return moments
