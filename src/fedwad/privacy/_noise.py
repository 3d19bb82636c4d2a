"""What the noise of releases does to distances between them, from releases of data alike, drawn
again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.ot import Floats
from fedwad.privacy._denoise import DenoisedMoments

__all__ = ["Effect", "noise_effect"]

_WIDTH = 1.96  # normal deviations to both sides that hold 95%
_MOST_BIAS = 0.9  # share of a squared distance that is taken off at most
# of a squared distance (8% of a distance): what an estimate from moments is often off without any
# noise
_MODEL = 0.16


@dataclass(frozen=True, eq=False)
class Effect:
    """What noise does to squared distances between Gaussians, each (N, N): how large they are
    (`laws`), by how much noise makes them too large on average, and how much they vary."""

    laws: Floats
    bias: Floats
    deviation: Floats

    def corrected(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Distances with the bias taken off, and the range in which the true ones are likely to be.

        The distance between samples is part distance between their laws and part randomness of the
        samples, which hides noise: so much of the bias is taken off as the first part is of the
        whole. The range is two standard deviations of the noise, half of what was taken off, and 8%
        for what a summary leaves out. It is no certificate.
        """
        squares = values**2
        share = np.clip(self.laws / np.where(squares > 0, squares, 1.0), 0.0, 1.0)
        off = np.minimum(share * self.bias, _MOST_BIAS * squares)
        right = squares - off
        width = _WIDTH * self.deviation + off / 2 + _MODEL * right
        low, high = np.sqrt(np.maximum(right - width, 0.0)), np.sqrt(right + width)
        return np.sqrt(right), low, high


def noise_effect(
    denoised: Sequence[DenoisedMoments], seed: int = 0, draws: int | None = None
) -> Effect:
    """The effect of noise on the distances between the Gaussians of these pictures, for which there
    is a formula.

    W2^2 = |m - m'|^2 + tr C + tr C' - 2 |C^1/2 C'^1/2|_*, from the pictures themselves and from
    pictures of further releases of such data.
    """
    count = len(denoised)
    if draws is None:
        draws = 200 if count == 2 else 40
    known = _squares([denoise.moments for denoise in denoised])
    rngs = [np.random.default_rng([seed, index]) for index in range(count)]
    found = np.array(
        [
            _squares([denoise.redrawn(rng) for denoise, rng in zip(denoised, rngs, strict=True)])
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
