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
from fedwad.privacy._noise import noise_effect
from fedwad.privacy._release import release
from fedwad.privacy._split import MOST_FEATURES, split

__all__ = ["FeasibilityReport", "Verdict", "plan"]

Verdict = Literal["feasible", "rough", "not feasible"]
_GOOD, _ROUGH = 0.1, 0.3
_TRIALS = 8
_SYNTHETIC, _DRAWS = 200, 3  # size and number of the samples that are compared
_MOST_SAMPLES = 20_000  # drawn; for more samples the noise is scaled instead
_SPECTRUM = 10.0  # largest over smallest variance of the principal directions


@dataclass(frozen=True)
class FeasibilityReport:
    """The likely error of a distance under this guarantee.

    `error` is the root mean square relative error due to noise and clipping, for two simulated
    datasets whose means are half a standard deviation apart. `enough` is about the number of
    samples that would reduce it to a tenth. `clipped` is the share of clipped samples. With few
    features clipping, not noise, may cause most of the error, and a larger norm is better.
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
    drawn = min(n, _MOST_SAMPLES)
    rng = np.random.default_rng(seed)
    with single_threaded_blas():
        trials = [_error(drawn, d, mu * n / drawn, clip_norm, rng) for _ in range(_TRIALS)]
    error = float(np.sqrt(np.mean([found**2 for found, _ in trials])))
    clipped = float(np.mean([share for _, share in trials]))
    verdict: Verdict = (
        "feasible" if error <= _GOOD else "rough" if error <= _ROUGH else "not feasible"
    )
    # The noise of means decreases as 1 / n.
    enough = n if error <= _GOOD else math.ceil(n * error / _GOOD)
    return FeasibilityReport(
        n,
        d,
        epsilon,
        delta,
        mu,
        clip_norm,
        error,
        verdict,
        enough,
        split(n, d, mu).n_cells,
        clipped,
    )


def _error(
    n: int, d: int, mu: float, clip_norm: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Relative error of one distance between two simulated datasets, and the share of clipped
    samples."""
    scales = np.geomspace(1.0, _SPECTRUM**-0.5, d)
    spread = float(np.sqrt((scales**2).sum()))
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    step = turn[:, 0] * spread / 2
    truths: list[tuple[Floats, Floats]] = []
    denoised, beyond = [], []
    for shift, scale in ((-step / 2, 1.0), (step / 2, 1.2)):
        points = (rng.standard_normal((n, d)) * scales * scale) @ turn.T + shift
        truths.append((points.mean(axis=0), np.cov(points.T, bias=True).reshape(d, d)))
        # Nothing private is released here, so a seeded generator may draw the noise.
        found = release(points, clip_norm * spread, np.zeros(d), None, split(n, d, mu), rng.bytes)
        denoised.append(denoise(found))
        beyond.append(np.mean(np.sqrt((points**2).sum(axis=1)) > clip_norm * spread))
    draws = rng.standard_normal((_DRAWS, 2, min(n, _SYNTHETIC), d))
    true, noisy = _distance(truths, draws), _distance([one.moments for one in denoised], draws)
    value = noise_effect(denoised, draws=20).corrected(np.full((2, 2), noisy))[0][0, 1]
    return float(value) / true - 1, float(np.mean(beyond))


def _distance(moments: list[tuple[Floats, Floats]], draws: Floats) -> float:
    """Distance between samples with these moments, from the same draws for any moments."""
    total = 0.0
    for pair in draws:
        sides = []
        for (mean, covariance), normal in zip(moments, pair, strict=True):
            values, vectors = np.linalg.eigh(covariance)
            root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            sides.append(Measure(mean + (normal - normal.mean(axis=0)) @ root))
        total += solve(sides[0], sides[1]).cost / len(draws)
    return math.sqrt(total)
