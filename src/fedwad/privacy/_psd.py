"""Projection of noisy moments to positive semidefinite covariances."""

from __future__ import annotations

import math

import numpy as np

from fedwad.ot import Floats

__all__ = ["covariance_from_moments", "nearest_psd", "project_psd"]


def covariance_from_moments(
    mean: Floats, second_moment: Floats, mean_noise: float, second_noise: float
) -> tuple[Floats, float]:
    """A covariance from a noisy mean and second moment, and the size below which eigenvalues are
    noise.

    E[m m^T] is too large by the variance of m's noise, which is subtracted. The result is the
    nearest matrix with the same trace and without negative eigenvalues. Clipping alone would
    increase the trace, which noise does not bias.
    """
    d = len(mean)
    covariance = second_moment - np.outer(mean, mean) + mean_noise**2 * np.eye(d)
    return nearest_psd(covariance), max(second_noise * math.sqrt(d), 1e-12)


def nearest_psd(covariance: Floats) -> Floats:
    """The nearest matrix with the same trace (or almost zero) and no negative eigenvalues."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    d = len(values)
    trace = max(float(values.sum()), 1e-12 * float(np.abs(values).max()), 1e-300)
    descending = values[::-1]
    shifts = (np.cumsum(descending) - trace) / np.arange(1, d + 1)
    last_kept = int(np.flatnonzero(descending > shifts)[-1])
    return np.asarray((vectors * np.maximum(values - shifts[last_kept], 0.0)) @ vectors.T)


def project_psd(covariance: Floats, scales: Floats) -> Floats:
    """The same for noise that differs by coordinate: the matrix nearest in units of `scales`, with
    the same trace."""
    d = len(scales)
    found = nearest_psd(covariance / np.outer(scales, scales)) * np.outer(scales, scales)
    trace, projected_trace = float(np.trace(covariance)), float(np.trace(found))
    if trace <= 0 or projected_trace <= 0:  # nothing but noise
        return np.asarray(np.eye(d) * max(trace, 0.0) / d)
    return np.asarray(found * (trace / projected_trace))
