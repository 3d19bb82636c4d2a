"""What the statistics say against what is true: level, power, causes and coverage by simulation.

    python -m benchmarks.truth KIND [--runs N] [--jobs N] [--only NAME] [--old FOLDER]

KIND is level, power, causes, units, coverage, interval, answers (whole answers about raw tables),
drift, or membership. FOLDER is src/fedwad/ot of commit 4a79f21, whose test `power` runs too. The
first five need numpy and scipy alone, the others the package. Families marked "tuned" set
choices (numbers of functions, of blocks and of Fourier features, the grid, the statistics and their
weights); the others were only reported.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")
if importlib.util.find_spec("msgspec") is None:  # only numpy and scipy: leave out the rest
    _SOURCE = Path(__file__).parents[1] / "src" / "fedwad"
    for _name in ("fedwad", "fedwad.statistics", "fedwad.transport"):
        sys.modules[_name] = types.ModuleType(_name)
        sys.modules[_name].__path__ = [str(_SOURCE.joinpath(*_name.split(".")[1:]))]

from fedwad.statistics.blocking import GRID, block_means, joint_functions, row_functions
from fedwad.statistics.order import order_statistics
from fedwad.statistics.populations import (
    covariance_noise,
    dependence,
    population_distances,
    root_of,
)
from fedwad.statistics.testing import permutation_test

Array = np.ndarray
JOINT = inspect.signature(block_means).parameters["joint"].default
Generator = np.random.Generator
Sample = Callable[[Generator, int], Array]


# Families: each draws n rows.


def normal(d: int, shift: float = 0.0, scale: float = 1.0) -> Sample:
    """A normal population; its first feature is shifted and scaled."""

    def draw(rng: Generator, n: int) -> Array:
        x = rng.normal(size=(n, d))
        x[:, 0] = shift + scale * x[:, 0]
        return x

    return draw


def correlated(d: int, rho: float) -> Sample:
    return lambda rng, n: (
        np.sqrt(1 - rho) * rng.normal(size=(n, d)) + np.sqrt(rho) * rng.normal(size=(n, 1))
    )


def one_correlation(d: int, rho: float) -> Sample:
    """Normal; the first two features are correlated."""

    def draw(rng: Generator, n: int) -> Array:
        x = rng.normal(size=(n, d))
        x[:, 1] = rho * x[:, 0] + np.sqrt(1 - rho**2) * x[:, 1]
        return x

    return draw


def binaries(d: int, p: float) -> Sample:
    return lambda rng, n: 1.0 * (rng.random((n, d)) < p)


def genotypes(d: int, p: float) -> Sample:
    return lambda rng, n: 1.0 * rng.binomial(2, p, (n, d))


def one_hot(*probabilities: float) -> Sample:
    """Two categories with these probabilities, each level a 0/1 feature."""

    def draw(rng: Generator, n: int) -> Array:
        k = len(probabilities)
        return np.hstack([np.eye(k)[rng.choice(k, n, p=probabilities)] for _ in range(2)])

    return draw


def mixture(weight: float, d: int = 5, far: float = 10.0) -> Sample:
    """Normal, but a part `weight` of all rows lies `far` away along all axes."""
    return lambda rng, n: rng.normal(size=(n, d)) + far / np.sqrt(d) * (rng.random((n, 1)) < weight)


def skewed(sigma: float) -> Sample:
    """A log-normal column and a normal one."""
    return lambda rng, n: np.column_stack([np.exp(sigma * rng.normal(size=n)), rng.normal(size=n)])


def outliers(weight: float) -> Sample:
    """Two normal columns; a part `weight` of the rows is 20 away along the first."""
    return lambda rng, n: (
        rng.normal(size=(n, 2)) + np.array([20.0, 0.0]) * (rng.random((n, 1)) < weight)
    )


PLACES = 8 * np.random.default_rng(7).normal(size=(6, 3))


def doses(weight: float) -> Sample:
    """A gamma dose that a part `weight` of the rows has; 0 for the others."""
    return lambda rng, n: (rng.random((n, 1)) < weight) * rng.gamma(2.0, 1.0, (n, 1))


def clusters(*weights: float) -> Sample:
    """Six clusters in three dimensions."""
    w = np.array(weights or [1.0] * 6) / np.sum(weights or [1.0] * 6)
    return lambda rng, n: PLACES[rng.choice(6, n, p=w)] + rng.normal(size=(n, 3))


def zero_inflated(zero: float, d: int = 5) -> Sample:
    return lambda rng, n: (rng.random((n, d)) > zero) * rng.gamma(2.0, 1.0, (n, d))


def pareto(a: float, d: int = 5, scale: float = 1.0) -> Sample:
    return lambda rng, n: scale * rng.pareto(a, (n, d))


def student(df: float, d: int = 5) -> Sample:
    """Student's t, with variance one where it has one."""
    unit = np.sqrt((df - 2) / df) if df > 2 else 1.0
    return lambda rng, n: unit * rng.standard_t(df, (n, d))


