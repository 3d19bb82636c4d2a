"""The effect of the noise of releases on distances between them, from simulated releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.ot import Floats
from fedwad.privacy._denoise import DenoisedMoments

__all__ = ["PrivacyNoiseEffect", "privacy_noise_effect"]

_Z = 1.96  # standard deviations to both sides that contain 95%
_MAX_BIAS = 0.9  # largest fraction of a squared distance that is subtracted
# Typical error of an estimate from moments without noise, as a fraction of a squared distance (8%
# of a distance).
_SUMMARY_ERROR = 0.16


@dataclass(frozen=True, eq=False)
class PrivacyNoiseEffect:
    """The effect of noise for privacy on squared distances between normal populations.

    Attributes, all (N, N)
    ----------------------
    squares : squared distances between the populations
    bias : by how much noise increases them on average
    std : their standard deviation due to noise
    """

    squares: Floats
    bias: Floats
    std: Floats

    def correct(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Distances between samples without the bias, and the ends of a likely range of true ones.

        A squared distance between samples is partly a distance between populations and partly
        sampling noise, which hides the noise of releases. The bias is subtracted in proportion to
        the first part. The range extends to both sides by two standard deviations of the noise,
        half of what was subtracted, and 8% for the error of a summary. Nothing certifies it.
        """
        squares = values**2
        fraction = np.clip(self.squares / np.where(squares > 0, squares, 1.0), 0.0, 1.0)
        bias = np.minimum(fraction * self.bias, _MAX_BIAS * squares)
        corrected = squares - bias
        width = _Z * self.std + bias / 2 + _SUMMARY_ERROR * corrected
        low, high = np.sqrt(np.maximum(corrected - width, 0.0)), np.sqrt(corrected + width)
        return np.sqrt(corrected), low, high


def privacy_noise_effect(
    denoised: Sequence[DenoisedMoments], seed: int = 0, draws: int | None = None
) -> PrivacyNoiseEffect:
    """The effect of noise for privacy on the distances between normal populations.

    W2^2 = |m - m'|^2 + tr C + tr C' - 2 |C^1/2 C'^1/2|_* is computed from the denoised moments, and
    from those of simulated releases, `draws` for each site.
    """
    count = len(denoised)
    if draws is None:
        draws = 200 if count == 2 else 40
    squares = _squared_distances([one.moments for one in denoised])
    rngs = [np.random.default_rng([seed, index]) for index in range(count)]
    simulated = np.array(
        [
            _squared_distances(
                [one.simulate_release(rng) for one, rng in zip(denoised, rngs, strict=True)]
            )
            for _ in range(draws)
        ]
    )
    bias = np.maximum(simulated.mean(axis=0) - squares, 0.0)
    return PrivacyNoiseEffect(squares, bias, simulated.std(axis=0))


def _squared_distances(moments: Sequence[tuple[Floats, Floats]]) -> Floats:
    """W2^2 between all pairs of normal distributions with these means and covariances, (N, N)."""
    roots, traces = [], []
    for _, covariance in moments:
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        values = np.maximum(values, 0.0)
        roots.append((vectors * np.sqrt(values)) @ vectors.T)
        traces.append(float(values.sum()))
    squares = np.zeros((len(moments), len(moments)))
    for i in range(len(moments)):
        for j in range(i):
            means = float(((moments[i][0] - moments[j][0]) ** 2).sum())
            overlap = float(np.linalg.svd(roots[i] @ roots[j], compute_uv=False).sum())
            squares[i, j] = squares[j, i] = max(0.0, means + traces[i] + traces[j] - 2 * overlap)
    return squares
