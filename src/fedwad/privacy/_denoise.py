"""Denoised moments of a release: a summary for estimates, and the noise that is left in it.

Below, the effect of the noise of releases on distances between them, from simulated releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.privacy._release import Release, nearest_in_simplex, project_psd
from fedwad.statistics import Summary
from fedwad.statistics.populations import bures_square, root_of
from fedwad.statistics.synthetic import content_seed
from fedwad.transport import Floats


@dataclass(frozen=True, eq=False)
class DenoisedMoments:
    """Denoised mean and covariance of one site's data, in coordinates y.

    A sample is x = centre + axes y, where the columns of `axes` are the eigenvectors of the
    whitening matrix of the release. `mean` and `covariance` are those of y. `mean_noise` (d,) and
    `second_noise` (d, d) are the standard deviations of the noise in the mean and in the second
    moment of y.
    """

    count: int
    centre: Floats
    axes: Floats
    mean: Floats
    covariance: Floats
    mean_noise: Floats
    second_noise: Floats
    cells: tuple[Floats, Floats] | None  # masses, and means of y

    @property
    def summary(self) -> Summary:
        """A summary whose total mean and covariance are the denoised ones."""
        masses, means = self.cells or (np.ones(1), self.mean[None])
        within = self.covariance
        if self.cells:
            centred = means - self.mean
            within = project_psd(within - (centred.T * masses) @ centred, np.ones(len(within)))
        covariance = self.axes @ within @ self.axes.T
        covariance = (covariance + covariance.T) / 2
        return Summary(
            weights=masses,
            means=self.centre + means @ self.axes.T,
            covariance=covariance,
            count=self.count,
            within_std=math.sqrt(max(0.0, float(np.trace(covariance)))),
            p=2.0,
            min_cell_size=self.count,
        )

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and covariance in the original features."""
        return self.centre + self.axes @ self.mean, self.axes @ self.covariance @ self.axes.T

    def simulate_release(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Mean and covariance of another release of the same site, with new noise added to these.

        They are denoised, and in the original features.
        """
        d = len(self.mean)
        mean = self.mean + self.mean_noise * rng.standard_normal(d)
        noise = np.triu(rng.standard_normal((d, d)))
        second = self.covariance + np.outer(self.mean, self.mean)
        second = second + self.second_noise * (noise + np.triu(noise, 1).T)
        covariance = _covariance(mean, second, self.mean_noise, self.second_noise)
        return self.centre + self.axes @ mean, self.axes @ covariance @ self.axes.T


def denoise(release: Release) -> DenoisedMoments:
    """Average the first and the second moments of a release, and make the covariance positive.

    A release has these moments twice. The noise of its first sums is equal in every direction. The
    noise of its second sums, over whitened samples, is proportional to the standard deviation of
    the data in each direction. Each entry is averaged with inverse-variance weights. The covariance
    is then projected to the positive semidefinite matrices.
    """
    values, axes = np.linalg.eigh((release.whitening + release.whitening.T) / 2)
    width = 1 / values  # about the standard deviation along each axis
    shift = axes.T @ (release.origin - release.centre)
    unshifted = release.clip_norm * axes.T @ release.first_mean
    first_mean = unshifted + shift
    first_second_moment = release.clip_norm**2 * axes.T @ release.first_second @ axes
    first_second_moment = (
        first_second_moment
        + np.outer(unshifted, shift)
        + np.outer(shift, unshifted)
        + np.outer(shift, shift)
    )
    mean = release.whitened_clip_norm * width * (axes.T @ release.mean)
    widths = np.outer(width, width)
    second_moment = release.whitened_clip_norm**2 * widths * (axes.T @ release.second @ axes)
    d = len(mean)
    noise_factor = np.where(np.eye(d) > 0, 1.0, math.sqrt(0.5))  # less noise off the diagonal
    first_noise, noise = float(release.noise[0]), float(release.noise[1])
    mean, mean_noise = _weighted_mean(
        first_mean,
        np.full(d, release.clip_norm * first_noise),
        mean,
        release.whitened_clip_norm * noise * np.abs(width),
    )
    second_moment, second_noise = _weighted_mean(
        first_second_moment,
        release.clip_norm**2 * first_noise * noise_factor,
        second_moment,
        release.whitened_clip_norm**2 * noise * np.abs(widths) * noise_factor,
    )
    return DenoisedMoments(
        count=release.count,
        centre=release.centre,
        axes=axes,
        mean=mean,
        covariance=_covariance(mean, second_moment, mean_noise, second_noise),
        mean_noise=mean_noise,
        second_noise=second_noise,
        cells=_cells(release, mean, axes, width),
    )


def class_means(release: Release) -> tuple[NDArray[np.int64], Floats, Floats]:
    """The classes of a release that exceed its noise, for a release whose cells are classes.

    The result is their indices among the public names, their shares (sum one) and their means in
    the original features.
    """
    # Masses are compared with four standard deviations of the noise as they are. They need not sum
    # to one, since samples of classes without a public name have no cell.
    is_present = release.masses > 4.0 * release.noise[2]
    above_noise, masses, means = _denoised_cells(release, np.where(is_present, release.masses, 0.0))
    present = np.flatnonzero(above_noise)
    if not len(present):
        return present, masses, means
    return present, masses, release.centre + np.linalg.solve(release.whitening, means.T).T


def _weighted_mean(
    first: Floats, first_noise: Floats, second: Floats, second_noise: Floats
) -> tuple[Floats, Floats]:
    """The inverse-variance weighted mean of two noisy arrays, and its noise."""
    weight = 1 / (1 + (first_noise / second_noise) ** 2)  # never 0 / 0: neither noise is zero
    return weight * first + (1 - weight) * second, first_noise * np.sqrt(weight)


def _covariance(mean: Floats, second: Floats, mean_noise: Floats, second_noise: Floats) -> Floats:
    """The covariance from a noisy mean m and second moment, projected to be positive semidefinite.

    On average, m m^T is too large by the variance of the noise in m, which is added back.
    """
    return project_psd(
        second - np.outer(mean, mean) + np.diag(mean_noise**2), np.sqrt(np.diag(second_noise))
    )


def _cells(
    release: Release, mean: Floats, axes: Floats, width: Floats
) -> tuple[Floats, Floats] | None:
    """Masses (positive, sum one) and means of the cells, in the coordinates of `DenoisedMoments`.

    All means are moved together so that their weighted mean is `mean`. The result is None if fewer
    than two cells exceed the noise.
    """
    if not len(release.centres):
        return None
    _, masses, means = _denoised_cells(release, nearest_in_simplex(release.masses, 1.0))
    if len(masses) < 2:
        return None
    means = (means @ axes) * width
    return masses, means + (mean - masses @ means)


def _denoised_cells(release: Release, masses: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Which cells of these masses exceed the noise and a thousandth of the mean mass of a cell,
    their masses (sum one) and whitened means.

    The noisy mean of a cell is shrunk towards the centre of the cell. The fraction that remains of
    their difference is signal variance / (signal variance + noise variance), over all cells.
    """
    noise, d = float(release.noise[2]), release.centres.shape[1]
    above_noise = masses > max(1e-3 / len(masses), 2 * noise)
    if not above_noise.any():
        return above_noise, np.zeros(0), np.zeros((0, d))
    total = masses[above_noise].sum()
    masses, centres = masses[above_noise] / total, release.centres[above_noise]
    offsets = release.sums[above_noise] / total - masses[:, None] * centres
    noise_variance = (noise / total) ** 2
    signal_variance = np.maximum((offsets**2).sum() / (len(masses) * d) - noise_variance, 0.0)
    offsets = offsets * signal_variance / (signal_variance + noise_variance)
    means = release.whitened_clip_norm * (centres + offsets / masses[:, None])
    return above_noise, masses, means


def without_privacy_noise(
    value: float,
    denoised: Sequence[DenoisedMoments],
    seed: int = 0,
    draws: int = 200,
    most_bias: float = 0.9,
    summary_error: float = 0.16,
) -> tuple[float, float, float]:
    """A distance between two samples without the bias of noise for privacy, and the ends of a
    likely range of the true one.

    Between normal populations W2^2 = |m - m'|^2 + tr C + tr C' - 2 |C^1/2 C'^1/2|_* is computed
    from the denoised moments, and from those of simulated releases, `draws` for each site: by how
    much they exceed it on average is their bias.

    A squared distance between samples is partly a distance between populations and partly sampling
    noise, which hides the noise of releases. The bias is subtracted in proportion to the first
    part, and never more than `most_bias` of the squared distance. The range extends to both sides
    by two standard deviations of the noise, half of what was subtracted, and `summary_error` for
    the typical error of an estimate from moments (8% of a distance). Nothing certifies it.
    """
    between = _squared_distance(*(one.moments for one in denoised))
    rngs = [np.random.default_rng([seed, content_seed(one.summary)]) for one in denoised]
    simulated = [
        _squared_distance(
            *(one.simulate_release(rng) for one, rng in zip(denoised, rngs, strict=True))
        )
        for _ in range(draws)
    ]
    square = value**2
    fraction = min(between / square, 1.0) if square > 0 else 1.0
    bias = min(fraction * max(float(np.mean(simulated)) - between, 0.0), most_bias * square)
    corrected = square - bias
    width = 1.96 * float(np.std(simulated)) + bias / 2 + summary_error * corrected
    low, high = math.sqrt(max(corrected - width, 0.0)), math.sqrt(corrected + width)
    return math.sqrt(corrected), low, high


def _squared_distance(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> float:
    """W2^2 between normal distributions with these means and covariances."""
    (mean, covariance), (other_mean, other) = first, second
    means = float(((mean - other_mean) ** 2).sum())
    return means + bures_square(root_of(covariance), root_of(other))
