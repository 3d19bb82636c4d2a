"""Which correlations changed between two sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedwad._explain.columns import build_columns, column_index
from fedwad.ot import ColumnMoments, Correlation, Floats, Summary, changed_correlations
from fedwad.tables import Schema

__all__ = ["compare_correlations"]

Pair = tuple[int, int]

_MAX_ENTRIES = 2e7  # of the covariances of all pairs of sites; with more nothing is compared
_MAX_FEATURES = 1500  # the same for features


def compare_correlations(
    summaries: Sequence[Summary],
    moments: Sequence[ColumnMoments],
    features: tuple[str, ...] | None,
    schema: Schema | None,
) -> Mapping[Pair, tuple[Correlation, ...]] | None:
    """The changed correlations of pairs of sites; None if covariances are unknown or too large."""
    d, count = summaries[0].dimension, len(summaries)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if d > _MAX_FEATURES or len(pairs) * d**2 > _MAX_ENTRIES:
        return None
    if any(summary.within.ndim < 2 for summary in summaries):
        return None
    column_of = column_index(build_columns(d, features, schema))
    totals = [summary.total_covariance() for summary in summaries]
    return _LazyCorrelations(totals, moments, column_of, pairs)


@dataclass(frozen=True, eq=False)
class _LazyCorrelations(Mapping[Pair, tuple[Correlation, ...]]):
    """The changed correlations of pairs of sites, each compared when it is first asked for.

    A matrix of many sites has thousands of pairs, of which few are explained.
    """

    covariances: Sequence[Floats]
    moments: Sequence[ColumnMoments]
    column_of: NDArray[np.int64]
    pairs: Sequence[Pair]
    cache: dict[Pair, tuple[Correlation, ...]] = field(default_factory=dict)

    def __getitem__(self, pair: Pair) -> tuple[Correlation, ...]:
        if pair not in self.cache:
            i, j = pair
            if not 0 <= i < j < len(self.moments):
                raise KeyError(pair)
            a, b = self.moments[i], self.moments[j]
            self.cache[pair] = changed_correlations(
                self.covariances[i],
                self.covariances[j],
                (a.count, b.count),
                self.column_of,
                max(a.heaviness, b.heaviness),
            )
        return self.cache[pair]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)