def exponential(sign: float, d: int = 5) -> Sample:
    return lambda rng, n: sign * (rng.exponential(size=(n, d)) - 1)


def sphere(d: int = 3) -> Sample:
    def draw(rng: Generator, n: int) -> Array:
        x = rng.normal(size=(n, d))
        return np.sqrt(d) * x / np.linalg.norm(x, axis=1, keepdims=True)

    return draw


def rings(noise: float) -> Sample:
    """A circle in two dimensions with noise, of variance one along each axis."""

    def draw(rng: Generator, n: int) -> Array:
        angle = rng.uniform(0, 2 * np.pi, n)
        circle = np.sqrt(2 * (1 - noise**2)) * np.column_stack([np.cos(angle), np.sin(angle)])
        return circle + noise * rng.normal(size=(n, 2))

    return draw


def humps(d: int, gap: float = 0.9) -> Sample:
    return lambda rng, n: (
        gap * rng.choice([-1.0, 1.0], (n, d)) + np.sqrt(1 - gap**2) * rng.normal(size=(n, d))
    )


def four_modes(angle: float, noise: float = 0.3) -> Sample:
    places = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]) * np.sqrt(2)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return lambda rng, n: (places @ turn)[rng.integers(0, 4, n)] + noise * rng.normal(size=(n, 2))


def mixed(shift: float = 0.0) -> Sample:
    """Numbers, counts, a category and a flag."""

    def draw(rng: Generator, n: int) -> Array:
        x = rng.normal(size=(n, 3)) + np.array([shift, 0.0, 0.0])
        category = np.eye(4)[rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])]
        return np.hstack(
            [x, rng.poisson(2, (n, 1)) / np.sqrt(2), category, binaries(1, 0.1)(rng, n)]
        )

    return draw


def heteroscedastic(rng: Generator, n: int) -> Array:
    return rng.normal(size=(n, 5)) * np.exp(0.5 * rng.normal(size=(n, 1)))


def log_normal(d: int) -> Sample:
    return lambda rng, n: np.exp(rng.normal(size=(n, d)))


_UNEQUAL = (0.4, 0.3, 0.15, 0.1, 0.04, 0.01)
# One population: sample, sizes, tuned.
NULLS: dict[str, tuple[Sample, tuple[int, int], bool]] = {
    "one binary 3%": (binaries(1, 0.03), (60, 60), True),
    "rare binaries 3%, 30/400": (binaries(30, 0.03), (30, 400), True),
    "rare binaries 3%": (binaries(30, 0.03), (300, 300), False),
    "rare binaries 2%": (binaries(30, 0.02), (300, 300), False),
    "rare binaries 5%, 100/1000": (binaries(30, 0.05), (100, 1000), False),
    "normal, 30/30": (normal(5), (30, 30), False),
    "clusters of other weights, 50/1500": (clusters(*_UNEQUAL), (50, 1500), False),
    "clusters of other weights, 200/300": (clusters(*_UNEQUAL), (200, 300), False),
    "1% far away": (mixture(0.01), (50, 1500), True),
    "six clusters, 50/1500": (clusters(), (50, 1500), True),
    "six clusters, 30/300": (clusters(), (30, 300), False),
    "one-hot": (one_hot(0.5, 0.2, 0.1, 0.1, 0.05, 0.05), (300, 300), True),
    "one-hot, 50/2000": (one_hot(0.5, 0.2, 0.1, 0.1, 0.05, 0.05), (50, 2000), False),
    "mixed": (mixed(), (100, 1000), False),
    "zero-inflated": (zero_inflated(0.6), (200, 200), False),
    "heteroscedastic": (heteroscedastic, (200, 200), False),
    "correlated": (correlated(20, 0.5), (200, 200), False),
    "Pareto 1.5": (pareto(1.5), (100, 1000), False),
    "t2": (student(2), (200, 200), True),
    "log-normal, d=100": (log_normal(100), (60, 60), False),
    "normal, d=500": (normal(500), (60, 200), False),
    "normal, d=1": (normal(1), (50, 50), False),
    "normal, d=20, 1000": (normal(20), (1000, 1000), False),
    "sphere": (sphere(3), (200, 200), False),
    "rings": (rings(0.3), (200, 200), False),
    "two humps": (humps(5), (60, 60), False),
    "exponential": (exponential(1), (30, 300), False),
    "100,000 x 5": (normal(5), (100_000, 100_000), False),
    "2,000,000/200,000": (normal(5), (2_000_000, 200_000), False),
}

