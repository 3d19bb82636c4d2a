"""What random rounding of cells costs, and what it keeps from the swap attack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedwad
from fedwad.audit.api import REQUEST_KINDS
from fedwad.audit.rare import rare_column, swap_records
from fedwad.audit.session import AttackSession
from fedwad.federation import Columns, Dataset, Policy, read, read_raw
from fedwad.transport import Measure

POLICIES = Path(__file__).parents[1] / "docs" / "policies"
SIZES = 0.0, 1.0, 3.0, 6.0
Floats = NDArray[Any]


def _patients(seed: int, count: int = 500) -> Floats:
    """Whole numbers as in a table of patients; the last column is a value that one patient has."""
    rng = np.random.default_rng(seed)
    numbers = np.rint(rng.normal([54, 132, 246, 149], [9, 17, 51, 23], (count, 4)))
    flags = rng.random((count, 3)) < [0.68, 0.15, 0.33]
    return np.column_stack([numbers, flags, np.arange(count) == 0]).astype(float)


def _heart(site: str) -> tuple[Floats, Floats, Floats]:
    """The encoded rows of a hospital with the rarest record first; centre and scale of features."""
    columns = Columns.of("num", schema="auto")
    path = fedwad.datasets.load("heart")[site]
    data = read(read_raw(path, columns=columns), columns=columns)
    assert data.schema is not None
    X, flag = data.measure.points, rare_column(data.measure.points)
    if flag is None:  # no value that only one has: the column with the fewest others becomes one
        counts = [min(np.unique(x, return_counts=True)[1]) for x in X.T]
        flag = int(np.argmin(counts))
        X = np.column_stack([X, np.arange(len(X)) == int(np.abs(X[:, flag]).argmax())])
        flag = X.shape[1] - 1
    first = int(np.abs(X[:, flag] - np.median(X[:, flag])).argmax())
    order = [first, *np.delete(np.arange(len(X)), first)]
    scales = np.ones(X.shape[1])
    starts = np.cumsum([0, *(column.width for column in data.schema.compared_columns)])
    for column, start in zip(data.schema.compared_columns, starts, strict=False):
        scales[start] = column.scale if column.kind == "number" else column.on_value
    keep = np.delete(np.arange(X.shape[1]), flag)
    return X[order], keep, scales


def swap() -> Iterator[dict[str, Any]]:
    """The swap attack over the policy's rounding: how many values of a rare patient come back to
    the unit, of made tables of 200, 500 and 1000 patients and of four hospitals."""
    problems: dict[str, list[tuple[Floats, Floats, Floats]]] = {
        f"n={n}": [(_patients(k, n), np.arange(7), np.ones(8)) for k in range(10)]
        for n in (500, 200, 1000)
    }
    problems |= {site: [_heart(site)] for site in fedwad.datasets.load("heart")}
    for name, method in (("hub", "hub"), ("rounds", "fedwad")):
        for title, tables in problems.items():
            for rounding in SIZES if title == "n=500" else (0.0, 6.0):
                policy = replace(Policy.load(POLICIES / f"{name}.toml"), rounding=rounding)
                right, guessed, squares = [], [], []
                for seed, (X, keep, scales) in enumerate(tables):
                    session = AttackSession(Dataset(Measure(X)), policy, REQUEST_KINDS[method])
                    found = swap_records(session, np.random.default_rng(seed))
                    if not len(found):
                        continue
                    errors = ((found[0] - X[0]) * scales)[keep]
                    means = ((X.mean(axis=0) - X[0]) * scales)[keep]
                    right.append(float((np.abs(errors) < 0.5).sum()))
                    guessed.append(float((np.abs(means) < 0.5).sum()))
                    stds = (X.std(axis=0) * scales)[keep]
                    squares.append(float(np.mean((errors / np.where(stds > 0, stds, 1)) ** 2)))
                yield {
                    "policy": name,
                    "table": title,
                    "rounding": str(rounding),
                    "values": len(tables[0][1]),
                    "right": float(np.mean(right)) if right else "refused",
                    "by guessing": float(np.mean(guessed)) if right else "",
                    "error in standard deviations": (
                        float(np.sqrt(np.mean(squares))) if right else ""
                    ),
                }


def cost() -> Iterator[dict[str, Any]]:
    """Errors of rounds and of a hub over the policy's rounding, ten support points."""
    rng = np.random.default_rng(0)
    images, labels = fedwad.datasets.load("digits")
    problems = {
        f"Gaussians, d=5, n={n}": (rng.normal(size=(n, 5)), rng.normal(0.3, 1.2, (n, 5)))
        for n in (200, 1000, 5000)
    }
    problems["digits 0-4 against 5-9, n=900"] = images[labels < 5], images[labels >= 5]
    for name, (x, y) in problems.items():
        exact = fedwad.wasserstein(x, y)
        for rounding in (0.0, 3.0, 6.0):
            policy = replace(Policy.open(), rounding=rounding)
            fed = fedwad.local({"x": x, "y": y}, policy=policy)
            rounds = fedwad.distance(fed["x"], fed["y"], "fedwad", support=10, t=0.5)
            hub = fedwad.matrix(fed, method="hub")
            assert rounds.fedwad is not None
            yield {
                "problem": name,
                "rounding": str(rounding),
                "paper": rounds.fedwad / exact - 1,
                "value, rounds": rounds.value / exact - 1,
                "lower, rounds": rounds.lower / exact - 1,
                "upper, rounds": rounds.upper / exact - 1,
                "value, hub": float(hub.value[0, 1]) / exact - 1,
                "lower, hub": float(hub.lower[0, 1]) / exact - 1,
                "upper, hub": float(hub.upper[0, 1]) / exact - 1,
            }
