"""From noisy moments to a covariance."""

from __future__ import annotations

import math

import numpy as np

from fedwad.ot import Floats

__all__ = ["fitted", "project_psd", "settled_covariance"]


def settled_covariance(
    mean: Floats, second: Floats, mean_noise: float, second_noise: float
) -> tuple[Floats, float]:
    """A covariance from a noisy mean and second moment, and the size below which its eigenvalues
    are noise.

    E[m m^T] is too large by the noise of m, which is taken off. Then the nearest matrix with the
    same trace and no negative eigenvalue: cutting off negative ones alone would add to the trace,
    which noise does not bias.
    """
    d = len(mean)
    covariance = second - np.outer(mean, mean) + mean_noise**2 * np.eye(d)
    return fitted(covariance), max(second_noise * math.sqrt(d), 1e-12)


def fitted(covariance: Floats) -> Floats:
    """The nearest matrix of the same trace (at least almost zero) without negative eigenvalues."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    d = len(values)
    trace = max(float(values.sum()), 1e-12 * float(np.abs(values).max()), 1e-300)
    down = values[::-1]
    shifts = (np.cumsum(down) - trace) / np.arange(1, d + 1)
    kept = int(np.flatnonzero(down > shifts)[-1])
    return np.asarray((vectors * np.maximum(values - shifts[kept], 0.0)) @ vectors.T)


def project_psd(covariance: Floats, scales: Floats) -> Floats:
    """The same where the noise differs: nearest when each coordinate is measured by its scale, with
    the trace kept."""
    d = len(scales)
    found = fitted(covariance / np.outer(scales, scales)) * np.outer(scales, scales)
    trace, reached = float(np.trace(covariance)), float(np.trace(found))
    if trace <= 0 or reached <= 0:  # nothing but noise
        return np.asarray(np.eye(d) * max(trace, 0.0) / d)
    return np.asarray(found * (trace / reached))
