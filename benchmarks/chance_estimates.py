"""Errors of the calibrated estimate: overlap, disjoint samples, labelled data, many sites."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

import fedwad

Array = np.ndarray
Row = dict[str, Any]
Tasks = list[tuple[Any, ...]]
DATA = ("digits", "mnist", "fashion_mnist", "usps", "cancer")
SHARES = (0.5, 0.65, 0.75, 1.0)
OTDD = ("mnist", "kmnist", "usps", "fashion_mnist")


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


def errors(x: Array, y: Array, kind: Any) -> tuple[float, float]:
    """Relative errors of the plain and of the calibrated estimate, from one message."""
    exact = fedwad.wasserstein(x, y)
    fed = fedwad.local({"a": x, "b": y})
    found = fedwad.distance(fed["a"], fed["b"], covariance_type=kind)
    from fedwad.federation import SummaryRequest
    from fedwad.ot import estimate

    request = SummaryRequest(10, kind, 2.0, 0, calibration=False)
    replies = fed.ask(dict.fromkeys(fed.names, request))
    plain = estimate(*(replies[name].summary for name in fed.names)).value
    return plain / exact - 1, found.value / exact - 1


def _overlap_tasks(runs: int) -> Tasks:
    return [
        (name, n, kind, share, r)
        for n in (1500, 400, 200)  # the longest first
        for name in DATA
        for kind in ("full", "diag")
        for share in SHARES
        for r in range(runs or 3)
    ]


def _overlap(name: str, n: int, kind: str, share: float, r: int) -> tuple[float, float]:
    return errors(*mixed(name, n, share, r), kind)


def _overlap_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[tuple[Any, ...], list[Any]] = {}
    for task, error in zip(tasks, found, strict=True):
        cases.setdefault(task[:4], []).append(error)
    rows: list[Row] = []
    means: dict[str, list[float]] = {"full": [], "diag": []}
    worst: dict[str, float] = {"full": 0.0, "diag": 0.0}
    for (name, n, kind, share), many in sorted(cases.items()):
        plain, ours = np.mean(many, axis=0)
        single = float(np.abs([one[1] for one in many]).max())
        means[kind].append(abs(float(ours)))
        worst[kind] = max(worst[kind], single)
        rows.append(
            {"data": name, "n": n, "type": kind, "share": share}
            | {"plain %": 100 * float(plain), "value %": 100 * float(ours)}
            | {"worst run %": 100 * single}
        )
    for kind, all_of in means.items():
        rows.append(
            {"data": "all: worst mean, mean of |means|, worst run", "type": kind}
            | {"plain %": 100 * max(all_of), "value %": 100 * float(np.mean(all_of))}
            | {"worst run %": 100 * worst[kind]}
        )
    return rows


def _disjoint_tasks(runs: int) -> Tasks:
    return [
        (name, kind, r)
        for name in ("mnist", "fashion_mnist", "usps", "digits", "cancer", "Gaussians")
        for kind in ("auto", "diag")
        for r in range(runs or 3)
    ]


def _disjoint(name: str, kind: str, r: int) -> tuple[float, float]:
    if name == "Gaussians":
        rng = np.random.default_rng(r)
        return errors(rng.normal(size=(1000, 50)), 1.2 * rng.normal(size=(1000, 50)) + 0.5, kind)
    return errors(*mixed(name, 1000, 1.0, r), kind)


def _disjoint_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[tuple[Any, ...], list[Any]] = {}
    for task, error in zip(tasks, found, strict=True):
        cases.setdefault(task[:2], []).append(error)
    return [
        {"data": name, "type": kind, "plain %": 100 * float(np.mean([e[0] for e in many]))}
        | {"value %": 100 * float(np.mean([e[1] for e in many]))}
        | {"worst run %": 100 * float(np.abs([e[1] for e in many]).max())}
        for (name, kind), many in cases.items()
    ]


def _rounds_tasks(runs: int) -> Tasks:
    return [
        (name, support, share, r)
        for name in ("digits", "mnist20", "fashion_mnist", "usps", "cancer")
        for support in (10, 100)
        for share in (0.5, 0.75, 1.0)
        for r in range(runs or 1)
    ]


def _rounds(name: str, support: int, share: float, r: int) -> float:
    x, y = mixed(name, 600, share, r)
    found = fedwad.distance(x, y, method="fedwad", support=support, rounds=20)
    return found.value / fedwad.wasserstein(x, y) - 1


def _rounds_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    cases: dict[tuple[Any, ...], list[float]] = {}
    for task, error in zip(tasks, found, strict=True):
        cases.setdefault(task[:2], []).append(100 * error)
    return [
        {"data": name, "support": support, "mean %": float(np.mean(errors))}
        | {"lowest %": min(errors), "highest %": max(errors)}
        for (name, support), errors in cases.items()
    ]


def _otdd_tasks(_: int) -> Tasks:
    return [(a, b, n) for n in (1000, 400) for a, b in combinations(OTDD, 2)]


def _otdd(a: str, b: str, n: int) -> dict[str, float]:
    data = [fedwad.datasets.load(name, samples=n) for name in (a, b)]
    exact = fedwad.ot.dataset_distance(*data[0], *data[1])
    found = fedwad.distance(*data, labels=True)
    return {"exact": exact, "value %": 100 * (found.value / exact - 1), "noise": found.noise or 0.0}


def _otdd_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    return [
        {"pair": f"{a} - {b}", "n": n} | row for (a, b, n), row in zip(tasks, found, strict=True)
    ]


def _ranks_tasks(_: int) -> Tasks:
    return [
        (count, labels, kind)
        for count in (100, 20)
        for labels in (False, True)
        for kind in ("auto", "diag")
    ]


def _ranks(count: int, labels: bool, kind: str) -> dict[str, float]:
    from scipy.stats import spearmanr

    from fedwad.ot import Measure, labelled, solve

    x, y = fedwad.datasets.load("mnist")
    parts = fedwad.datasets.partition.class_pairs(
        x, y, clients=count, samples=300, seed=0, balanced=True
    )
    measures = [labelled(Measure(a), b) if labels else Measure(a) for a, b in parts.values()]
    pairs = list(combinations(range(count), 2))
    pairs = [pairs[k] for k in np.random.default_rng(0).permutation(len(pairs))[:400]]
    i, j = np.array(pairs).T
    exact = np.array([solve(measures[a], measures[b]).distance for a, b in pairs])
    found = fedwad.matrix(fedwad.local(parts), labels=labels, covariance_type=kind, n_jobs=1)
    error = found.value[i, j] / exact - 1
    answer = {"rank": float(spearmanr(exact, found.value[i, j]).statistic)}
    return answer | {"mean error %": 100 * float(error.mean()), "sd %": 100 * float(error.std())}


def _ranks_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    return [
        {"clients": count, "labels": labels, "type": kind} | row
        for (count, labels, kind), row in zip(tasks, found, strict=True)
    ]


TABLES: dict[str, Any] = {
    "overlap": (_overlap_tasks, _overlap, _overlap_rows),
    "disjoint": (_disjoint_tasks, _disjoint, _disjoint_rows),
    "rounds": (_rounds_tasks, _rounds, _rounds_rows),
    "otdd": (_otdd_tasks, _otdd, _otdd_rows),
    "ranks": (_ranks_tasks, _ranks, _ranks_rows),
}
