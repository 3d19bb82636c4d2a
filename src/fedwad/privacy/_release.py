"""One release: everything that a client ever tells under one promise, made from noisy sums alone.

1. Samples are clipped to the public radius; sums of (x, x x^T) with noise give a first mean and
   covariance.
2. Those choose a frame in which the data have about mean zero and covariance one. It is made of
   numbers that are private already, so it costs nothing. In it samples are clipped again, to little
   more than their typical length, and the same sums, with noise that is now small beside them, say
   it again.
3. Where it pays, sums of (x, 1) over cells around public centres in that frame tell the shape.
   Where labels are asked for, cells are the classes.
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
from fedwad.privacy._psd import settled_covariance
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
    """Noisy means (over n samples) in units of each look's radius, and how large their noise is.

    Attributes
    ----------
    count : number of samples, which is public
    clip_norm, origin : of the first look: it is about u = (x - origin) / radius
    first_mean, first_second : (d,), (d, d), means of u and u u^T
    centre, whitening : of the second look, about z = frame (x - centre); frame is (d, d) and
        symmetric
    whitened_clip_norm : radius of the second look, in the frame
    mean, second : means of z / reach and its square
    centres : (S, d), of the cells, in the frame and units of its reach; none if S is 0
    masses, sums : (S,), (S, d), means over all samples of 1 and z / reach in each cell
    noise : (3,), standard deviation of each number of the first look, the second, the cells; off
        the diagonal of a second moment it is smaller by sqrt(2)
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
    """The release of these samples under a split of its budget, which the caller has already spent.

    With `classes`, the place of each sample's label among public names (-1 for none), cells are the
    classes; their centres, which say nothing then, are those of the frame.
    """
    n, d = points.shape
    first = clipped((points - origin) / clip_norm)
    told, first_noise = released(moment_sums(first), MOMENTS, plan.first, bits)
    first_mean, first_second = unfolded(told / n, d)
    covariance, floor = settled_covariance(
        first_mean, first_second, first_noise / n, first_noise / n
    )
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, floor)
    whitening = (vectors / np.sqrt(values)) @ vectors.T / clip_norm
    whitening = (whitening + whitening.T) / 2
    centre = origin + clip_norm * first_mean
    # From the clipped samples, which are bounded whatever the client holds.
    again = clipped(transformed(origin + clip_norm * first - centre, whitening / plan.clip_norm))
    told, second_noise = released(moment_sums(again), MOMENTS, plan.second, bits)
    mean, second = unfolded(told / n, d)
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
    """Centres that share a standard normal distribution among them: k-means on draws from it,
    always the same."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((_SAMPLES_A_CENTRE * count, d))
    labels = kmeans_cells(Measure(draws), count, floor=1)
    groups = int(labels.max()) + 1
    found: Floats = (
        group_sums(draws, labels, groups) / np.bincount(labels, minlength=groups)[:, None]
    )
    found.setflags(write=False)
    return found