# Two populations: samples, sizes, tuned.
ALTERNATIVES: dict[str, tuple[Sample, Sample, tuple[int, int], bool]] = {
    "exponential and mirror": (exponential(1), exponential(-1), (300, 300), True),
    "four modes rotated": (four_modes(0.0), four_modes(np.pi / 4), (300, 300), True),
    "t4 tails": (normal(5), student(4), (1000, 1000), True),
    "3% far away": (mixture(0.0), mixture(0.03), (300, 300), True),
    "zero-inflated": (zero_inflated(0.6), zero_inflated(0.5), (200, 200), True),
    "one-hot": (
        one_hot(0.5, 0.2, 0.1, 0.1, 0.05, 0.05),
        one_hot(0.4, 0.25, 0.1, 0.1, 0.1, 0.05),
        (300, 300),
        True,
    ),
    "one of 100 columns": (normal(100), normal(100, 0.4), (300, 300), True),
    "ring": (normal(2), rings(0.3), (200, 200), True),
    "shift": (normal(5), normal(5, 0.3), (200, 200), False),
    "scale": (normal(5), normal(5, 0.0, 1.3), (200, 200), False),
    "shift, 50/1500": (normal(5), normal(5, 0.5), (50, 1500), False),
    "shift, 30/300": (normal(5), normal(5, 0.7), (30, 300), False),
    "correlation .3, d=10": (correlated(10, 0.0), correlated(10, 0.3), (200, 200), False),
    "sphere": (normal(3), sphere(3), (200, 200), False),
    "two humps, d=5": (normal(5), humps(5), (200, 200), False),
    "mixed shift": (mixed(), mixed(0.4), (100, 1000), False),
    "one of 20 scaled": (normal(20), normal(20, 0.0, 1.4), (300, 300), False),
    "one correlation, d=5": (normal(5), one_correlation(5, 0.4), (300, 300), True),
    "one correlation, d=8": (normal(8), one_correlation(8, 0.4), (300, 300), True),
    "one correlation, d=20": (normal(20), one_correlation(20, 0.4), (300, 300), False),
    "clusters of other weights": (clusters(), clusters(3, 2, 2, 2, 2, 1), (200, 300), False),
    "all of 50, .1": (normal(50), lambda r, n: 0.1 + r.normal(size=(n, 50)), (200, 200), False),
}


def blocks(samples: list[Array], rng: Generator, **options: Any) -> list[Any]:
    """Block means in the units of the pooled moments, as for arrays."""
    pooled = np.concatenate(samples)
    centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    two = np.flatnonzero(np.isin(pooled, (0.0, 1.0)).all(axis=0)).tolist()  # as a schema says
    return [block_means(x, None, rng, centre, scale, indicators=two, **options) for x in samples]


OLD: dict[str, Any] = {}


def load_old(folder: str) -> None:
    """The test of an earlier version, from its files."""
    for name in ("_measure", "_order", "_blocks", "_permutation"):
        module = types.ModuleType(f"old_test.{name}")
        sys.modules[module.__name__] = module
        code = Path(folder, f"{name}.py").read_text().replace("fedwad.ot.", "old_test.")
        exec(compile(code, name, "exec"), module.__dict__)  # noqa: S102
        OLD[name] = module


def old_pvalue(x: Array, y: Array, seed: int) -> float:
    measures = [OLD["_measure"].Measure(z) for z in (x, y)]
    sites = [OLD["_blocks"].block_means(one) for one in measures]
    return float(OLD["_permutation"].permutation_test(sites, 499, seed).pvalue)


def energy_and_mmd(
    x: Array, y: Array, rng: Generator, permutations: int = 199
) -> tuple[float, float]:
    """P-values of the energy test and of MMD with a median bandwidth, with pooled rows."""
    from scipy.spatial.distance import cdist

    z = np.concatenate([x, y])
    z = (z - z.mean(axis=0)) / np.where(z.std(axis=0) > 0, z.std(axis=0), 1.0)
    distances = cdist(z, z)
    kernel = np.exp(-(distances**2) / (2 * np.median(distances) ** 2))
    label = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
    labels = np.column_stack([label, *(rng.permutation(label) for _ in range(permutations))])
    found = []
    for matrix in (-distances, kernel):
        statistics = (labels * (matrix @ labels)).sum(axis=0)
        found.append(float((statistics >= statistics[0] - 1e-12).mean()))
    return found[0], found[1]


def _level(name: str, run: int) -> dict[str, float]:
    draw, sizes, _ = NULLS[name]
    rng = np.random.default_rng([run, 1])
    found = permutation_test(blocks([draw(rng, n) for n in sizes], rng), seed=run)
    is_found = found.pvalue <= 0.05
    return {
        "level": is_found,
        "false cause": is_found and bool((found.columns <= 0.05).any()),
        "too few": found.smallest > 0.05,
    }


def _power(name: str, run: int) -> dict[str, float]:
    first, second, sizes, _ = ALTERNATIVES[name]
    rng = np.random.default_rng([run, 2])
    x, y = first(rng, sizes[0]), second(rng, sizes[1])
    energy, mmd = energy_and_mmd(x, y, rng)
    ours = permutation_test(blocks([x, y], rng), seed=run).pvalue
    found = {"power": ours <= 0.05, "energy": energy <= 0.05, "MMD": mmd <= 0.05}
    return found | ({"old": old_pvalue(x, y, run) <= 0.05} if OLD else {})


