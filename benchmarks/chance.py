"""More than chance: calibrated estimates, noise, populations and the permutation test, measured.

`python -m benchmarks.chance overlap rows coverage clustered level power splits cost [--quick]`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import fedwad
from fedwad.ot import Measure, estimate, summarise, wasserstein
from fedwad.ot._blocks import block_means, block_size
from fedwad.ot._calibration import calibrate
from fedwad.ot._groups import count_groups
from fedwad.ot._moment_parts import Site
from fedwad.ot._permutation import permutation_test
from fedwad.ot._population import calibrated_value, populations

TYPES: tuple[Any, ...] = ("full", "diagonal")
Array = np.ndarray
Row = dict[str, Any]


@cache
def groups(name: str) -> tuple[Array, Array]:
    """Rows of a dataset and one of two groups of classes for each."""
    if name == "cancer":
        from sklearn.datasets import load_breast_cancer

        x, y = load_breast_cancer(return_X_y=True)
        return (x - x.mean(axis=0)) / x.std(axis=0), y
    source = "mnist" if name == "mnist20" else name
    x, y = fedwad.datasets.load(source, **({} if source == "digits" else {"pixels": "unit"}))
    x = x.reshape(len(x), -1)[:30_000].astype(float)
    if name == "mnist20":
        x = x - x.mean(axis=0)
        x = x @ np.linalg.eigh(x.T @ x)[1][:, -20:]
    return x, (y[:30_000] >= 5).astype(int)


def mixed(name: str, n: int, share: float, seed: int) -> tuple[Array, Array]:
    """Two disjoint samples with a share of one group of classes and its mirror image."""
    x, group = groups(name)
    rng = np.random.default_rng(seed)
    one, two = (rng.permutation(np.flatnonzero(group == g)) for g in (0, 1))
    n = min(n, len(one), len(two))
    many = round(share * n)
    few = n - many
    first = np.concatenate([one[:many], two[:few]])
    second = np.concatenate([two[few:n], one[many:n]])
    return x[first], x[second]


def overlap(quick: bool) -> list[Row]:
    """Error of the estimate and of the calibrated one where populations overlap."""
    rows = []
    names = ("digits", "cancer", "mnist20") if quick else ("digits", "mnist", "mnist20", "fashion_mnist", "usps", "cancer")
    for name in names:
        for n in (400,) if quick else (200, 400, 1500):
            for kind in TYPES:
                for share in (0.5, 0.65, 0.75, 1.0):
                    errors = [_errors(*mixed(name, n, share, r), kind) for r in range(1 if n > 1000 else 3)]
                    before, after = np.mean(errors, axis=0)
                    worst = float(np.abs(errors, dtype=float)[:, 1].max())
                    rows.append(
                        {"data": name, "n": n, "type": kind, "share": share, "estimate %": 100 * before}
                        | {"calibrated %": 100 * after, "worst run %": 100 * worst}
                    )
    return rows


def _errors(x: Array, y: Array, kind: Any) -> tuple[float, float]:
    exact = wasserstein(x, y)
    raw = estimate(*(summarise(Measure(z), form=kind) for z in (x, y)), among=20).value
    a, b = (calibrate(Measure(z), covariance_type=kind) for z in (x, y))
    return raw / exact - 1, calibrated_value(raw, a, b, len(x), len(y)) / exact - 1


def site(x: Array, kind: Any = "full") -> tuple[Any, Site]:
    found = calibrate(Measure(x), covariance_type=kind)
    return summarise(Measure(x), form=kind), Site(len(x), x.mean(axis=0), np.cov(x.T, bias=True), found)


def answer(x: Array, y: Array, kind: Any = "full") -> Any:
    """Population distances of two samples from their summaries."""
    (one, a), (two, b) = site(x, kind), site(y, kind)
    square = estimate(one, two, among=20).value ** 2
    return populations(np.array([[0.0, square], [square, 0.0]]), [a, b])


def _normal(rng: np.random.Generator, n: int, d: int) -> Array:
    return rng.normal(size=(n, d))


def _t3(rng: np.random.Generator, n: int, d: int) -> Array:
    return np.asarray(rng.standard_t(3, (n, d)) / np.sqrt(3))


def _lognormal(rng: np.random.Generator, n: int, d: int) -> Array:
    return np.asarray(np.exp(0.6 * rng.normal(size=(n, d))))


def _ten_doubled(y: Array) -> Array:
    return np.concatenate([2 * y[:, :10], y[:, 10:]], axis=1)


_SECOND = float(np.exp(2 * 0.36))  # second moment of the log-normal
CASES: dict[str, tuple[Callable[..., Array], int, int, Callable[[Array], Array], float]] = {
    "d=50, same": (_normal, 600, 50, lambda y: y, 0.0),
    "d=50, shift 0.2": (_normal, 600, 50, lambda y: y + 0.2, 2.0),
    "d=50, scale 1.3": (_normal, 600, 50, lambda y: 1.3 * y, 4.5),
    "d=50, ten features x2": (_normal, 600, 50, _ten_doubled, 10.0),
    "d=100, shift 0.3": (_normal, 300, 100, lambda y: y + 0.3, 9.0),
    "d=10, scale 1.3": (_normal, 300, 10, lambda y: 1.3 * y, 0.9),
    "d=2, shift 0.3": (_normal, 300, 2, lambda y: y + 0.3, 0.18),
    "d=2, scale 1.3": (_normal, 300, 2, lambda y: 1.3 * y, 0.18),
    "d=20, shift 0.1, n=150": (_normal, 150, 20, lambda y: y + 0.1, 0.2),
    "d=100, scale 1.2, n=200": (_normal, 200, 100, lambda y: 1.2 * y, 4.0),
    "t3 d=10, scale 1.3": (_t3, 500, 10, lambda y: 1.3 * y, 0.9),
    "t3 d=10, shift 0.3": (_t3, 500, 10, lambda y: y + 0.3, 0.9),
    "log-normal d=10, scale 1.3": (_lognormal, 500, 10, lambda y: 1.3 * y, 0.9 * _SECOND),
}


def coverage(quick: bool) -> list[Row]:
    """The population's square, its interval, and how often that contains the truth."""
    rows = []
    for name, (draw, n, d, change, truth) in CASES.items():
        found = []
        for r in range(4 if quick else 200):
            rng = np.random.default_rng([r, 17])
            p = answer(draw(rng, n, d), change(draw(rng, n, d)))
            low, high = float(p.lower[0, 1] ** 2), float(p.upper[0, 1] ** 2)
            found.append((float(p.square[0, 1]), low, high, low <= truth <= high))
        square, low, high, share = np.mean(found, axis=0)
        rows.append({"case": name, "truth": truth, "population^2": square, "from": low, "to": high, "covered": share})
    return rows


