"""Parts of columns where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import fedwad
from fedwad.ot import Floats

Row = dict[str, Any]
_KINDS = ("shift", "scale", "category", "correlation")
_SHIFT, _SCALE, _RHO = 0.5, 1.5, 0.8
_LEVELS = np.array(["a", "b", "c"])


def planted_tasks(runs: int) -> list[tuple[str, int, int, str, int]]:
    return [
        (kind, d, n, covariance_type, run)
        for kind in _KINDS
        for d in (20, 50, 100)
        for n in (300, 1000)
        for covariance_type in (("full",) if kind == "correlation" else ("full", "diag"))
        for run in range(runs or 100)
    ]


def planted(kind: str, d: int, n: int, covariance_type: str, run: int) -> tuple[bool, float]:
    """Whether the changed column ranks first, and its part of the excess.

    A correlation changes two columns, which must be the first two.
    """
    rng = np.random.default_rng([run, d, n])
    x, y = _correlated(rng, n, d), _correlated(rng, n, d)
    chosen = [int(rng.integers(d))]
    if kind == "category":
        return _category(x, y, rng, covariance_type)
    if kind == "shift":
        y[:, chosen[0]] += _SHIFT
    elif kind == "scale":
        y[:, chosen[0]] *= _SCALE
    else:
        chosen.append((chosen[0] + 1) % d)
        x[:, chosen] = rng.normal(size=(n, 2))
        z = rng.normal(size=(n, 2))
        y[:, chosen[0]] = z[:, 0]
        y[:, chosen[1]] = _RHO * z[:, 0] + np.sqrt(1 - _RHO**2) * z[:, 1]
    e = fedwad.distance(x, y, covariance_type=covariance_type).explain()  # type: ignore[arg-type]
    first = set(e.order[: len(chosen)]) == set(chosen) and bool(e.excess.any())
    return first, float(e.excess[chosen].sum())


def _correlated(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Columns of unit variance, each two of which have a correlation of 0.3."""
    return np.sqrt(0.7) * rng.normal(size=(n, d)) + np.sqrt(0.3) * rng.normal(size=(n, 1))


def _category(
    x: Floats, y: Floats, rng: np.random.Generator, covariance_type: str
) -> tuple[bool, float]:
    """One category of three levels among numbers: 50:30:20 percent here, 25:55:20 there."""
    tables = {}
    for name, points, shares in (("x", x, [0.5, 0.3, 0.2]), ("y", y, [0.25, 0.55, 0.2])):
        table = pd.DataFrame(points[:, 1:], columns=[f"c{k}" for k in range(1, points.shape[1])])
        table.insert(0, "level", rng.choice(_LEVELS, len(points), p=shares))
        tables[name] = table
    fed = fedwad.local(tables)
    e = fedwad.distance(fed["x"], fed["y"], covariance_type=covariance_type).explain()  # type: ignore[arg-type]
    place = e.names.index("level")
    return e.order[0] == place and bool(e.excess.any()), float(e.excess[place])


def planted_rows(tasks: list[tuple[Any, ...]], found: list[tuple[bool, float]]) -> list[Row]:
    rows: dict[tuple[Any, ...], list[tuple[bool, float]]] = {}
    for task, one in zip(tasks, found, strict=True):
        rows.setdefault(task[:4], []).append(one)
    return [
        {
            "change": kind,
            "columns": d,
            "rows": n,
            "covariance": covariance_type,
            "ranks first": f"{np.mean([first for first, _ in some]):.0%}",
            "part of the excess, mean": float(np.mean([part for _, part in some])),
            "within 0.1 of 1": f"{np.mean([part >= 0.9 for _, part in some]):.0%}",
            "runs": len(some),
        }
        for (kind, d, n, covariance_type), some in rows.items()
    ]


_NULLS = ("normal", "correlated", "t4", "log-normal", "categories", "wisconsin", "wine", "heart")


