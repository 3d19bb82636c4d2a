"""Positive semidefinite covariances from noisy moments."""

from __future__ import annotations

import math

import numpy as np

from fedwad.ot import Floats

__all__ = ["covariance_from_moments", "nearest_in_simplex", "nearest_psd", "project_psd"]


def covariance_from_moments(
    mean: Floats, second_moment: Floats, mean_noise: float, second_noise: float
) -> tuple[Floats, float]:
    """A covariance from a noisy mean m and second moment, and the size below which eigenvalues are
    noise.

    On average, m m^T is too large by the variance of the noise in m, which is added back. The
    covariance is the nearest matrix with the same trace and without negative eigenvalues. To set
    negative eigenvalues to zero would increase the trace, which noise does not bias.
    """
    d = len(mean)
    covariance = second_moment - np.outer(mean, mean) + mean_noise**2 * np.eye(d)
    return nearest_psd(covariance), max(second_noise * math.sqrt(d), 1e-12)


def nearest_psd(covariance: Floats) -> Floats:
    """The nearest matrix without negative eigenvalues and with the same trace.

    If the trace is not positive, that of the result is almost zero.
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    trace = max(float(values.sum()), 1e-12 * float(np.abs(values).max()), 1e-300)
    return np.asarray((vectors * nearest_in_simplex(values, trace)) @ vectors.T)


def nearest_in_simplex(values: Floats, total: float) -> Floats:
    """The nearest non-negative numbers with this sum."""
    descending = np.sort(values)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    last_positive = int(np.flatnonzero(descending > shifts)[-1])
    return np.asarray(np.maximum(values - shifts[last_positive], 0.0))


def project_psd(covariance: Floats, scales: Floats) -> Floats:
    """`nearest_psd` for noise that differs by coordinate: nearest in units of `scales`.

    The result has the same trace, or zero if that is negative.
    """
    d = len(scales)
    projected = nearest_psd(covariance / np.outer(scales, scales)) * np.outer(scales, scales)
    trace, projected_trace = float(np.trace(covariance)), float(np.trace(projected))
    if trace <= 0 or projected_trace <= 0:  # nothing but noise
        return np.asarray(np.eye(d) * max(trace, 0.0) / d)
    return np.asarray(projected * (trace / projected_trace))
