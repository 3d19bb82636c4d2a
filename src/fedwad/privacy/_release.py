"""One release: all that a site sends under one guarantee, computed from noisy sums alone.

1. Samples are clipped to the public clip norm. Noisy sums of (x, x x^T) give a first mean and
   covariance.
2. These define a whitening, after which the data have about mean zero and covariance one. It uses
   already released numbers only, so it loses no further privacy. The whitened samples are clipped
   again, at little more than their typical norm. Second noisy sums of (x, x x^T) then have
   relatively little noise.
3. If the split of the budget has cells, noisy sums of (x, 1) over cells around public whitened
   centres describe the shape. A split has cells if the request asks for them, or if there are few
   features and the means of cells are accurate in spite of their noise. With labels, the cells are
   the classes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats, Measure
from fedwad.ot._cells import group_sums, kmeans_cells
from fedwad.privacy._mechanism import RandomBytes, add_noise
from fedwad.privacy._psd import covariance_from_moments
from fedwad.privacy._split import Split
from fedwad.privacy._statistics import (
    CELL_SENSITIVITY,
    MOMENT_SENSITIVITY,
    cell_sums,
    class_sums,
    clip_to_unit_ball,
    moment_sums,
    multiply_rows,
    unpack_moments,
)

__all__ = ["Release", "release"]

_DRAWS_PER_CENTRE = 50


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy means over n samples, in units of the clip norm of each sum, and their noise.

    Attributes
    ----------
    count : number of samples, which is public
    clip_norm, origin : of the first sums, which are over u = (x - origin) / clip_norm
    first_mean, first_second : (d,), (d, d), first moment (mean) and second moment of u: the means
        of u and u u^T
    centre, whitening : of the second sums, which are over z = whitening (x - centre) /
        whitened_clip_norm; whitening is (d, d) and symmetric
    whitened_clip_norm : clip norm of the whitened samples
    mean, second : (d,), (d, d), first and second moment of z: the means of z and z z^T
    centres : (S, d), of the cells, in the units of z; none if S is 0
    masses, sums : (S,), (S, d), for each cell s the noisy sums of 1 and of z over its samples,
        divided by n: masses[s] = sum_{i in s} 1 / n, sums[s] = sum_{i in s} z_i / n
    noise : (3,), standard deviation of each number of the first sums, the second sums and the
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
    split: Split,
    random_bytes: RandomBytes = os.urandom,
    classes: NDArray[np.int64] | None = None,
) -> Release:
    """The release of these samples under a split of the budget, which the caller has already spent.

    `own_centres` (S, d) are public centres of cells in the units of the samples; without them, the
    centres are those of k-means cells of a standard normal distribution. With `classes`, the index
    of each sample's label among the public names (-1 for none), the cells are the classes, and
    their centres are zero.
    """
    n, d = points.shape
    first = clip_to_unit_ball((points - origin) / clip_norm)
    sums, first_noise = add_noise(
        moment_sums(first), MOMENT_SENSITIVITY, split.mu_first, random_bytes
    )
    first_mean, first_second_moment = unpack_moments(sums / n, d)
    covariance, min_eigenvalue = covariance_from_moments(
        first_mean, first_second_moment, first_noise / n, first_noise / n
    )
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, min_eigenvalue)
    whitening = (vectors / np.sqrt(values)) @ vectors.T / clip_norm
    whitening = (whitening + whitening.T) / 2
    centre = origin + clip_norm * first_mean
    # Whitening takes the clipped samples, which are bounded for any data.
    whitened = clip_to_unit_ball(
        multiply_rows(origin + clip_norm * first - centre, whitening / split.clip_norm)
    )
    sums, second_noise = add_noise(
        moment_sums(whitened), MOMENT_SENSITIVITY, split.mu_second, random_bytes
    )
    mean, second_moment = unpack_moments(sums / n, d)
    centres = np.zeros((0, d))
    cells, cell_noise = np.zeros((0, d + 1)), 0.0
    if split.n_cells and classes is not None:
        centres = np.zeros((split.n_cells, d))
        cells, cell_noise = add_noise(
            class_sums(whitened, classes, split.n_cells),
            CELL_SENSITIVITY,
            split.mu_cells,
            random_bytes,
        )
    elif split.n_cells:
        if own_centres is None:
            centres = _normal_centres(split.n_cells, d) / split.clip_norm
        else:
            centres = (own_centres - centre) @ whitening / split.clip_norm
        cells, cell_noise = add_noise(
            cell_sums(whitened, centres), CELL_SENSITIVITY, split.mu_cells, random_bytes
        )
    return Release(
        count=n,
        clip_norm=clip_norm,
        origin=origin,
        first_mean=first_mean,
        first_second=first_second_moment,
        centre=centre,
        whitening=whitening,
        whitened_clip_norm=split.clip_norm,
        mean=mean,
        second=second_moment,
        centres=centres,
        masses=cells[:, d] / n,
        sums=cells[:, :d] / n,
        noise=np.array([first_noise, second_noise, cell_noise]) / n,
    )


@cache
def _normal_centres(count: int, d: int) -> Floats:
    """Centres of k-means cells of a standard normal distribution, always the same."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((_DRAWS_PER_CENTRE * count, d))
    labels = kmeans_cells(Measure(draws), count, min_size=1)
    groups = int(labels.max()) + 1
    sums: Floats = group_sums(draws, labels, groups)
    centres = sums / np.bincount(labels, minlength=groups)[:, None]
    centres.setflags(write=False)
    return centres
