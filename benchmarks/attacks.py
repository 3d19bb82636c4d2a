"""Attacks on three real tables, before and after what closes them: `python -m benchmarks attacks`.

"before" switches the fix off; "now" is the example policy. Both give the distance of the guess to
the record, in standard deviations, or how many contributions one label moves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from fedwad._audit._session import AttackSession
from fedwad._audit._summaries import find_rare_records
from fedwad.errors import FedwadError
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    Client,
    Dataset,
    Ledger,
    MomentsRequest,
    Policy,
    open_client,
)
from fedwad.federation.requests import atoms
from fedwad.ot import Measure
from fedwad.tables import label_values, read_table

__all__ = ["measure"]

POLICIES = Path(__file__).parents[1] / "docs" / "policies"
Floats = NDArray[np.float64]


def measure() -> list[dict[str, Any]]:
    """Rows 1 to 6 on three tables that no test uses."""
    rows = []
    for name, X in _tables().items():
        for attack in (fourth_powers, first_powers, tail_sums, versions, labels, duals, sampling):
            before, now = attack(X)
            title = (attack.__doc__ or "").splitlines()[0]
            shown: float | str = "refused" if np.isnan(now) else now
            rows.append({"data": name, "attack": title, "before": before, "now": shown})
    return rows


def _tables() -> dict[str, Floats]:
    """Standardised tables with one more column, a flag that one record has."""
    from sklearn.datasets import load_diabetes, load_iris, load_wine

    found = {}
    for name, load in (("wine", load_wine), ("diabetes", load_diabetes), ("iris", load_iris)):
        X = np.asarray(load().data, dtype=np.float64)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        flag = np.zeros(len(X))
        flag[len(X) // 3] = 1.0
        copies = -(-400 // len(X))  # example policies want 200 samples and more
        jitter = np.random.default_rng(0).normal(0, 0.05, (copies * len(X), X.shape[1]))
        flags = np.concatenate([flag, np.zeros((copies - 1) * len(X))])
        found[name] = np.column_stack([np.tile(X, (copies, 1)) + jitter, flags])
    return found


def _client(X: Floats, policy: Policy, ledger: Ledger | None = None) -> Client:
    return Client(Dataset(Measure(X)), policy, ledger)


def _ready(name: str, **changes: Any) -> Policy:
    return replace(Policy.load(POLICIES / f"{name}.toml"), **changes)


def _error(X: Floats, guess: Floats | None) -> float:
    """The distance to the nearest record; NaN without a guess."""
    if guess is None or not np.isfinite(guess).all():
        return float("nan")
    return float(np.abs(X - guess).max(axis=1).min())


def _mean(client: Client) -> Floats:
    moments: Any = client.answer(MomentsRequest())
    return np.asarray(moments.mean)


def _power(client: Client, z: Floats, p: float) -> float:
    """E|x - z|^p by ten coinciding points; NaN if it is refused."""
    try:
        reply = client.answer(CellsRequest("a", Measure(np.tile(z, (10, 1))), p, "spherical"))
    except FedwadError:
        return float("nan")
    return float((getattr(reply, "distance", None) or np.nan) ** p)


def _flag_by_covariance(X: Floats, policy: Policy, row: Callable[..., Floats]) -> float:
    client = _client(X, policy)
    moments: Any = client.answer(MomentsRequest())
    n, d = X.shape
    column = row(client, moments.mean, moments.scale**2, d)
    return _error(X[[int(X[:, -1].argmax())]], moments.mean + column * n)


def fourth_powers(X: Floats) -> tuple[float, float]:
    """1: a flagged record by distances of order 4"""

    def row(client: Client, mean: Floats, variance: Floats, d: int) -> Floats:
        far, unit, total = 30.0, np.eye(d), float(variance.sum())

        def even(z: Floats) -> float:
            powers = (_power(client, mean + z, 4.0) + _power(client, mean - z, 4.0)) / 2
            length = float(z @ z)
            return powers - length**2 - 2 * length * total - 4 * float(z**2 @ variance)

        fourth = even(far * unit[-1])
        found = [(even(far * (unit[-1] + unit[k])) - fourth) / (8 * far**2) for k in range(d - 1)]
        return np.array([*found, variance[-1]])

    return _before_and_now(X, row)


def first_powers(X: Floats) -> tuple[float, float]:
    """1b: the same by distances of order 1, from far away"""

    def row(client: Client, mean: Floats, variance: Floats, d: int) -> Floats:
        far, unit, total = 1e3, np.eye(d), float(variance.sum())

        def along(u: Floats) -> float:
            u = u / np.linalg.norm(u)
            there = _power(client, mean + far * u, 1.0) + _power(client, mean - far * u, 1.0)
            return total - far * (there - 2 * far)

        found = [along(unit[-1] + unit[k]) - (variance[-1] + variance[k]) / 2 for k in range(d - 1)]
        return np.array([*found, variance[-1]])

    return _before_and_now(X, row)


def _before_and_now(X: Floats, row: Callable[..., Floats]) -> tuple[float, float]:
    before = _flag_by_covariance(X, _ready("rounds", orders=None, max_queries=None), row)
    return before, _flag_by_covariance(X, _ready("rounds"), row)


def tail_sums(X: Floats) -> tuple[float, float]:
    """2: a record in the tail of one column, by distances of order 1"""
    column = X[:, :1]

    def largest(policy: Policy) -> float:
        client = _client(column, policy)
        n, mean = len(column), float(column.mean())
        low, high = mean, mean + 20.0
        for _ in range(24):  # a place with one record beyond
            z = (low + high) / 2
            there = [_power(client, np.array([y]), 1.0) - y + mean for y in (z, z + 1e-4)]
            beyond = [n * one / 2 for one in there]
            slope = (beyond[0] - beyond[1]) / 1e-4
            if abs(slope - 1) < 1e-3:
                return _error(column, np.array([beyond[0] + z]))
            low, high = (z, high) if slope > 1 else (low, z)
        return float("nan")

    return largest(_ready("rounds", orders=None, max_queries=None)), largest(_ready("rounds"))


def versions(X: Floats) -> tuple[float, float]:
    """3: the record that joined, from moments before and after"""

    def joined() -> float:
        ledger, n = Ledger(), len(X)
        try:
            means = [_mean(_client(data, _ready("hub"), ledger)) for data in (X[1:], X)]
        except FedwadError:
            return float("nan")
        return _error(X[:1], n * means[1] - (n - 1) * means[0])

    with patch.object(Client, "_check_data_version", lambda _: None):
        before = joined()
    return before, joined()


def labels(X: Floats) -> tuple[float, float]:
    """4: contributions of a release by class that one label moves"""
    rows = [f"{x:.6f},{k % 2}" for k, x in enumerate(X[:, 0])]
    before, now = [], []
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.toml"
        policy.write_text('name = "a"\nallow = ["private"]\nepsilon = 3.0\nlabel_names = [0, 1]\n')
        for last in ("1", "unclear"):
            path = Path(folder) / f"{last}.csv"
            path.write_text("\n".join(["x,y", *rows[:-1], f"0.0,{last}"]) + "\n")
            # Before, the type of the whole column decided whether a label was one of the names.
            seen = label_values(read_table(path)["y"], last).tolist()
            before.append([type(one) is int and one in (0, 1) for one in seen].count(True))
            ledger = Path(folder) / f"{last}.jsonl"
            data = open_client(path, policy, ledger, label_column="y", schema="none").data
            codes = data.require_class_codes()
            now.append(sum(data.names[code] is not None for code in codes))
    return float(before[0] - before[1]), float(now[0] - now[1])


@contextmanager
def without_floor_on_duals() -> Iterator[None]:
    kept = atoms._fractions

    def fractions(*given: Any) -> Any:
        return *kept(*given)[:3], False

    def dual(reduced: Floats, _: float, weights: Floats, __: int) -> float:
        return float(weights @ reduced.min(axis=1))

    with patch.object(atoms, "_fractions", fractions), patch.object(atoms, "_dual", dual):
        yield


def duals(X: Floats) -> tuple[float, float]:
    """5: the outermost record by a coreset's dual value"""
    points = X[:, :-1]

    def outermost() -> float:
        client, n, d = _client(points, _ready("coreset", max_queries=None)), *points.shape

        def beyond(v: Floats, cut: float) -> float:
            far = 200.0
            potentials = np.array([0.0, far**2 * float(v @ v) - 2 * far * cut])
            reply: Any = client.answer(AtomsRequest(np.array([0 * v, far * v]), potentials, 0.0))
            if reply.masses[1] > 0:
                return float("inf")
            if reply.dual is None:
                return float("nan")
            whole = float(reply.squares.sum() - reply.masses @ potentials)
            return float(n * (whole - reply.dual) / (2 * far))

        direction = np.random.default_rng(1).standard_normal(d)
        direction /= np.linalg.norm(direction)
        low, high = 0.0, 20.0
        for _ in range(30):
            cut = (low + high) / 2
            slope = (beyond(direction, cut) - beyond(direction, cut + 1e-3)) / 1e-3
            if abs(slope - 1) < 1e-3:
                turned = direction + 1e-3 * np.eye(d)
                sides = [beyond(v, cut) + cut for v in turned]
                return _error(points, np.linalg.solve(turned, np.array(sides)))
            low, high = (low, cut) if slope < 1 else (cut, high)
        return float("nan")

    with without_floor_on_duals():
        before = outermost()
    return before, outermost()


def sampling(X: Floats) -> tuple[float, float]:
    """6: seeds of 5 for which an audit of 5000 records misses what a full covariance gives away"""
    rng = np.random.default_rng(0)
    many = X[rng.integers(len(X), size=5000)] + rng.normal(0, 0.05, (5000, X.shape[1]))
    many[:, -1] = 0.0
    many[1234, -1] = 1.0
    policy = _ready("summary", covariance_type="full")

    def missed(rows: Floats) -> bool:
        session = AttackSession(Dataset(Measure(rows)), policy, {"summary"})
        found = find_rare_records(session, np.random.default_rng(0))
        return not any(np.abs(many[1234] - guess).max() < 1e-6 for guess in found)

    parts = [np.random.default_rng(seed).permutation(5000)[:1000] for seed in range(5)]
    before = sum(missed(many[np.sort(part)]) for part in parts)
    return float(before), 5.0 * missed(many)
