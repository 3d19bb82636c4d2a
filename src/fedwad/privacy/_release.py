"""One release: all that a client sends under one guarantee, computed from noisy sums alone.

1. Samples are clipped to the public norm. Noisy sums of (x, x x^T) give a first mean and
   covariance.
2. These define a whitening, after which the data have about mean zero and covariance one. It uses
   private numbers only, so it costs nothing. The whitened samples are clipped again, at little more
   than their typical norm. A second query of the same sums then has relatively little noise.
3. Where it helps, sums of (x, 1) over cells around public whitened centres describe the shape.
   With labels, the cells are the classes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats, Measure
from fedwad.ot._cells import group_sums, kmeans_cells
from fedwad.privacy._mechanism import Bits, released
from fedwad.privacy._psd import covariance_from_moments
from fedwad.privacy._split import Split
from fedwad.privacy._statistics import (
    CELLS,
    MOMENTS,
    cell_sums,
    class_sums,
    clipped,
    moment_sums,
    transformed,
    unfolded,
)

__all__ = ["Release", "release"]

_SAMPLES_A_CENTRE = 50


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy means over n samples, in units of each query's clipping norm, and their noise.

    Attributes
    ----------
    count : number of samples, which is public
    clip_norm, origin : of the first query, which is about u = (x - origin) / clip_norm
    first_mean, first_second : (d,), (d, d), means of u and u u^T
    centre, whitening : of the second query, which is about z = whitening (x - centre) divided by
        whitened_clip_norm; whitening is (d, d) and symmetric
    whitened_clip_norm : clipping norm of the whitened samples
    mean, second : means of z and z z^T
    centres : (S, d), of the cells, in the units of z; none if S is 0
    masses, sums : (S,), (S, d), means over all samples of 1 and z in each cell
    noise : (3,), standard deviation of each number of the first query, the second query and the
        cells; smaller by sqrt(2) off the diagonal of a second moment
    """

    count: int
    clip_norm: float
    origin: Floats
    first_mean: Floats
    first_second: Floats
    centre: Floats
    whitening: Floats
    whitened_clip_norm: float
    mean: Floats
    second: Floats
    centres: Floats
    masses: Floats
    sums: Floats
    noise: Floats


def release(
    points: Floats,
    clip_norm: float,
    origin: Floats,
    own_centres: Floats | None,
    plan: Split,
    bits: Bits = os.urandom,
    classes: NDArray[np.int64] | None = None,
) -> Release:
    """The release of these samples under a split of the budget, which the caller has already spent.

    With `classes`, the index of each sample's label among the public names (-1 for none), the cells
    are the classes, and their centres are zero.
    """
    n, d = points.shape
    first = clipped((points - origin) / clip_norm)
    sums, first_noise = released(moment_sums(first), MOMENTS, plan.first, bits)
    first_mean, first_second = unfolded(sums / n, d)
    covariance, floor = covariance_from_moments(
        first_mean, first_second, first_noise / n, first_noise / n
    )
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, floor)
    whitening = (vectors / np.sqrt(values)) @ vectors.T / clip_norm
    whitening = (whitening + whitening.T) / 2
    centre = origin + clip_norm * first_mean
    # From the clipped samples, which are bounded for any data.
    again = clipped(transformed(origin + clip_norm * first - centre, whitening / plan.clip_norm))
    sums, second_noise = released(moment_sums(again), MOMENTS, plan.second, bits)
    mean, second = unfolded(sums / n, d)
    centres = np.zeros((0, d))
    cells, cell_noise = np.zeros((0, d + 1)), 0.0
    if plan.count and classes is not None:
        centres = np.zeros((plan.count, d))
        cells, cell_noise = released(
            class_sums(again, classes, plan.count), CELLS, plan.cells, bits
        )
    elif plan.count:
        given = None if own_centres is None else (own_centres - centre) @ whitening
        centres = (_centres(plan.count, d) if given is None else given) / plan.clip_norm
        cells, cell_noise = released(cell_sums(again, centres), CELLS, plan.cells, bits)
    return Release(
        count=n,
        clip_norm=clip_norm,
        origin=origin,
        first_mean=first_mean,
        first_second=first_second,
        centre=centre,
        whitening=whitening,
        whitened_clip_norm=plan.clip_norm,
        mean=mean,
        second=second,
        centres=centres,
        masses=cells[:, d] / n,
        sums=cells[:, :d] / n,
        noise=np.array([first_noise, second_noise, cell_noise]) / n,
    )


@cache
def _centres(count: int, d: int) -> Floats:
    """Centres of k-means cells of a standard normal distribution, always the same."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((_SAMPLES_A_CENTRE * count, d))
    labels = kmeans_cells(Measure(draws), count, floor=1)
    groups = int(labels.max()) + 1
    found: Floats = (
        group_sums(draws, labels, groups) / np.bincount(labels, minlength=groups)[:, None]
    )
    found.setflags(write=False)
    return found
