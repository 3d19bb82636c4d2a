"""The error that `fedwad plan` predicts against the error of real private releases.

    python -m benchmarks.private_plan                    # the table of docs/differential-privacy.md
    python -m benchmarks.private_plan --n 2000 --repeats 20

Both are about the plan's own kind of data: two Gaussians whose means are half a standard deviation
apart. The measured error is relative to the exact distance between the same samples.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import fedwad
from fedwad.ot import Floats
from fedwad.privacy import plan

CASES = ((2, 1.0), (8, 1.0), (8, 3.0), (20, 3.0))
NORMS = (2.0, 3.5, 7.0)


def samples(n: int, d: int, seed: int) -> tuple[Floats, Floats, float]:
    """Two datasets as the plan simulates them, and the typical norm of a sample."""
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1.0, 10**-0.5, d)
    spread = math.sqrt(float((scales**2).sum()))
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    step = turn[:, 0] * spread / 2
    first = (rng.standard_normal((n, d)) * scales) @ turn.T - step / 2
    second = (rng.standard_normal((n, d)) * scales * 1.2) @ turn.T + step / 2
    return first, second, spread


def measured(n: int, d: int, epsilon: float, norm: float, repeats: int) -> tuple[float, float]:
    """Root mean square and mean of the relative errors of private distances."""
    errors = []
    for seed in range(repeats):
        first, second, spread = samples(n, d, seed)
        guarantee = fedwad.DP(epsilon, clip_norm=norm * spread)
        found = fedwad.distance(first, second, privacy=guarantee, seed=seed)
        errors.append(found.value / fedwad.wasserstein(first, second) - 1)
    return math.sqrt(float(np.mean(np.square(errors)))), float(np.mean(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=6)
    given = parser.parse_args()
    print("| d | epsilon | clip norm | plan | measured | mean error |\n|---|---|---|---|---|---|")
    for d, epsilon in CASES:
        for norm in NORMS:
            said = plan(given.n, d, epsilon, clip_norm=norm).error
            error, bias = measured(given.n, d, epsilon, norm, given.repeats)
            print(f"| {d} | {epsilon:g} | {norm:g} | {said:.1%} | {error:.1%} | {bias:+.1%} |")


if __name__ == "__main__":
    main()
