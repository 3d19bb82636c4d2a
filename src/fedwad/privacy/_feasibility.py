"""The error to expect before anything is spent, from releases of simulated data of equal size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_integer, format_value
from fedwad.errors import InputError
from fedwad.ot import Floats, Measure, solve
from fedwad.privacy._accounting import is_number, mu_of
from fedwad.privacy._denoise import denoise
from fedwad.privacy._noise import privacy_noise_effect
from fedwad.privacy._release import release
from fedwad.privacy._split import MOST_FEATURES, split

__all__ = ["FeasibilityReport", "Verdict", "plan"]

Verdict = Literal["feasible", "rough", "not feasible"]
_MAX_FEASIBLE_ERROR, _MAX_ROUGH_ERROR = 0.1, 0.3  # of the verdicts "feasible" and "rough"
_TRIALS = 8
_SYNTHETIC_SIZE, _DRAWS = 200, 3  # size and number of the synthetic samples of each dataset
_MAX_SIMULATED = 20_000  # samples of a dataset; for more the noise is scaled instead
_VARIANCE_RATIO = 10.0  # largest over smallest variance of the principal directions


@dataclass(frozen=True)
class FeasibilityReport:
    """The likely error of a distance under this guarantee.

    `error` is the root mean square relative error due to noise and clipping, for two simulated
    datasets whose means are half a standard deviation apart. `enough` is about the number of
    samples with which it would be 0.1, or `n` if it is no larger. `clipped` is the fraction of
    clipped samples. With few features clipping, not noise, may cause most of the error; then a
    larger norm is better.
    """

    n: int
    d: int
    epsilon: float
    delta: float
    mu: float
    clip_norm: float
    error: float
    verdict: Verdict
    enough: int
    cells: int
    clipped: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def plan(
    n: int, d: int, epsilon: float, delta: float = 1e-5, clip_norm: float = 2.0, seed: int = 0
) -> FeasibilityReport:
    """Simulate private releases of n samples of d features, and report the error of a distance.

    Parameters
    ----------
    n, d : samples of each client, and features
    epsilon, delta : the guarantee
    clip_norm : the public clip norm, in units of the typical norm of a sample; 2 is a careful,
        common choice
    seed : of the simulated data and their noise

    Examples
    --------
    >>> plan(2000, 2, epsilon=1).verdict, plan(200, 64, epsilon=1).verdict
    ('feasible', 'not feasible')
    """
    n, d = check_integer(n, "n", 2), check_integer(d, "d")
    if d > MOST_FEATURES:
        raise InputError(
            f"d is {d}; private releases have up to {MOST_FEATURES} features: reduce them first."
        )
    seed = check_integer(seed, "seed", 0)
    if not is_number(clip_norm) or not 0.1 <= clip_norm <= 1000:
        raise InputError(
            f"clip_norm is {format_value(clip_norm)}; give it in units of a sample's typical norm,"
            " 0.1 to 1000."
        )
    mu = mu_of(epsilon, delta)
    simulated = min(n, _MAX_SIMULATED)
    rng = np.random.default_rng(seed)
    with single_threaded_blas():
        trials = [
            _simulate(simulated, d, mu * n / simulated, clip_norm, rng) for _ in range(_TRIALS)
        ]
    error = float(np.sqrt(np.mean([relative**2 for relative, _ in trials])))
    verdict: Verdict = "rough" if error <= _MAX_ROUGH_ERROR else "not feasible"
    if error <= _MAX_FEASIBLE_ERROR:
        verdict = "feasible"
    return FeasibilityReport(
        n=n,
        d=d,
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        clip_norm=clip_norm,
        error=error,
        verdict=verdict,
        # The noise of means decreases as 1 / n.
        enough=n if verdict == "feasible" else math.ceil(n * error / _MAX_FEASIBLE_ERROR),
        cells=split(n, d, mu).n_cells,
        clipped=float(np.mean([clipped for _, clipped in trials])),
    )


def _simulate(
    n: int, d: int, mu: float, clip_norm: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Relative error of one distance between two simulated datasets, and the fraction of clipped
    samples."""
    scales = np.geomspace(1.0, _VARIANCE_RATIO**-0.5, d)
    spread = float(np.sqrt((scales**2).sum()))
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    gap = rotation[:, 0] * spread / 2
    true_moments: list[tuple[Floats, Floats]] = []
    denoised, clipped = [], []
    for shift, scale in ((-gap / 2, 1.0), (gap / 2, 1.2)):
        points = (rng.standard_normal((n, d)) * scales * scale) @ rotation.T + shift
        true_moments.append((points.mean(axis=0), np.cov(points.T, bias=True).reshape(d, d)))
        # Nothing private is released here, so a seeded generator may draw the noise.
        noisy = release(points, clip_norm * spread, np.zeros(d), None, split(n, d, mu), rng.bytes)
        denoised.append(denoise(noisy))
        clipped.append(np.mean(np.sqrt((points**2).sum(axis=1)) > clip_norm * spread))
    draws = rng.standard_normal((_DRAWS, 2, min(n, _SYNTHETIC_SIZE), d))
    true_value = _distance(true_moments, draws)
    noisy_value = _distance([one.moments for one in denoised], draws)
    effect = privacy_noise_effect(denoised, draws=20)
    value = effect.correct(np.full((2, 2), noisy_value))[0][0, 1]
    return float(value) / true_value - 1, float(np.mean(clipped))


def _distance(moments: list[tuple[Floats, Floats]], draws: Floats) -> float:
    """Distance between two synthetic samples with these means and covariances.

    They are made of standard normal `draws` (draws, 2, size, d), so that distances of different
    moments can be compared.
    """
    total = 0.0
    for pair in draws:
        samples = []
        for (mean, covariance), normal in zip(moments, pair, strict=True):
            values, vectors = np.linalg.eigh(covariance)
            root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            samples.append(Measure(mean + (normal - normal.mean(axis=0)) @ root))
        total += solve(samples[0], samples[1]).cost / len(draws)
    return math.sqrt(total)