def clustered(quick: bool) -> list[Row]:
    """MNIST 0-4 against 5-9, and six clusters with other weights at two sites."""
    rows = []
    for name in ("mnist20",) if quick else ("mnist20", "mnist"):
        for n in (250,) if quick else (250, 500, 1000):
            for kind in TYPES:
                rows.append(_cluster_row(f"{name} {kind}", *mixed(name, n, 1.0, 1), kind))
    rng = np.random.default_rng(0)
    centres, shares = 4 * rng.normal(size=(6, 20)), np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    truth = wasserstein(centres, centres, a=shares, b=shares[::-1]) ** 2
    for n in (250,) if quick else (250, 1000):
        x, y = (centres[rng.choice(6, n, p=w)] + rng.normal(size=(n, 20)) for w in (shares, shares[::-1]))
        rows.append(_cluster_row(f"six clusters, truth {truth:.4g}", x, y, "full"))
    return rows


def _cluster_row(name: str, x: Array, y: Array, kind: Any) -> Row:
    p = answer(x, y, kind)
    exact = wasserstein(x, y) ** 2
    found = {key: float(getattr(p, key)[0, 1] ** 2) for key in ("value", "noise", "population", "lower", "upper")}
    return {"data": name, "n": len(x), "exact^2": exact, **found}


def _corrected(x: Array, y: Array) -> list[Any]:
    both = np.concatenate([x, y])
    centre, scale = both.mean(axis=0), both.std(axis=0)
    rows = block_size([len(x), len(y)])
    return [block_means(Measure(z), rows, centre, np.where(scale > 0, scale, 1.0)) for z in (x, y)]


def level(quick: bool) -> list[Row]:
    """How often the test rejects samples of one population at 5%."""
    kinds: dict[str, Callable[[np.random.Generator, int], Array]] = {
        "normal": lambda rng, n: rng.normal(size=(n, 10)),
        "t2": lambda rng, n: rng.standard_t(2, (n, 10)),
        "log-normal": lambda rng, n: np.exp(rng.normal(size=(n, 10))),
        "binary": lambda rng, n: 1.0 * (rng.random((n, 10)) < 0.2),
        "mixed": lambda rng, n: np.c_[rng.normal(size=(n, 3)), np.eye(4)[rng.integers(0, 4, n)], rng.poisson(2, n)],
    }
    rows = []
    for name, draw in kinds.items():
        for sizes in ((40, 40), (400, 400), (40, 400)):
            runs = 50 if quick else 1000
            hits = 0
            for r in range(runs):
                rng = np.random.default_rng([r, 5])
                hits += permutation_test(_corrected(*(draw(rng, n) for n in sizes)), 199, r).pvalue <= 0.05
            rows.append({"data": name, "sizes": str(sizes), "rejected": hits / runs})
    return rows