def planted(kind: str) -> Sample:
    """Ten columns with a common factor, two of them the same, and a category; one is changed."""

    def draw(rng: Generator, n: int) -> Array:
        x = correlated(10, 0.5)(rng, n)
        x[:, 9] = x[:, 8] + 0.1 * rng.normal(size=n)  # redundant beside column 8
        p = [0.5, 0.3, 0.2] if kind != "frequency" else [0.3, 0.3, 0.4]
        missing = rng.random(n) < (0.25 if kind == "missingness" else 0.05)
        x[:, 0] += 0.5 * (kind == "shift")
        x[:, 0] *= 1.6 if kind == "scale" else 1.0
        x[missing, 1] = 0.0
        return np.hstack([x, missing[:, None], np.eye(3)[rng.choice(3, n, p=p)]])

    return draw


# Where one column of several differs: samples, the column of each feature, and the one that does.
_PLANTED = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 10, 10, 10)
CAUSES: dict[str, tuple[Sample, Sample, tuple[int, ...], int]] = {
    kind: (planted(""), planted(kind), _PLANTED, column)
    for kind, column in (("shift", 0), ("scale", 0), ("frequency", 10), ("missingness", 1))
}
CAUSES["shift .35, independent"] = (normal(10), normal(10, 0.35), tuple(range(10)), 0)


def _causes(name: str, run: int) -> dict[str, float]:
    first, second, columns, cause = CAUSES[name]
    rng = np.random.default_rng([run, 3])
    sites = blocks([first(rng, 300), second(rng, 300)], rng)
    found = permutation_test(sites, columns, seed=run)
    named = (found.columns <= 0.05) & (found.pvalue <= 0.05)
    return {
        "found": bool(named[cause]),
        "first": bool(found.columns[cause] <= found.columns.min()),
        "another": bool(np.delete(named, cause).any()),
    }


VISITS = 4


