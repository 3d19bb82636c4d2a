"""More than chance: calibrated estimates, noise, populations and the permutation test, measured.

`python -m benchmarks.chance overlap coverage clustered level power splits cost [--quick]`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import fedwad
from benchmarks import chance_test
from fedwad.ot import Measure, estimate, summarise, wasserstein
from fedwad.ot._calibration import calibrate
from fedwad.ot._moment_parts import Site
from fedwad.ot._population import calibrated_value, populations

TYPES: tuple[Any, ...] = ("full", "diag")
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


def overlap(quick: bool, given: int = 0) -> list[Row]:
    """Error of the estimate and of the calibrated one where populations overlap."""
    rows = []
    names = (
        ("digits", "cancer", "mnist20")
        if quick
        else ("digits", "mnist", "mnist20", "fashion_mnist", "usps", "cancer")
    )
    for name in names:
        for n in (400,) if quick else (200, 400, 1500):
            for kind in TYPES:
                for share in (0.5, 0.65, 0.75, 1.0):
                    errors = [
                        _errors(*mixed(name, n, share, r), kind)
                        for r in range(given or (1 if n > 1000 else 3))
                    ]
                    before, after = np.mean(errors, axis=0)
                    worst = float(np.abs(errors, dtype=float)[:, 1].max())
                    rows.append(
                        {
                            "data": name,
                            "n": n,
                            "type": kind,
                            "share": share,
                            "estimate %": 100 * before,
                        }
                        | {"calibrated %": 100 * after, "worst run %": 100 * worst}
                    )
    return rows


def _errors(x: Array, y: Array, kind: Any) -> tuple[float, float]:
    exact = wasserstein(x, y)
    raw = estimate(*(summarise(Measure(z), covariance_type=kind) for z in (x, y)), among=20).value
    a, b = (calibrate(Measure(z), covariance_type=kind) for z in (x, y))
    return raw / exact - 1, calibrated_value(raw, a, b, len(x), len(y)) / exact - 1


def site(x: Array, kind: Any = "full") -> tuple[Any, Site]:
    found = calibrate(Measure(x), covariance_type=kind)
    return summarise(Measure(x), covariance_type=kind), Site(
        len(x), x.mean(axis=0), np.cov(x.T, bias=True), found
    )


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


def coverage(quick: bool, given: int = 0) -> list[Row]:
    """The population's square, its interval, and how often that contains the truth."""
    rows = []
    for name, (draw, n, d, change, truth) in CASES.items():
        found = []
        for r in range(given or (4 if quick else 200)):
            rng = np.random.default_rng([r, 17])
            p = answer(draw(rng, n, d), change(draw(rng, n, d)))
            low, high = float(p.lower[0, 1] ** 2), float(p.upper[0, 1] ** 2)
            found.append((float(p.square[0, 1]), low, high, low <= truth <= high))
        square, low, high, share = np.mean(found, axis=0)
        rows.append(
            {
                "case": name,
                "truth": truth,
                "population^2": square,
                "from": low,
                "to": high,
                "covered": share,
            }
        )
    return rows


def clustered(quick: bool, _: int = 0) -> list[Row]:
    """MNIST 0-4 against 5-9, and six clusters with other weights at two sites."""
    rows = []
    for name in ("mnist20",) if quick else ("mnist20", "mnist"):
        for n in (250,) if quick else (250, 500, 1000):
            rows += [
                _cluster_row(f"{name} {kind}", *mixed(name, n, 1.0, 1), kind) for kind in TYPES
            ]
    rng = np.random.default_rng(0)
    centres, shares = 4 * rng.normal(size=(6, 20)), np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    # Moving whole clusters is one way to transport, so the truth is at most:
    bound = wasserstein(centres, centres, a=shares, b=shares[::-1]) ** 2
    for n in (250,) if quick else (250, 1000):
        x, y = (
            centres[rng.choice(6, n, p=w)] + rng.normal(size=(n, 20))
            for w in (shares, shares[::-1])
        )
        rows.append(_cluster_row(f"six clusters, truth below {bound:.4g}", x, y, "full"))
    return rows


def _cluster_row(name: str, x: Array, y: Array, kind: Any) -> Row:
    p = answer(x, y, kind)
    exact = wasserstein(x, y) ** 2
    names = {"calibrated^2": p.value, "noise^2": p.noise, "population^2": p.population}
    names |= {"from": p.lower, "to": p.upper}
    found = {key: float(array[0, 1] ** 2) for key, array in names.items()}
    return {"data": name, "n": len(x), "exact^2": exact, **found}


def cost(quick: bool, _: int = 0) -> list[Row]:
    """Seconds for a summary and for its calibration."""
    rows = []
    for n, d in (
        ((400, 30), (1500, 30), (10_000, 50))
        if quick
        else ((400, 30), (1500, 784), (10_000, 50), (20_000, 784))
    ):
        x = np.random.default_rng(0).normal(size=(n, d)) * np.linspace(2, 0.1, d)
        start = time.perf_counter()
        summarise(Measure(x))
        middle = time.perf_counter()
        calibrate(Measure(x))
        rows.append(
            {
                "n": n,
                "d": d,
                "summary s": middle - start,
                "calibration s": time.perf_counter() - middle,
            }
        )
    return rows


TABLES: dict[str, Callable[[bool, int], list[Row]]] = {
    "overlap": overlap,
    "coverage": coverage,
    "clustered": clustered,
    "level": chance_test.level,
    "power": chance_test.power,
    "splits": chance_test.splits,
    "cost": cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []])
    parser.add_argument("--quick", action="store_true", help="fewer runs and smaller data")
    parser.add_argument(
        "--runs", type=int, default=0, help="runs of each case, instead of the usual number"
    )
    options = parser.parse_args()
    from benchmarks.__main__ import show

    for name in options.tables or TABLES:
        show(name, TABLES[name](options.quick, options.runs))


if __name__ == "__main__":
    main()
