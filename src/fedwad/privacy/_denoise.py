"""Denoised moments of a release: a summary for estimates, and the noise that is left in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot import Floats, Summary
from fedwad.privacy._psd import project_psd
from fedwad.privacy._release import Release

__all__ = ["DenoisedMoments", "class_means", "denoise"]

_LEAST_MASS = 1e-3
_CLEAR = 4.0  # standard deviations of noise from which a class counts as present


@dataclass(frozen=True, eq=False)
class DenoisedMoments:
    """Denoised mean and covariance of one client's data, along the axes of its whitening.

    A sample is x = centre + axes y. `mean_noise` (d,) and `second_noise` (d, d) are the standard
    deviations of the noise in the mean and in the second moment of y.
    """

    count: int
    centre: Floats
    axes: Floats
    mean: Floats
    covariance: Floats
    mean_noise: Floats
    second_noise: Floats
    cells: tuple[Floats, Floats] | None  # masses and means, along the axes

    @property
    def summary(self) -> Summary:
        """Cells with a common covariance inside, whose total moments are the denoised ones."""
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

    @property
    def feature_noise(self) -> tuple[Floats, Floats]:
        """Variances that the noise gives to the mean and to the variance of each feature."""
        squares = self.axes**2
        of_mean = squares @ self.mean_noise**2
        second = self.second_noise**2
        diagonal = squares**2 @ np.diag(second)
        of_second = 2 * np.einsum("ki,ij,kj->k", squares, second, squares) - diagonal
        offset = self.axes @ self.mean
        return of_mean, of_second + 4 * offset**2 * of_mean

    def redrawn(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Mean and covariance in the original features, from another release of similar data."""
        d = len(self.mean)
        mean = self.mean + self.mean_noise * rng.standard_normal(d)
        noise = np.triu(rng.standard_normal((d, d)))
        second = self.covariance + np.outer(self.mean, self.mean)
        second = second + self.second_noise * (noise + np.triu(noise, 1).T)
        covariance = _covariance(mean, second, self.mean_noise, self.second_noise)
        return self.centre + self.axes @ mean, self.axes @ covariance @ self.axes.T


def denoise(release: Release) -> DenoisedMoments:
    """Combine both noisy sums, and project the covariance to the positive semidefinite matrices.

    The first sums have equal noise in every direction; the second have noise proportional to the
    standard deviation. Inverse-variance weighting combines them, number by number.
    """
    values, axes = np.linalg.eigh((release.whitening + release.whitening.T) / 2)
    width = 1 / values  # about the standard deviation along each axis
    shift = axes.T @ (release.origin - release.centre)
    u = release.clip_norm * axes.T @ release.first_mean
    first_mean = u + shift
    first_second_moment = release.clip_norm**2 * axes.T @ release.first_second @ axes
    first_second_moment = (
        first_second_moment + np.outer(u, shift) + np.outer(shift, u) + np.outer(shift, shift)
    )
    mean = release.whitened_clip_norm * width * (axes.T @ release.mean)
    widths = np.outer(width, width)
    second_moment = release.whitened_clip_norm**2 * widths * (axes.T @ release.second @ axes)
    d = len(mean)
    factor = np.where(np.eye(d) > 0, 1.0, math.sqrt(0.5))
    first_noise, noise = float(release.noise[0]), float(release.noise[1])
    mean, mean_noise = _averaged(
        first_mean,
        np.full(d, release.clip_norm * first_noise),
        mean,
        release.whitened_clip_norm * noise * np.abs(width),
    )
    second_moment, second_noise = _averaged(
        first_second_moment,
        release.clip_norm**2 * first_noise * factor,
        second_moment,
        release.whitened_clip_norm**2 * noise * np.abs(widths) * factor,
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
    """Of a release by classes: indices of those that exceed the noise, their shares, and means in
    the original features."""
    # Shares are not rescaled: samples of unnamed classes belong to none.
    kept, masses, means = _noisy_cells(
        release, np.where(release.masses > _CLEAR * release.noise[2], release.masses, 0.0)
    )
    order = np.flatnonzero(kept)
    if not len(order):
        return order, masses, means
    return order, masses, release.centre + np.linalg.solve(release.whitening, means.T).T


def _averaged(
    first: Floats, first_noise: Floats, other: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """The inverse-variance weighted mean of two noisy arrays, and its noise."""
    share = 1 / (1 + (first_noise / noise) ** 2)  # never 0 / 0: neither noise is zero
    return share * first + (1 - share) * other, first_noise * np.sqrt(share)


def _covariance(mean: Floats, second: Floats, mean_noise: Floats, second_noise: Floats) -> Floats:
    """E[m m^T] is too large by the variance of m's noise, which is subtracted."""
    return project_psd(
        second - np.outer(mean, mean) + np.diag(mean_noise**2), np.sqrt(np.diag(second_noise))
    )


def _cells(
    release: Release, mean: Floats, axes: Floats, width: Floats
) -> tuple[Floats, Floats] | None:
    """Masses (positive, sum one) and means of the cells.

    The noisy mean of a cell is shrunk towards its centre by its share of noise. Then all means are
    moved together so that their mean is right.
    """
    if not len(release.centres):
        return None
    _, masses, means = _noisy_cells(release, _simplex(release.masses))
    if len(masses) < 2:
        return None
    means = (means @ axes) * width
    return masses, means + (mean - masses @ means)


def _noisy_cells(release: Release, masses: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Which cells of these masses exceed the noise, their masses (sum one) and whitened means."""
    noise, d = float(release.noise[2]), release.centres.shape[1]
    kept = masses > max(_LEAST_MASS / len(masses), 2 * noise)
    if not kept.any():
        return kept, np.zeros(0), np.zeros((0, d))
    total = masses[kept].sum()
    masses = masses[kept] / total
    offsets = release.sums[kept] / total - masses[:, None] * release.centres[kept]
    signal = np.maximum((offsets**2).sum() / (len(masses) * d) - (noise / total) ** 2, 0.0)
    offsets = offsets * signal / (signal + (noise / total) ** 2)
    return (
        kept,
        masses,
        release.whitened_clip_norm * (release.centres[kept] + offsets / masses[:, None]),
    )


def _simplex(masses: Floats) -> Floats:
    """The nearest non-negative masses that sum to one."""
    down = np.sort(masses)[::-1]
    shifts = (np.cumsum(down) - 1) / np.arange(1, len(masses) + 1)
    kept = int(np.flatnonzero(down > shifts)[-1])
    return np.asarray(np.maximum(masses - shifts[kept], 0.0))