def null_tasks(runs: int) -> list[tuple[str, int]]:
    return [(name, run) for name in _NULLS for run in range(runs or 100)]


def null(name: str, run: int) -> bool:
    """Whether nothing is left of two samples of one population."""
    rng = np.random.default_rng(run)
    a, b = _same(name, rng)
    fed = fedwad.local({"a": a, "b": b}, schema="auto")
    e = fedwad.distance(fed["a"], fed["b"]).explain()
    return not e.excess.any()


def _same(name: str, rng: np.random.Generator) -> tuple[Any, Any]:
    if name == "normal":
        x = rng.normal(size=(600, 20))
    elif name == "correlated":
        x = _correlated(rng, 600, 20)
    elif name == "t4":
        x = rng.standard_t(4, size=(600, 10))
    elif name == "log-normal":
        x = np.exp(0.7 * rng.normal(size=(600, 10)))
    elif name == "categories":
        x = pd.DataFrame({f"c{k}": rng.choice(_LEVELS, 600) for k in range(8)})
    else:
        x = _real(name)
    order = rng.permutation(len(x))
    half = len(x) // 2
    rows = order[:half], order[half : 2 * half]
    if isinstance(x, pd.DataFrame):
        return x.iloc[rows[0]], x.iloc[rows[1]]
    return x[rows[0]], x[rows[1]]


def _real(name: str) -> Any:
    if name == "heart":
        from fedwad.datasets._heart import HEART_LABEL, heart_files

        return pd.read_csv(heart_files()["cleveland"], na_values="?").drop(columns=HEART_LABEL)
    from sklearn.datasets import load_breast_cancer, load_wine

    data = (load_breast_cancer if name == "wisconsin" else load_wine)().data
    return (data - data.mean(axis=0)) / data.std(axis=0)


def null_rows(tasks: list[tuple[Any, ...]], found: list[bool]) -> list[Row]:
    rows: dict[str, list[bool]] = {}
    for task, one in zip(tasks, found, strict=True):
        rows.setdefault(task[0], []).append(one)
    return [
        {"population": name, "excess zero": f"{np.mean(some):.0%}", "runs": len(some)}
        for name, some in rows.items()
    ]


def error_tasks(runs: int) -> list[tuple[int, int]]:
    return [(n, run) for n in (100, 400) for run in range(runs or 100)]


def error_of(n: int, run: int) -> list[list[float]]:
    """Shares and excess of four columns, and their standard errors."""
    rng = np.random.default_rng([n, run])
    x, y = rng.normal(size=(2, n, 8))
    y = y * [1, 1, 2, 1, 1, 1, 1, 1] + np.array([1, 0.7, 0, 0, 0, 0, 0, 0])
    e = fedwad.distance(x, y).explain()
    return tuple(
        getattr(e, part)[:4].tolist() for part in ("share", "share_std", "excess", "excess_std")
    )  # type: ignore[return-value]


def error_rows(tasks: list[tuple[Any, ...]], found: list[Any]) -> list[Row]:
    rows = []
    for n in dict.fromkeys(task[0] for task in tasks):
        some = np.array([one for task, one in zip(tasks, found, strict=True) if task[0] == n])
        for k, name in enumerate(("shift 1", "shift 0.7", "scale 2", "nothing")):
            rows.append(
                {
                    "rows": n,
                    "column": name,
                    "share": float(some[:, 0, k].mean()),
                    "its spread": float(some[:, 0, k].std()),
                    "standard error": float(some[:, 1, k].mean()),
                    "excess": float(some[:, 2, k].mean()),
                    "its spread ": float(some[:, 2, k].std()),
                    "standard error ": float(some[:, 3, k].mean()),
                }
            )
    return rows


TABLES = {
    "planted": (planted_tasks, planted, planted_rows),
    "null": (null_tasks, null, null_rows),
    "errors": (error_tasks, error_of, error_rows),
}
