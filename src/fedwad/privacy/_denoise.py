"""What a server makes of a release: a summary as an estimate works with, and how sure it can be of
it."""

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
_CLEAR = 4.0  # deviations of noise beyond which a class is there


@dataclass(frozen=True, eq=False)
class DenoisedMoments:
    """Mean and covariance of one client's data as seen through noise, along the axes of its frame.

    A sample is x = centre + axes y. `mean_noise` (d,) and `second_noise` (d, d) are the standard
    deviations of each number of the mean and of the second moment of y.
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
        """The data as cells with a common covariance inside, whose total moments are those of the
        picture."""
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
        """Mean and covariance in features."""
        return self.centre + self.axes @ self.mean, self.axes @ self.covariance @ self.axes.T

    def redrawn(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Mean and covariance, in features, that another release of data like these would have led
        to."""
        d = len(self.mean)
        mean = self.mean + self.mean_noise * rng.standard_normal(d)
        noise = np.triu(rng.standard_normal((d, d)))
        second = self.covariance + np.outer(self.mean, self.mean)
        second = second + self.second_noise * (noise + np.triu(noise, 1).T)
        covariance = _covariance(mean, second, self.mean_noise, self.second_noise)
        return self.centre + self.axes @ mean, self.axes @ covariance @ self.axes.T


def denoise(release: Release) -> DenoisedMoments:
    """Average both looks, number by number, each by how little noise it has there, and settle the
    covariance.

    Along the frame's axes the first look has the same noise in all directions and the second has
    noise in proportion to how wide the data are, so the one is better where they are wide and the
    other where they are narrow.
    """
    values, axes = np.linalg.eigh((release.whitening + release.whitening.T) / 2)
    width = 1 / values  # about the standard deviation along each axis
    shift = axes.T @ (release.origin - release.centre)
    u = release.clip_norm * axes.T @ release.first_mean
    first_mean = u + shift
    first_second = release.clip_norm**2 * axes.T @ release.first_second @ axes
    first_second = first_second + np.outer(u, shift) + np.outer(shift, u) + np.outer(shift, shift)
    mean = release.whitened_clip_norm * width * (axes.T @ release.mean)
    widths = np.outer(width, width)
    second = release.whitened_clip_norm**2 * widths * (axes.T @ release.second @ axes)
    d = len(mean)
    factor = np.where(np.eye(d) > 0, 1.0, math.sqrt(0.5))
    first, again = float(release.noise[0]), float(release.noise[1])
    mean, mean_noise = _averaged(
        first_mean,
        np.full(d, release.clip_norm * first),
        mean,
        release.whitened_clip_norm * again * np.abs(width),
    )
    second, second_noise = _averaged(
        first_second,
        release.clip_norm**2 * first * factor,
        second,
        release.whitened_clip_norm**2 * again * np.abs(widths) * factor,
    )
    return DenoisedMoments(
        count=release.count,
        centre=release.centre,
        axes=axes,
        mean=mean,
        covariance=_covariance(mean, second, mean_noise, second_noise),
        mean_noise=mean_noise,
        second_noise=second_noise,
        cells=_cells(release, mean, axes, width),
    )


def class_means(release: Release) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Of a release by classes: the places of those that stand out of the noise, their shares, and
    means in features."""
    # Shares as they are: samples of no named class are no part of any.
    kept, masses, means = _noisy_cells(
        release, np.where(release.masses > _CLEAR * release.noise[2], release.masses, 0.0)
    )
    order = np.flatnonzero(kept)
    if not len(order):
        return order, masses, means
    return order, masses, release.centre + np.linalg.solve(release.whitening, means.T).T


def _averaged(
    first: Floats, first_noise: Floats, again: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """The best average of two noisy arrays, and its noise."""
    share = 1 / (1 + (first_noise / noise) ** 2)  # never 0 / 0: neither noise is zero
    return share * first + (1 - share) * again, first_noise * np.sqrt(share)


def _covariance(mean: Floats, second: Floats, mean_noise: Floats, second_noise: Floats) -> Floats:
    """E[m m^T] is too large by the noise of m, which is taken off."""
    return project_psd(
        second - np.outer(mean, mean) + np.diag(mean_noise**2), np.sqrt(np.diag(second_noise))
    )


def _cells(
    release: Release, mean: Floats, axes: Floats, width: Floats
) -> tuple[Floats, Floats] | None:
    """Masses and means of the cells: masses positive with sum one, means no farther than noise lets
    them be told.

    The noisy mean of a cell is drawn towards its centre by the share of noise in it, and all are
    moved together so that the mean of all is right.
    """
    if not len(release.centres):
        return None
    _, masses, means = _noisy_cells(release, _simplex(release.masses))
    if len(masses) < 2:
        return None
    means = (means @ axes) * width
    return masses, means + (mean - masses @ means)


def _noisy_cells(release: Release, masses: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Which cells of these masses stand out of the noise, their masses, sum one, and their means in
    the frame."""
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
    """The nearest masses that are not negative and sum to one."""
    down = np.sort(masses)[::-1]
    shifts = (np.cumsum(down) - 1) / np.arange(1, len(masses) + 1)
    kept = int(np.flatnonzero(down > shifts)[-1])
    return np.asarray(np.maximum(masses - shifts[kept], 0.0))
