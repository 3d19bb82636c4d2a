"""Coordinates of sites: cell means and the spread within cells, on principal axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.ot import Floats, Measure, Summary, reduce_covariance, solve, summarise_plan

__all__ = ["coordinates", "principal", "sampling_noise"]

_AT_A_TIME = 1000
_EXACT_UP_TO = 1000  # sites, or coordinates, up to which all sites decide on the axes
_CALIBRATED = 30  # sites on which the noise is measured
# Cells at the edge are wider than the mean one, which synthetic samples do not show: distances of
# random splits were 1.1 to 1.6 times what these say (normal data, and t with 5 degrees of freedom).
_EDGES = 1.25
_ROWS_A_CELL = 50  # of a synthetic sample, at most
_LEAST = 1e-13  # part of the largest variance, below which an axis is rounding


def coordinates(summaries: Sequence[Summary], weights: Floats) -> Floats:
    """Return one row for each site: its weighted cell means, and the root of the covariance within.

    The squared distance of two rows is that of the cell means, coupled through the shared support,
    plus the Frobenius distance of the covariances' roots, which is that of Gaussians with common
    axes. The coarsest covariance that any site sent decides how much of it counts.
    """
    scale = np.sqrt(weights)[:, None]
    ndim = min(one.within.ndim for one in summaries)
    dimension = summaries[0].dimension
    means = np.array([(scale * one.means).ravel() for one in summaries])
    within = np.array([reduce_covariance(one.within, ndim) for one in summaries])
    if ndim == 0:
        spread = np.sqrt(np.maximum(within, 0.0) * dimension)[:, None]
    elif ndim == 1:
        spread = np.sqrt(np.maximum(within, 0.0))
    else:
        spread = _roots(within).reshape(len(summaries), -1)
    return np.hstack([means, spread])


def _roots(matrices: Floats) -> Floats:
    """Return the symmetric roots of covariance matrices."""
    found = np.empty_like(matrices)
    for start in range(0, len(matrices), _AT_A_TIME):
        some = slice(start, start + _AT_A_TIME)
        values, vectors = np.linalg.eigh(matrices[some])
        scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        found[some] = scaled @ vectors.transpose(0, 2, 1)
    return found


def sampling_noise(summaries: Sequence[Summary], support: Measure, seed: int) -> Floats:
    """Return what sampling adds to each site's squared distance from another of its population.

    The mean of a cell of n / S rows varies by S / n of the variance within it. The borders of
    cells and the covariance within them vary as well, which multiplies that by a factor. The
    factor is measured on pairs of synthetic samples of some sites, transported to the support.
    """
    plain = np.array([len(one.weights) * one.variance / one.count for one in summaries])
    rng = np.random.default_rng([seed, 4])
    chosen = rng.permutation(len(summaries))[:_CALIBRATED]
    found, expected = 0.0, 0.0
    for one in (summaries[index] for index in chosen.tolist()):
        size = min(one.count, _ROWS_A_CELL * len(support))
        twice = [_cells_of(_synthetic(one, size, rng), one, support) for _ in range(2)]
        first, second = coordinates(twice, support.weights)
        found += float(((first - second) ** 2).sum()) / 2
        expected += len(one.weights) * one.variance / size
    return plain * _EDGES * max(1.0, found / expected) if expected > 0 else plain


def _synthetic(one: Summary, size: int, rng: np.random.Generator) -> Floats:
    """Return rows of a mixture of normals with the cells of a site."""
    cells = rng.choice(len(one.weights), size, p=one.weights / one.weights.sum())
    noise = rng.standard_normal((size, one.dimension))
    within = np.asarray(one.within)
    scaled = noise @ _roots(within[None])[0] if within.ndim == 2 else noise * np.sqrt(within)
    return np.asarray(one.means[cells] + scaled)


def _cells_of(rows: Floats, one: Summary, support: Measure) -> Summary:
    """Return the cells of rows, with a covariance of the type that the site sent."""
    kind = "diag" if one.covariance_type == "lowrank" else one.covariance_type
    return summarise_plan(solve(Measure(rows), Measure(support.points, support.weights)), kind)


def principal(rows: Floats, dimension: int, seed: int) -> tuple[Floats, float]:
    """Return rows on their principal axes, and the fraction of the variance that these explain.

    With many sites and many coordinates, axes are computed from a random subset of sites.
    """
    centred = rows - rows.mean(axis=0)
    axes = _axes(centred, seed)[:, :dimension]
    turned = centred @ axes
    total = float((centred**2).sum())
    return turned, float((turned**2).sum()) / total if total else 1.0


def _axes(centred: Floats, seed: int) -> Floats:
    """Return principal axes as columns, the one with the largest variance first.

    The largest entry of each is positive, so that the same rows give the same picture.
    """
    count, size = centred.shape
    if size <= min(count, _EXACT_UP_TO):
        values, axes = np.linalg.eigh(centred.T @ centred)
    else:
        some = centred
        if count > _EXACT_UP_TO:
            chosen = np.random.default_rng([seed, 2]).permutation(count)[:_EXACT_UP_TO]
            some = centred[np.sort(chosen)]
        values, left = np.linalg.eigh(some @ some.T)
        axes = some.T @ (left / np.sqrt(np.where(values > 0, values, 1.0)))
    kept = values > _LEAST * max(float(values[-1]), 0.0)
    axes = axes[:, kept][:, ::-1]
    largest = np.abs(axes).argmax(axis=0)
    return np.asarray(axes * np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1.0, 1.0))