def _alternatives() -> dict[str, Callable[[np.random.Generator, Array], Array]]:
    first = np.r_[1.0, np.zeros(19)]
    return {
        "one feature +0.25": lambda _, y: y + 0.25 * first,
        "all +0.08": lambda _, y: y + 0.08,
        "one scale 1.3": lambda _, y: y * (1 + 0.3 * first),
        "all scales 1.05": lambda _, y: 1.05 * y,
        "common correlation 0.3": lambda r, y: np.sqrt(0.7) * y + np.sqrt(0.3) * r.normal(size=(len(y), 1)),
        "two humps": lambda r, y: 0.9 * r.choice([-1.0, 1.0], y.shape) + np.sqrt(0.19) * y,
    }


def power(quick: bool) -> list[Row]:
    """How often differences are found at 5%, beside MMD with all rows in one place; n = 400, d = 20."""
    rows = []
    for name, change in _alternatives().items():
        found = []
        for r in range(30 if quick else 300):
            rng = np.random.default_rng([r, 6])
            x, y = rng.normal(size=(400, 20)), change(rng, rng.normal(size=(400, 20)))
            found.append((permutation_test(_corrected(x, y), 499, r).pvalue <= 0.05, _mmd(x, y, rng) <= 0.05))
        ours, pooled = np.mean(found, axis=0)
        rows.append({"alternative": name, "blocks": float(ours), "pooled MMD": float(pooled)})
    return rows


def _mmd(x: Array, y: Array, rng: np.random.Generator, permutations: int = 199) -> float:
    both = np.concatenate([x, y])
    norms = (both**2).sum(axis=1)
    squares = norms[:, None] + norms - 2 * both @ both.T
    kernel = np.exp(-squares / np.median(squares[squares > 1e-9]))
    signs = np.tile(np.r_[np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))], (permutations + 1, 1))
    signs[1:] = rng.permuted(signs[1:], axis=1)
    values = ((signs @ kernel) * signs).sum(axis=1)
    return float((values >= values[0]).mean())


def splits(quick: bool) -> list[Row]:
    """How often random splits of one site seem to hold more than one group."""
    digits = groups("digits")[0]
    heart = fedwad.datasets.load("digits")[0][:, 20:33]
    sources: dict[str, Callable[[np.random.Generator], Array]] = {
        "digits": lambda r: digits[r.choice(len(digits), 320, replace=False)],
        "digits, 13 columns": lambda r: heart[r.choice(len(heart), 320, replace=False)],
        "normal": lambda r: r.normal(size=(320, 8)),
        "t3": lambda r: r.standard_t(3, (320, 8)),
        "categories": lambda r: np.eye(5)[r.integers(0, 5, 320)],
    }
    rows = []
    for name, draw in sources.items():
        for shares in ((1, 1, 1, 1), (4, 2, 1, 1)):
            runs = 20 if quick else 200
            hits = 0
            for r in range(runs):
                rng = np.random.default_rng([r, 8])
                ends = np.cumsum(np.array(shares) / sum(shares) * 320).astype(int)[:-1]
                parts = np.split(draw(rng), ends)
                size = block_size([len(p) for p in parts])
                blocks = [block_means(Measure(p), size) for p in parts]
                hits += count_groups(np.zeros((4, 4)), np.zeros((4, 4)), lambda _: 2, blocks, seed=r).k > 1
            rows.append({"data": name, "sizes": str(shares), "more than one group": hits / runs})
    return rows


def cost(quick: bool) -> list[Row]:
    """Seconds for a summary and for its calibration."""
    rows = []
    for n, d in ((400, 30), (1500, 30), (10_000, 50)) if quick else ((400, 30), (1500, 784), (10_000, 50), (20_000, 784)):
        x = np.random.default_rng(0).normal(size=(n, d)) * np.linspace(2, 0.1, d)
        start = time.perf_counter()
        summarise(Measure(x))
        middle = time.perf_counter()
        calibrate(Measure(x))
        rows.append({"n": n, "d": d, "summary s": middle - start, "calibration s": time.perf_counter() - middle})
    return rows


TABLES: dict[str, Callable[[bool], list[Row]]] = {
    "overlap": overlap,
    "coverage": coverage,
    "clustered": clustered,
    "level": level,
    "power": power,
    "splits": splits,
    "cost": cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []])
    parser.add_argument("--quick", action="store_true", help="fewer runs and smaller data")
    options = parser.parse_args()
    from benchmarks.__main__ import show

    for name in options.tables or TABLES:
        show(name, TABLES[name](options.quick))


if __name__ == "__main__":
    main()
