"""Distances between populations: how near to the truth, and how often the interval contains it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fedwad
from benchmarks.chance_estimates import mixed

Array = np.ndarray
Row = dict[str, Any]
Tasks = list[tuple[Any, ...]]
_SECOND = float(np.exp(2 * 0.36))  # second moment of the log-normal


def _normal(rng: np.random.Generator, n: int, d: int) -> Array:
    return rng.normal(size=(n, d))


def _t3(rng: np.random.Generator, n: int, d: int) -> Array:
    return np.asarray(rng.standard_t(3, (n, d)) / np.sqrt(3))


def _lognormal(rng: np.random.Generator, n: int, d: int) -> Array:
    return np.asarray(np.exp(0.6 * rng.normal(size=(n, d))))


def _same(y: Array) -> Array:
    return y


def _ten_doubled(y: Array) -> Array:
    return np.concatenate([2 * y[:, :10], y[:, 10:]], axis=1)


#: How rows are drawn, n or both sizes, d, what the second site does to them, the squared distance.
Case = tuple[Callable[..., Array], int | tuple[int, int], int, Callable[[Array], Array], float]
SECTION_3: dict[str, Case] = {
    "d=50, same": (_normal, 600, 50, _same, 0.0),
    "d=50, shift 0.2": (_normal, 600, 50, lambda y: y + 0.2, 2.0),
    "d=50, scale 1.3": (_normal, 600, 50, lambda y: 1.3 * y, 4.5),
    "d=50, ten features x2": (_normal, 600, 50, _ten_doubled, 10.0),
    "d=100, shift 0.3": (_normal, 300, 100, lambda y: y + 0.3, 9.0),
    "d=10, scale 1.3": (_normal, 300, 10, lambda y: 1.3 * y, 0.9),
    "t3 d=10, scale 1.3": (_t3, 500, 10, lambda y: 1.3 * y, 0.9),
    "t3 d=10, shift 0.3": (_t3, 500, 10, lambda y: y + 0.3, 0.9),
    "log-normal d=10, scale 1.3": (_lognormal, 500, 10, lambda y: 1.3 * y, 0.9 * _SECOND),
}
CASES: dict[str, Case] = SECTION_3 | {
    "d=2, same": (_normal, 300, 2, _same, 0.0),
    "d=2, shift 0.3": (_normal, 300, 2, lambda y: y + 0.3, 0.18),
    "d=2, scale 1.3": (_normal, 300, 2, lambda y: 1.3 * y, 0.18),
    "d=10, shift 0.3": (_normal, 300, 10, lambda y: y + 0.3, 0.9),
    "d=20, shift 0.1, n=150": (_normal, 150, 20, lambda y: y + 0.1, 0.2),
    "d=20, scale 1.5": (_normal, 300, 20, lambda y: 1.5 * y, 5.0),
    "d=100, scale 1.2, n=200": (_normal, 200, 100, lambda y: 1.2 * y, 4.0),
}
UNEQUAL: dict[str, Case] = {
    "same, 30 and 400": (_normal, (30, 400), 10, _same, 0.0),
    "same, 100 and 2000": (_normal, (100, 2000), 10, _same, 0.0),
    "same, d=50, 100 and 2000": (_normal, (100, 2000), 50, _same, 0.0),
    "same, t3, 100 and 1000": (_t3, (100, 1000), 10, _same, 0.0),
    "shift 0.3, 100 and 1000": (_normal, (100, 1000), 10, lambda y: y + 0.3, 0.9),
    "scale 1.3, 100 and 1000": (_normal, (100, 1000), 10, lambda y: 1.3 * y, 0.9),
    "scale 1.3, d=50, 200 and 1000": (_normal, (200, 1000), 50, lambda y: 1.3 * y, 4.5),
}


def _one(name: str, r: int) -> tuple[float, float, float]:
    """Squared population distance and the squared ends of its interval."""
    draw, n, d, change, _ = (CASES | UNEQUAL)[name]
    first, second = (n, n) if isinstance(n, int) else n
    rng = np.random.default_rng([r, 17])
    found = fedwad.distance(draw(rng, first, d), change(draw(rng, second, d)))
    assert found.population is not None
    assert found.population_interval is not None
    low, high = found.population_interval
    return found.population**2, low**2, high**2


def _population_tasks(runs: int) -> Tasks:
    return [(name, r) for name in SECTION_3 for r in range(runs or 8)]


def _coverage_tasks(runs: int) -> Tasks:
    return [(name, r) for name in CASES for r in range(runs or 200)]


def _unequal_tasks(runs: int) -> Tasks:
    return [(name, r) for name in UNEQUAL for r in range(runs or 100)]


def _rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[str, list[Any]] = {}
    for (name, _), values in zip(tasks, found, strict=True):
        cases.setdefault(name, []).append(values)
    rows = []
    for name, many in cases.items():
        truth = (CASES | UNEQUAL)[name][4]
        square, low, high = np.mean(many, axis=0)
        covered = float(np.mean([a <= truth + 1e-12 and truth <= b for _, a, b in many]))
        rows.append(
            {"case": name, "truth^2": truth, "population^2": float(square)}
            | {"from": float(low), "to": float(high), "covered": covered, "runs": len(many)}
        )
    return rows


def _clustered_tasks(runs: int) -> Tasks:
    real = [
        (name, kind, n, r)
        for n in (4000, 500, 250)
        for name in ("mnist", "mnist20")
        for kind in ("full", "diag")
        for r in range(runs or 3)
        if n < 4000 or (r == 0 and kind == "full")
    ]
    planted = [("six clusters", "full", n, r) for n in (250, 1000) for r in range(runs or 3)]
    return real + planted


def six_clusters(n: int, r: int) -> tuple[Array, Array, float]:
    """Two samples of six clusters with other weights, and what the distance is at most."""
    rng = np.random.default_rng(0)
    centres, shares = 4 * rng.normal(size=(6, 20)), np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    bound = fedwad.wasserstein(centres, centres, a=shares, b=shares[::-1]) ** 2
    rng = np.random.default_rng([r, 3])
    x, y = (
        centres[rng.choice(6, n, p=w)] + rng.normal(size=(n, 20)) for w in (shares, shares[::-1])
    )
    return x, y, float(bound)


def _clustered(name: str, kind: Any, n: int, r: int) -> dict[str, float]:
    x, y, truth = six_clusters(n, r) if name == "six clusters" else (*mixed(name, n, 1.0, r), None)
    exact = fedwad.wasserstein(x, y) ** 2
    if n >= 4000:
        return {"exact^2": exact}
    found = fedwad.distance(x, y, covariance_type=kind)
    assert found.population is not None
    assert found.population_interval is not None
    low, high = found.population_interval
    answer = {"exact^2": exact, "population^2": found.population**2}
    answer |= {"from": low**2, "to": high**2}
    return answer | ({} if truth is None else {"truth^2": truth})


def _clustered_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[tuple[Any, ...], list[Any]] = {}
    for task, row in zip(tasks, found, strict=True):
        cases.setdefault(task[:3], []).append(row)
    return [
        {"data": name, "type": kind, "n": n}
        | {key: float(np.mean([one[key] for one in many])) for key in many[0]}
        for (name, kind, n), many in cases.items()
    ]


def _limit_tasks(runs: int) -> Tasks:
    sizes = {4000: 1, 2000: 2, 1000: 4, 500: 6, 250: 8}
    return [
        (name, n, r)
        for n, repeats in sizes.items()
        for name in ("mnist", "mnist20")
        for r in range(runs or repeats)
    ]


def _exact_square(name: str, n: int, r: int) -> float:
    return fedwad.wasserstein(*mixed(name, n, 1.0, r)) ** 2


def _limit_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    """Mean exact squares at each size n, and the limit a of a + b n^-c fitted to them."""
    from scipy.optimize import curve_fit

    rows = []
    for name in dict.fromkeys(task[0] for task in tasks):
        squares: dict[int, list[float]] = {}
        for (data, n, _), square in zip(tasks, found, strict=True):
            if data == name:
                squares.setdefault(n, []).append(square)
        sizes, means = np.array(sorted(squares)), [np.mean(squares[n]) for n in sorted(squares)]
        largest = means[-1]
        (limit, _, exponent), _ = curve_fit(
            lambda ratio, a, b, c: a + b * ratio**-c,
            sizes / sizes[0],
            means,
            p0=[0.9 * largest, 0.2 * largest, 0.4],
            bounds=([0.0, 0.0, 0.02], [largest, means[0], 1.5]),
        )
        row: Row = {"data": name} | {f"n={n}": float(m) for n, m in zip(sizes, means, strict=True)}
        rows.append(row | {"limit": float(limit), "exponent": float(exponent)})
    return rows


TABLES: dict[str, Any] = {
    "population": (_population_tasks, _one, _rows),
    "coverage": (_coverage_tasks, _one, _rows),
    "unequal": (_unequal_tasks, _one, _rows),
    "clustered": (_clustered_tasks, _clustered, _clustered_rows),
    "limit": (_limit_tasks, _exact_square, _limit_rows),
}