def visits(d: int, shift: float = 0.0) -> Sample:
    """Patients with four visits each, which nearly agree; n rows."""

    def draw(rng: Generator, n: int) -> Array:
        patients = np.repeat(normal(d, shift)(rng, n // VISITS), VISITS, axis=0)
        return patients + 0.5 * rng.normal(size=patients.shape)

    return draw


def _units_level(name: str, run: int) -> dict[str, float]:
    """Repeated visits: the level with units, and without."""
    n, d = int(name.split()[1].strip(",")), 10 if name.endswith("10 columns") else 3
    rng = np.random.default_rng([run, 4])
    samples = [visits(d)(rng, n) for _ in range(2)]
    found = {"with units": 0.0, "without": 0.0}
    units = np.repeat(np.arange(n // VISITS), VISITS)
    for key, codes in (("with units", units), ("without", None)):
        sites = blocks(samples, rng, units=codes)
        found[key] = permutation_test(sites, seed=run).pvalue <= 0.05
    return found


UNITS = "visits 120", "visits 400", "visits 2000", "visits 400, 10 columns"


# Truth of squared distances: a number, or along one direction that couples monotonically.


def _by_quantiles(first: Array, second: Array) -> float:
    return float(np.mean((np.sort(first) - np.sort(second)) ** 2))


def _columns_truth(first: Sample, second: Sample) -> float:
    """Independent columns: the sum of their distances, from a million rows."""
    rng = np.random.default_rng(9)
    x, y = first(rng, 1_000_000), second(rng, 1_000_000)
    return sum(_by_quantiles(x[:, k], y[:, k]) for k in range(x.shape[1]))


def _radial_truth(first: Sample, second: Sample) -> float:
    """Symmetric under rotations: the distance of the radii."""
    rng = np.random.default_rng(9)
    norms = [np.linalg.norm(draw(rng, 1_000_000), axis=1) for draw in (first, second)]
    return _by_quantiles(*norms)


def _diagonal_truth(first: Sample, second: Sample) -> float:
    """Populations that differ along the diagonal alone and are independent across it."""
    rng = np.random.default_rng(9)
    sums = [draw(rng, 1_000_000).sum(axis=1) for draw in (first, second)]
    return _by_quantiles(*sums) / first(rng, 1).shape[1]


def _normal_truth(first: Sample, second: Sample) -> float:
    """Normal populations of one mean and one standard deviation in each column."""
    rng = np.random.default_rng(9)
    return dependence(*(root_of(np.cov(draw(rng, 1_000_000).T)) for draw in (first, second)))


def _clusters_truth(first: Sample, second: Sample) -> float:
    """Clusters that are alike but for their weights and far apart: that of their places."""
    from fedwad.transport import Measure, solve

    rng, shares = np.random.default_rng(9), []
    for draw in (first, second):
        rows = draw(rng, 100_000)
        nearest = ((rows[:, None] - PLACES) ** 2).sum(axis=2).argmin(axis=1)
        shares.append(np.bincount(nearest, minlength=6) / len(rows))
    return float(solve(*(Measure(PLACES, share) for share in shares)).cost)


def _zero(_first: Sample, _second: Sample) -> float:
    return 0.0


Truth = Callable[[Sample, Sample], float]
_LEVELS = (0.5, 0.2, 0.1, 0.1, 0.05, 0.05), (0.4, 0.25, 0.1, 0.1, 0.1, 0.05)
# Samples, sizes, the step of indicators (zero for numbers), units, the truth.
DISTANCES: dict[str, tuple[Sample, Sample, tuple[int, int], float, bool, Truth]] = {
    "normal, d=5": (normal(5), normal(5), (300, 300), 0, False, _zero),
    "normal, d=500": (normal(500), normal(500), (60, 60), 0, False, _zero),
    "normal, large": (normal(5), normal(5), (50_000, 50_000), 0, False, _zero),
    "six clusters, 50/1500": (clusters(), clusters(), (50, 1500), 0, False, _zero),
    "1% far away, 50/1500": (mixture(0.01), mixture(0.01), (50, 1500), 0, False, _zero),
    "one-hot, same": (one_hot(*_LEVELS[0]), one_hot(*_LEVELS[0]), (300, 300), 1, False, _zero),
    "rare binaries": (binaries(30, 0.03), binaries(30, 0.03), (60, 300), 1, False, _zero),
    "correlated, same": (correlated(20, 0.5), correlated(20, 0.5), (200, 200), 0, False, _zero),
    "Pareto 2.5, same": (pareto(2.5), pareto(2.5), (300, 300), 0, False, _zero),
    "visits, same": (visits(3), visits(3), (400, 400), 0, True, _zero),
    "visits, same, d=10": (visits(10), visits(10), (400, 400), 0, True, _zero),
    "shift": (normal(5), normal(5, 0.4), (300, 300), 0, False, _columns_truth),
    "scale": (normal(5), normal(5, 0.0, 1.7), (300, 300), 0, False, _columns_truth),
    "shift, 30/300": (normal(5), normal(5, 0.7), (30, 300), 0, False, _columns_truth),
    "visits, shift": (visits(3), visits(3, 0.5), (400, 400), 0, True, _columns_truth),
    "mirror": (exponential(1), exponential(-1), (300, 300), 0, False, _columns_truth),
    "two humps": (normal(5), humps(5), (300, 300), 0, False, _columns_truth),
    "zero-inflated": (zero_inflated(0.6), zero_inflated(0.4), (300, 300), 0, False, _columns_truth),
    "Pareto 2.5 scaled": (pareto(2.5), pareto(2.5, 5, 1.5), (300, 300), 0, False, _columns_truth),
    "t4": (normal(5), student(4), (1000, 1000), 0, False, _columns_truth),
    "log-normal, 1 and 1.3": (skewed(1.0), skewed(1.3), (200, 200), 0, False, _columns_truth),
    "dose of 3% at one site": (doses(0.0), doses(0.03), (300, 300), 0, False, _columns_truth),
    "1% 20 away, 150": (outliers(0.0), outliers(0.01), (150, 150), 0, False, _columns_truth),
    "one-hot": (
        one_hot(*_LEVELS[0]), one_hot(*_LEVELS[1]), (300, 300), 1, False, _columns_truth
    ),
    "0/1, .3 and .5": (binaries(5, 0.3), binaries(5, 0.5), (500, 500), 1, False, _columns_truth),
    "0/1, .1 and .3": (binaries(5, 0.1), binaries(5, 0.3), (200, 200), 1, False, _columns_truth),
    "0/1, .02 and .08": (
        binaries(5, 0.02), binaries(5, 0.08), (100, 100), 1, False, _columns_truth
    ),
    "0/1/2, .1 and .3": (
        genotypes(5, 0.1), genotypes(5, 0.3), (1500, 1500), 0, False, _columns_truth
    ),
    "correlation .5": (
        correlated(10, 0.0), correlated(10, 0.5), (300, 300), 0, False, _normal_truth
    ),
    "ring": (normal(2), rings(0.3), (300, 300), 0, False, _radial_truth),
    "sphere": (normal(3), sphere(3), (300, 300), 0, False, _radial_truth),
    "clusters of other weights": (
        clusters(), clusters(3, 2, 2, 2, 2, 1), (200, 300), 0, False, _clusters_truth
    ),
    "1% and 3% far away": (mixture(0.01), mixture(0.03), (300, 300), 0, False, _diagonal_truth),
    "1% and 3%, 50/1500": (mixture(0.01), mixture(0.03), (50, 1500), 0, False, _diagonal_truth),
}  # fmt: skip


def _coverage(name: str, run: int) -> dict[str, float]:
    first, second, sizes, step, has_units, _ = DISTANCES[name]
    rng = np.random.default_rng([run, 5])
    samples = [first(rng, sizes[0]), second(rng, sizes[1])]
    d = samples[0].shape[1]
    units = [np.arange(len(x)) // VISITS if has_units else None for x in samples]
    orders = [order_statistics(x, rng, units=u) for x, u in zip(samples, units, strict=True)]
    noises = [covariance_noise(x, rng, u) for x, u in zip(samples, units, strict=True)]
    covariances = [np.cov(x.T).reshape(d, d) for x in samples]
    found = population_distances(orders, np.full(d, float(step)), covariances, noises)
    without = population_distances(orders, np.full(d, float(step)))
    return {
        "columns": found.columns[0, 1],
        "dependence": found.dependence[0, 1],
        "square": max(found.columns[0, 1] + found.dependence[0, 1], 0.0),
        "lower": found.lower[0, 1],
        "lower without correlations": without.lower[0, 1],
    }


def _coverage_table(runs: int, jobs: int, only: str) -> None:
    print(f"{'':24} truth  columns depend.   rmse | covered, mean lower; without correlations")
    with ProcessPoolExecutor(jobs) as pool:
        for name, (first, second, *_, truth) in DISTANCES.items():
            if only not in name:
                continue
            exact = truth(first, second)
            rows = list(pool.map(_coverage, [name] * runs, range(runs), chunksize=5))
            found = {key: np.array([row[key] for row in rows]) for key in rows[0]}
            rmse = np.sqrt(np.mean((found["square"] - exact) ** 2))
            print(
                f"{name:24} {exact:6.3f} {found['columns'].mean():7.3f}"
                f" {found['dependence'].mean():7.3f} {rmse:6.3f} |",
                *(
                    f"{np.mean(found[key] <= np.sqrt(exact) + 1e-9):.2f} {found[key].mean():.3f};"
                    for key in ("lower", "lower without correlations")
                ),
                f"root of truth {np.sqrt(exact):.3f}",
                flush=True,
            )


def _interval(name: str, run: int) -> dict[str, float]:
    """What `fedwad.distance` says, and how far the square of `population` is off; 0 without one."""
    import fedwad

    first, second, sizes, _, has_units, _ = DISTANCES[name]
    rng = np.random.default_rng([run, 6])
    sites: Any = [first(rng, sizes[0]), second(rng, sizes[1])]
    if has_units:
        tables = {
            site: _with_patients(rows, 1000 * k)
            for k, (site, rows) in enumerate(zip("ab", sites, strict=True))
        }
        fed = fedwad.local(tables)
        sites = [fed["a"], fed["b"]]
    r = fedwad.distance(*sites)
    low, high = r.population_interval or (0.0, np.inf)
    square = np.nan_to_num(r.population) ** 2
    return {
        "differs": float(r.differs is True),
        "low": low,
        "high": high,
        "value": r.value,
        "square": square,
    }


def _interval_table(runs: int, jobs: int, only: str) -> None:
    print(f"{'':24} truth | differs covered    low   high  value   rmse of the square")
    with ProcessPoolExecutor(jobs) as pool:
        for name, (first, second, *_, has_units, truth) in DISTANCES.items():
            # Tables come in units of their schema, in which only the truth 0 is known.
            if only not in name or (has_units and truth is not _zero):
                continue
            exact = np.sqrt(truth(first, second))
            rows = list(pool.map(_interval, [name] * runs, range(runs), chunksize=2))
            found = {key: np.array([row[key] for row in rows]) for key in rows[0]}
            covered = np.mean((found["low"] <= exact + 1e-9) & (exact <= found["high"]))
            means = (found[key].mean() for key in ("low", "high", "value"))
            print(
                f"{name:24} {exact:5.2f} | {found['differs'].mean():7.2f} {covered:7.2f}",
                *(f"{mean:6.2f}" for mean in means),
                f"{np.sqrt(np.mean((found['square'] - exact**2) ** 2)):8.3g}",
                f"({runs} runs)",
                flush=True,
            )


def _raw(rng: Generator, n: int, **change: Any) -> Any:
    """A table of numbers, a date, categories and a flag, with missing values."""
    import pandas as pd

    age = rng.normal(60, 12, n)
    table = pd.DataFrame(
        {
            "age": age.round(),
            "weight": np.where(rng.random(n) < 0.1, np.nan, rng.gamma(20, 4, n)),
            "pressure": 90 + 0.6 * age + rng.normal(0, 12, n),
            "visits": rng.poisson(1.0, n),
            "ward": rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "smoker": rng.random(n) < 0.3,
            "rare": np.where(rng.random(n) < 0.03, "yes", "no"),
        }
    )
    if change.get("units"):
        table[["age", "weight", "pressure"]] *= [12.0, 2.2, 0.133]
    if change.get("missing"):
        table["ward"] = None
    return table


def _with_patients(rows: Array, first: int) -> Any:
    """A table of visits, with identifiers of patients from `first` on."""
    import pandas as pd

    names = [f"x{k}" for k in range(rows.shape[1])]
    return pd.DataFrame(rows, columns=names).assign(
        patient_id=first + np.arange(len(rows)) // VISITS
    )


def _real(name: str) -> Any:
    """A real table, whole; packages that are not installed are an error."""
    import pandas as pd

    if name == "heart":
        from fedwad.datasets.loading import heart_files

        return pd.concat(map(pd.read_csv, dict(heart_files()).values()), ignore_index=True)
    if name == "ACTG175":
        found = importlib.util.find_spec("lifelines")
        return pd.read_csv(Path(str(found and found.origin)).parent / "datasets" / "ACTG175.csv")
    from statsmodels import datasets

    return getattr(datasets, name).load_pandas().data


def _answers(name: str, run: int) -> dict[str, float]:
    """What whole answers say about raw tables."""
    import warnings

    import fedwad

    warnings.simplefilter("ignore")
    rng = np.random.default_rng([run, 8])
    if name.startswith("visits"):
        d = 10 if name.endswith("10 columns") else 3
        sites = {str(k): _with_patients(visits(d)(rng, 240), 1000 * k) for k in range(2)}
        return {"differs": fedwad.matrix(fedwad.local(sites)).differs[0, 1] is True}
    if name.startswith("100,000"):
        r = fedwad.distance(*(normal(5)(rng, 100_000) for _ in range(2)))
        return {"differs": r.differs is True, "false cause": bool(r.explain().causes)}
    if name.startswith("halves"):
        table = _real(name.split()[-1])
        table = table.iloc[rng.permutation(len(table))[:1000]]
        half = len(table) // 2
        m = fedwad.matrix(fedwad.local({"a": table[:half], "b": table[half:]}))
        return {
            "differs": m.differs[0, 1] is True,
            "false cause": bool(m.explain("a", "b").causes),
        }
    if name.startswith("odd"):
        change = {"units": "units" in name, "missing": "missing" in name}
        data = {"a": _raw(rng, 150), "b": _raw(rng, 150), "c": _raw(rng, 150, **change)}
        m = fedwad.matrix(fedwad.local(data))
        odd = m.eccentricity.odd
        return {"right": odd == ("c",), "wrong": bool(set(odd) - {"c"}), "any": bool(odd)}
    n, other = map(int, name.split()[-1].split("/"))
    m = fedwad.matrix(fedwad.local({"a": _raw(rng, n), "b": _raw(rng, other)}))
    causes = m.explain("a", "b").causes
    return {"differs": m.differs[0, 1] is True, "false cause": bool(causes)}


ANSWERS = (
    "raw table 60/60", "raw table 50/1500", "raw table 200/200", "visits, unit found by itself",
    "visits, unit found by itself, 10 columns", "halves of heart", "halves of randhie",
    "halves of fair", "halves of anes96", "halves of ACTG175", "100,000 x 5",
    "odd, none", "odd, units of three columns", "odd, a category is missing",
)  # fmt: skip


def _drift(name: str, run: int) -> dict[str, float]:
    """One series of looks at a reference of 500 rows, 200 new rows a look; alpha is 5%.

    The test of a look is that of `fedwad.Reference`, which is about block means and nothing else.
    """
    from scipy.stats import ttest_ind_from_stats

    from fedwad.compare.drift import compare_blocks, level_at

    shift, looks = (0.0, 100) if name == "no drift" else (0.3, 40)
    rng = np.random.default_rng([run, 9])
    reference = normal(5)(rng, 500)
    unit = reference.mean(axis=0), reference.std(axis=0)
    kept = block_means(reference, None, rng, *unit)
    found, pooled, sums = looks + 1, looks + 1, np.zeros((2, 5))
    for k in range(1, looks + 1):
        new, level = normal(5, shift)(rng, 200), level_at(0.05, k)
        if found > looks:
            test = compare_blocks(kept, block_means(new, None, rng, *unit), level, run)
            found = k if test.pvalue <= level else found
        sums += new.sum(axis=0), (new**2).sum(axis=0)
        mean, n = sums[0] / (200 * k), 200 * k
        std = np.sqrt((sums[1] - n * mean**2) / (n - 1))
        own = unit[0], reference.std(axis=0, ddof=1), 500
        welch = ttest_ind_from_stats(*own, mean, std, n, equal_var=False).pvalue.min() * 5
        pooled = k if pooled > looks and welch <= level else pooled
    return {"alarm": found <= looks, "look": found, "Welch": pooled <= looks, "Welch look": pooled}


def tables() -> dict[str, tuple[Array, list[int], float | None]]:
    """Real tables as they are encoded, their indicators, and the number of columns."""
    import pandas as pd
    from sklearn.datasets import load_breast_cancer

    from fedwad.datasets.loading import HEART_LABEL, heart_files
    from fedwad.tables import agree, profile, read_table

    sources: dict[str, tuple[dict[str, Any], str | None]] = {
        "heart": (dict(heart_files()), HEART_LABEL)
    }
    if importlib.util.find_spec("statsmodels"):
        from statsmodels.datasets import anes96, fair, randhie

        for name, module in (("randhie", randhie), ("fair", fair), ("anes96", anes96)):
            frame = module.load_pandas().data
            frame = frame.sample(min(len(frame), 4000), random_state=0)
            half = len(frame) // 2
            sources[name] = ({"a": frame[:half], "b": frame[half:]}, None)
    found: dict[str, tuple[Array, list[int], float | None]] = {}
    for name, (files, label) in sources.items():
        read = {site: read_table(one, site) for site, one in files.items()}
        schema = agree({site: profile(one, label=label) for site, one in read.items()})
        rows = np.concatenate([schema.encode(one) for one in read.values()])
        columns = float(len(schema.compared_columns))
        found[name] = rows, list(schema.indicators), columns
    cancer = pd.DataFrame(load_breast_cancer().data)
    found["cancer"] = ((cancer - cancer.mean()) / cancer.std()).to_numpy(), [], None
    return found


def membership(task: tuple[Array, list[int], float | None], n: int, run: int) -> list[float]:
    """Area under the curve, and true positives at 1% false ones, of an attacker who knows a row.

    By the likelihood ratio of block means, normal with a covariance that the attacker simulates
    from a reference sample: the rows that are neither in the site nor tried.
    """
    rows, two, spread = task
    rng = np.random.default_rng([run, n, 7])
    rows = rows[rng.permutation(len(rows))]
    n = min(n, len(rows) // 3)
    blocks = block_means(rows[:n], None, rng, indicators=two, spread=spread)
    directions = joint_functions(rows.shape[1], JOINT, spread)
    values = row_functions(np.clip(rows, -6, 6), two, directions)
    reference = values[2 * n :]
    tried = values[: 2 * n] - reference.mean(axis=0)
    sizes = np.repeat(blocks.rows * 2 ** np.arange(len(blocks.counts)), blocks.counts)
    score = np.full(2 * n, max(0.0, 1 - sizes.sum() / n))
    for k in np.unique(sizes):
        means = blocks.means[sizes == k]
        drawn = np.zeros((max(3000, 15 * values.shape[1]), values.shape[1]))
        for _ in range(k // 10):
            tens = reference[rng.integers(0, len(reference), (10, len(drawn)))].mean(axis=0)
            drawn += np.floor(tens / GRID + rng.random(tens.shape)) * GRID * 10 / k
        covariance = np.cov(drawn.T)
        covariance += 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        along = tried / k @ np.linalg.pinv(covariance)
        own = (along * tried / k).sum(axis=1)[:, None] / 2
        logs = along @ (means - reference.mean(axis=0)).T - own
        score += k / n * np.exp(np.minimum(logs, 50.0)).sum(axis=1)
    ranks = np.argsort(np.argsort(score))
    area = (ranks[:n].sum() - n * (n - 1) / 2) / n**2
    return [float(area), float((score[:n] > np.quantile(score[n:], 0.99)).mean())]


def _membership_table(runs: int, jobs: int, only: str) -> None:
    with ProcessPoolExecutor(jobs) as pool:
        for name, task in tables().items():
            for n in (100, 300, 1000):
                if only not in name or n > len(task[0]) // 3 + 130:
                    continue
                found = pool.map(membership, [task] * runs, [n] * runs, range(runs))
                area, true = np.mean(list(found), axis=0)
                rows = min(n, len(task[0]) // 3)
                print(
                    f"{name:10} {rows:5} rows: area {area:.3f}, true at 1% {true:.3f}", flush=True
                )


def _table(kind: str, runs: int, jobs: int, only: str) -> None:
    function, cases = {
        "level": (_level, NULLS),
        "power": (_power, ALTERNATIVES),
        "causes": (_causes, CAUSES),
        "units": (_units_level, dict.fromkeys(UNITS, ())),
        "answers": (_answers, dict.fromkeys(ANSWERS, ())),
        "drift": (_drift, {"no drift": (), "drift .3": ()}),
    }[kind]
    with ProcessPoolExecutor(jobs) as pool:
        for name, case in cases.items():
            if only not in name:
                continue
            number = min(runs, 300) if name.startswith("2,000,000") else runs
            rows = list(pool.map(function, [name] * number, range(number), chunksize=5))
            means = {key: np.mean([row[key] for row in rows]) for key in rows[0]}
            tuned = "tuned" if case and case[-1] is True else ""
            print(f"{name:30}", *(f"{key} {x:.3f}" for key, x in means.items()), tuned, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "kind",
        choices=[
            "level",
            "power",
            "causes",
            "units",
            "coverage",
            "interval",
            "answers",
            "drift",
            "membership",
        ],
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="")
    parser.add_argument("--old", help="also run the test of an earlier version")
    given = parser.parse_args()
    if given.old:
        load_old(given.old)
    if given.kind == "coverage":
        _coverage_table(given.runs, given.jobs, given.only)
    elif given.kind == "membership":
        _membership_table(given.runs, given.jobs, given.only)
    elif given.kind == "interval":
        _interval_table(given.runs, given.jobs, given.only)
    else:
        _table(given.kind, given.runs, given.jobs, given.only)
