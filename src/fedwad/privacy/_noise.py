"""The effect of noise on distances between releases, simulated by further releases of similar
data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.ot import Floats
from fedwad.privacy._denoise import DenoisedMoments

__all__ = ["Effect", "noise_effect"]

_Z = 1.96  # standard deviations to both sides that contain 95%
_MAX_BIAS = 0.9  # largest share of a squared distance that is subtracted
# Typical error of an estimate from moments without noise, as a share of a squared distance (8% of a
# distance).
_SUMMARY_ERROR = 0.16


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of noise on squared distances between Gaussian populations, each (N, N): the
    squared distances (`populations`), their mean excess due to noise, and their standard
    deviation."""

    populations: Floats
    bias: Floats
    deviation: Floats

    def corrected(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Distances without the bias, and a likely range of the true ones.

        A squared distance between samples is partly a distance between populations and partly
        sampling noise, which hides the noise of releases. The bias is subtracted in proportion to
        the first part. The range is two standard deviations of the noise, half of what was
        subtracted, and 8% for the error of a summary. It is not a certificate.
        """
        squares = values**2
        share = np.clip(self.populations / np.where(squares > 0, squares, 1.0), 0.0, 1.0)
        bias = np.minimum(share * self.bias, _MAX_BIAS * squares)
        corrected = squares - bias
        width = _Z * self.deviation + bias / 2 + _SUMMARY_ERROR * corrected
        low, high = np.sqrt(np.maximum(corrected - width, 0.0)), np.sqrt(corrected + width)
        return np.sqrt(corrected), low, high


def noise_effect(
    denoised: Sequence[DenoisedMoments], seed: int = 0, draws: int | None = None
) -> Effect:
    """The effect of noise on the distances between Gaussians with these moments.

    W2^2 = |m - m'|^2 + tr C + tr C' - 2 |C^1/2 C'^1/2|_* is computed from the denoised moments and
    from those of further simulated releases.
    """
    count = len(denoised)
    if draws is None:
        draws = 200 if count == 2 else 40
    known = _squares([one.moments for one in denoised])
    rngs = [np.random.default_rng([seed, index]) for index in range(count)]
    found = np.array(
        [
            _squares([one.redrawn(rng) for one, rng in zip(denoised, rngs, strict=True)])
            for _ in range(draws)
        ]
    )
    return Effect(known, np.maximum(found.mean(axis=0) - known, 0.0), found.std(axis=0))


def _squares(moments: Sequence[tuple[Floats, Floats]]) -> Floats:
    roots, traces = [], []
    for _, covariance in moments:
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        values = np.maximum(values, 0.0)
        roots.append((vectors * np.sqrt(values)) @ vectors.T)
        traces.append(float(values.sum()))
    found = np.zeros((len(moments), len(moments)))
    for i in range(len(moments)):
        for j in range(i):
            means = float(((moments[i][0] - moments[j][0]) ** 2).sum())
            overlap = float(np.linalg.svd(roots[i] @ roots[j], compute_uv=False).sum())
            found[i, j] = found[j, i] = max(0.0, means + traces[i] + traces[j] - 2 * overlap)
    return found
