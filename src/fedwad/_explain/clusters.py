"""What separates each cluster of sites from the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import combinations, product
from typing import Any

import numpy as np

from fedwad._checks import format_value
from fedwad._explain.columns import Column
from fedwad._explain.evidence import Evidence
from fedwad._explain.explain import build_explanation, evidence_columns
from fedwad._explain.explanation import Explanation
from fedwad._explain.parts import PairDistance, Parts, parts_between
from fedwad.errors import InputError
from fedwad.ot import ColumnMoments, Correlation

__all__ = ["explain_clusters"]

Pair = tuple[int, int]


def explain_clusters(
    evidence: Evidence,
    sites: Sequence[str],
    labels: Any,
    pair_distance: Callable[[int, int], PairDistance],
    names: Sequence[str] | None = None,
) -> dict[int, Explanation]:
    """Explain what separates each cluster from all sites outside it.

    `labels` has the cluster of each site. `pair_distance` returns the distance of the sites at two
    indices. The part of a column is its mean over pairs of a site inside and a site outside, less
    its mean over pairs of sites inside. A column that varies as much inside separates nothing.
    """
    cluster_of = _check_labels(labels, len(sites))
    columns = evidence_columns(evidence, names)
    explanations = {}
    for label in sorted(set(cluster_of)):
        inside = [k for k, cluster in enumerate(cluster_of) if cluster == label]
        outside = [k for k, cluster in enumerate(cluster_of) if cluster != label]
        across = list(product(inside, outside))
        within = list(combinations(inside, 2))
        parts = _separating_parts(
            _mean_parts(evidence, columns, across, pair_distance),
            _mean_parts(evidence, columns, within, pair_distance) if within else None,
        )
        moments_inside = _pooled_moments([evidence.moments[k] for k in inside])
        moments_outside = _pooled_moments([evidence.moments[k] for k in outside])
        name = sites[inside[0]] if len(inside) == 1 else f"cluster {label}"
        explanations[label] = build_explanation(
            columns,
            parts,
            moments=(moments_inside, moments_outside),
            sites=(name, "the rest"),
            differs=bool(parts.significant.any()),
            correlations=_common_changes(evidence, across),
            dependence_known=evidence.correlations is not None,
        )
    return explanations


def _check_labels(labels: Any, count: int) -> list[int]:
    """Return the labels as integers; InputError unless each of `count` sites has one."""
    try:
        checked = [_to_integer(label) for label in labels]
    except (TypeError, ValueError):
        raise InputError(
            f"The labels are {format_value(labels)}; give an integer for each site."
        ) from None
    if len(checked) != count:
        raise InputError(f"{len(checked)} labels came for {count} sites; give one for each site.")
    if len(set(checked)) < 2:
        raise InputError("All sites are in one cluster; an explanation needs two or more clusters.")
    return checked


def _to_integer(label: Any) -> int:
    """The integer that a label is, TypeError or ValueError if it is none."""
    if isinstance(label, float | np.floating) and not label.is_integer():
        raise ValueError(label)
    return int(label)


def _mean_parts(
    evidence: Evidence,
    columns: Sequence[Column],
    pairs: Sequence[Pair],
    pair_distance: Callable[[int, int], PairDistance],
) -> Parts:
    """Means of all parts over pairs; a column is significant if it is so in most pairs."""
    by_pair = [parts_between(evidence, columns, i, j, pair_distance(i, j)) for i, j in pairs]
    means = {
        field.name: np.mean([getattr(parts, field.name) for parts in by_pair], axis=0)
        for field in fields(Parts)
    }
    return Parts(**means | {"significant": means["significant"] > 0.5})


def _separating_parts(across: Parts, within: Parts | None) -> Parts:
    """The excess of parts across the border of a cluster over those within it.

    A significant column stays so if more than half of its excess remains. `within` is None for a
    cluster of one site.
    """
    if within is None:
        return across
    location, scale, rest = (
        np.maximum(getattr(across, name) - getattr(within, name), 0.0)
        for name in ("location", "scale", "rest")
    )
    significant = across.significant & (location + scale + rest > 0.5 * across.excess)
    return replace(across, location=location, scale=scale, rest=rest, significant=significant)


def _pooled_moments(moments: Sequence[ColumnMoments]) -> ColumnMoments:
    """Means and standard deviations of the rows of several sites together, with errors of zero."""
    counts = np.array([site.count for site in moments])
    weights = counts / counts.sum()
    means = np.array([site.mean for site in moments])
    mean = weights @ means
    stds = [site.std for site in moments if site.std is not None]
    std = None
    if len(stds) == len(moments):  # otherwise those of a site are not known
        std = np.sqrt(weights @ (np.array(stds) ** 2 + (means - mean) ** 2))
    no_error = np.zeros_like(mean)
    return ColumnMoments(float(counts.sum()), mean, std, no_error, no_error)


def _common_changes(evidence: Evidence, pairs: Sequence[Pair]) -> tuple[Correlation, ...]:
    """Correlations that changed in most pairs of sites, averaged over the pairs where they did."""
    by_features: dict[Pair, list[Correlation]] = {}
    for i, j in pairs:
        for change in evidence.correlations_between(i, j):
            by_features.setdefault((change.first, change.second), []).append(change)
    common = [changes for changes in by_features.values() if len(changes) > len(pairs) / 2]
    return tuple(
        Correlation(
            changes[0].first,
            changes[0].second,
            *(
                float(np.mean([getattr(change, name) for change in changes]))
                for name in ("here", "there", "score", "square")
            ),
        )
        for changes in common
    )
