"""What separates each cluster of sites from the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from fedwad._checks import shown
from fedwad._explain.evidence import Evidence
from fedwad._explain.explain import assembled, columns_with
from fedwad._explain.explanation import Explanation
from fedwad._explain.groups import Column
from fedwad._explain.parts import Known, Parts, parts_between
from fedwad.errors import InputError
from fedwad.ot import ColumnMoments, Correlation, Floats

__all__ = ["explain_clusters"]

Pair = tuple[int, int]


def explain_clusters(
    evidence: Evidence,
    sites: Sequence[str],
    labels: Any,
    known: Callable[[int, int], Known],
    names: Sequence[str] | None = None,
) -> dict[int, Explanation]:
    """Explain each cluster against all sites outside it.

    A column's part is its mean over pairs of a site inside and a site outside, less its mean over
    pairs of sites inside: what varies as much inside separates nothing.
    """
    numbers = _checked(labels, len(sites))
    columns = columns_with(evidence, names)
    found = {}
    for label in sorted(set(numbers)):
        inside = [k for k, one in enumerate(numbers) if one == label]
        outside = [k for k, one in enumerate(numbers) if one != label]
        across = list(product(inside, outside))
        within = list(combinations(inside, 2))
        parts = _separating(
            _mean_parts(evidence, columns, across, known),
            _mean_parts(evidence, columns, within, known) if within else None,
        )
        here, there = (_pooled([evidence.moments[k] for k in some]) for some in (inside, outside))
        who = sites[inside[0]] if len(inside) == 1 else f"cluster {label}"
        found[label] = assembled(
            columns,
            parts,
            (here, there),
            (who, "the rest"),
            bool(parts.significant.any()),
            _common(evidence, across),
            evidence.correlations is not None,
        )
    return found


def _checked(labels: Any, count: int) -> list[int]:
    try:
        numbers = [int(label) for label in labels]
    except (TypeError, ValueError):
        raise InputError(
            f"The labels are {shown(labels)}; give an integer for each site."
        ) from None
    if len(numbers) != count:
        raise InputError(f"{len(numbers)} labels came for {count} sites; give one for each site.")
    if len(set(numbers)) < 2:
        raise InputError("All sites are in one cluster; nothing separates it from a rest.")
    return numbers


def _mean_parts(
    evidence: Evidence,
    columns: Sequence[Column],
    pairs: Sequence[Pair],
    known: Callable[[int, int], Known],
) -> Parts:
    """Means over pairs; a column is significant if it is so in most of them."""
    each = [parts_between(evidence, columns, i, j, known(i, j)) for i, j in pairs]

    def mean(name: str) -> Floats:
        return np.asarray(np.mean([getattr(one, name) for one in each], axis=0))

    return Parts(
        square=mean("square"),
        noise=mean("noise"),
        location=mean("location"),
        scale=mean("scale"),
        rest=mean("rest"),
        square_std=mean("square_std"),
        excess_std=mean("excess_std"),
        significant=mean("significant") > 0.5,
    )


def _separating(across: Parts, within: Parts | None) -> Parts:
    if within is None:
        return across
    inside = [getattr(within, name) for name in ("location", "scale", "rest")]
    location, scale, rest = (
        np.maximum(getattr(across, name) - part, 0.0)
        for name, part in zip(("location", "scale", "rest"), inside, strict=True)
    )
    return Parts(
        square=across.square,
        noise=across.noise,
        location=location,
        scale=scale,
        rest=rest,
        square_std=across.square_std,
        excess_std=across.excess_std,
        significant=across.significant & (location + scale + rest > 0.5 * across.excess),
    )


def _pooled(moments: Sequence[ColumnMoments]) -> ColumnMoments:
    """Moments of the rows of several sites together."""
    counts = np.array([one.count for one in moments])
    shares = counts / counts.sum()
    means = np.array([one.mean for one in moments])
    mean = shares @ means
    stds = [one.std for one in moments if one.std is not None]
    std = None
    if len(stds) == len(moments):
        std = np.sqrt(shares @ (np.array(stds) ** 2 + (means - mean) ** 2))
    nothing = np.zeros_like(mean)
    return ColumnMoments(float(counts.sum()), mean, std, nothing, nothing)


def _common(evidence: Evidence, pairs: Sequence[Pair]) -> tuple[Correlation, ...]:
    """Correlations that changed in most pairs, with their means over those."""
    found: dict[Pair, list[Correlation]] = {}
    for i, j in pairs:
        for one in evidence.changed(i, j):
            found.setdefault((one.first, one.second), []).append(one)
    kept = [some for some in found.values() if len(some) > len(pairs) / 2]
    return tuple(
        Correlation(
            some[0].first,
            some[0].second,
            *(
                float(np.mean([getattr(one, name) for one in some]))
                for name in ("here", "there", "score", "square")
            ),
        )
        for some in kept
    )
