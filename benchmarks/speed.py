"""Exact transport and whole calls against POT and SciPy, in the same run, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

import fedwad
from benchmarks import plain
from fedwad.federation import (
    Client,
    Dataset,
    LocalFederation,
    Policy,
)
from fedwad.transport import Measure
from fedwad.transport._small import small_support
from fedwad.transport.costs import squared_distances
from fedwad.transport.solving import assignment

PIVOTS = 10**8


def best(
    work: Callable[..., Any], repeats: int, fresh: Callable[[], Any] | None = None
) -> tuple[float, Any]:
    """Least processor time of several runs, and the last result.

    Each run gets what `fresh` makes, outside its time: sites repeat stored replies, so those of an
    earlier run would be measured at nothing.
    """
    times, result = [], None
    for _ in range(repeats):
        del result  # its memory is free for the next one
        given = () if fresh is None else (fresh(),)
        start = time.process_time()
        result = work(*given)
        times.append(time.process_time() - start)
    return min(times), result


def problem(n: int, size: int, d: int, weighted: bool = False) -> tuple[Measure, Measure, Measure]:
    """Gaussian samples, a Gaussian support, and the support moved by 1% of its spread."""
    rng = np.random.default_rng(n + size + d)
    x, z = rng.standard_normal((n, d)), rng.standard_normal((size, d))
    moved = z + 0.01 * rng.standard_normal((size, d))
    a, b = (rng.random(k) + 0.1 if weighted else None for k in (n, size))
    return Measure(x, a), Measure(z, b), Measure(moved, b)


def transport(
    n: int, size: int, d: int, weighted: bool = False, repeats: int = 7
) -> dict[str, Any]:
    """One row: the transport alone, both given the same cost matrix; warm starts come from the
    unmoved support."""
    mu, nu, moved = problem(n, size, d, weighted)
    a, b = mu.weights, nu.weights
    costs = [squared_distances(mu, target) for target in (nu, moved)]
    square = n == size
    first = assignment(costs[0]) if square else small_support(costs[0], a, b)
    _, log = ot.emd(a, b, costs[0], numItermax=PIVOTS, log=True)
    few = max(1, repeats // 3)
    rival_cold, cold_plan = best(lambda: ot.emd(a, b, costs[1], numItermax=PIVOTS), few)
    rival_warm, _ = best(
        lambda: ot.emd(a, b, costs[1], numItermax=PIVOTS, potentials_init=(log["u"], log["v"])), few
    )
    if square:
        ours_cold, found = best(lambda: assignment(costs[1]), repeats)
        ours_warm, again = best(lambda: assignment(costs[1], first.g), repeats)
    else:
        ours_cold, found = best(lambda: small_support(costs[1], a, b), repeats)
        ours_warm, again = best(lambda: small_support(costs[1], a, b, first.g), repeats)
    reference = float((cold_plan * costs[1]).sum())
    paid = [float(one.mass @ costs[1][one.rows, one.cols]) for one in (found, again)]
    row = {
        "problem": f"{n} x {size}, d={d}" + (", weighted" if weighted else ""),
        "POT cold ms": 1000 * rival_cold,
        "ours cold ms": 1000 * ours_cold,
        "cold ratio": rival_cold / ours_cold,
        "POT warm ms": 1000 * rival_warm,
        "ours warm ms": 1000 * ours_warm,
        "warm ratio": rival_warm / ours_warm,
        "costs agree to": max(abs(value / reference - 1) for value in paid),
    }
    if square:
        row["SciPy cold ms"] = 1000 * best(lambda: linear_sum_assignment(costs[1]), 1)[0]
    return row


def transports() -> list[dict[str, Any]]:
    """The table of single transports."""
    with threadpool_limits(1):
        rows = [
            transport(10_000, 10, 2),
            transport(10_000, 100, 2),
            transport(10_000, 1000, 50, repeats=3),
            transport(5_000, 1000, 2352, repeats=3),
            transport(2_000, 2000, 784, repeats=3),
            transport(10_000, 100, 2, weighted=True),
        ]
    for row in rows:
        row.setdefault("SciPy cold ms", float("nan"))
    return rows


def one_client_at_a_time(x: np.ndarray, y: np.ndarray) -> LocalFederation:
    """A local federation that uses one thread."""

    class Sequential(LocalFederation):
        def ask(self, requests: Any) -> Any:
            return {name: self._clients[name].answer(request) for name, request in requests.items()}

    return Sequential(
        {name: Client(Dataset(Measure(data)), Policy.open()) for name, data in (("x", x), ("y", y))}
    )


def whole() -> list[dict[str, Any]]:
    """Whole calls of `distance(method="fedwad")`, with estimate, interval, calibration and
    explanation, against the plain loop, which has none of them."""
    rows = []
    for n, size, rounds, d in ((8_000, 10, 20, 3), (6_000, 80, 10, 30)):
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((n, d)), rng.standard_normal((n, d)) + 1
        start = rng.standard_normal((size, d)) + 0.5
        with threadpool_limits(1):
            _whole(one_client_at_a_time(x, y), size, 1)  # compiles what is compiled at first use
            rival, _ = best(
                lambda x=x, y=y, start=start, rounds=rounds: plain.fedwad(x, y, start, rounds), 2
            )
            ours, _ = best(
                lambda fed, size=size, rounds=rounds: _whole(fed, size, rounds),
                4,
                lambda x=x, y=y: one_client_at_a_time(x, y),
            )
        rows.append(
            {
                "problem": f"distance, two clients of {n}, S={size}, d={d}, K={rounds}",
                "plain s": rival,
                "ours s": ours,
                "ratio": rival / ours,
            }
        )
    return rows


def _whole(fed: LocalFederation, size: int, rounds: int) -> None:
    fedwad.distance(fed["x"], fed["y"], method="fedwad", support=size, rounds=rounds).explain()
