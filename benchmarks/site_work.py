"""What a comparison costs a site, message by message and part by part, beside k-means alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from fedwad.federation import Client, ColumnsRequest, Dataset, Ledger, Policy, SummaryRequest
from fedwad.site.context import ClientContext
from fedwad.statistics.cells import kmeans_cells
from fedwad.transport import Measure

SIZES = ((400, 30), (1500, 30), (10_000, 50), (100_000, 20))
PARTS: dict[str, Callable[[ClientContext], Any]] = {
    "our k-means ms": lambda one: kmeans_cells(one.data.measure, 10),
    "cells ms": lambda one: one.summarise(10, "auto", 2.0, 0),
    "calibration ms": lambda one: one.calibration(10, "auto"),
    "blocks ms": lambda one: one.block_means(*_units(one.data.measure.points)),
    "order ms": lambda one: one.order_statistics(),
    "covariance ms": lambda one: one.covariance_noise(),
}


def measure() -> Iterator[dict[str, Any]]:
    """A site's answers about columns and summary beside k-means alone, and parts of the latter.

    The summary has cells, calibration, blocks, order statistics and noise of covariances. k-means
    is scikit-learn's with ten cells and one start. Milliseconds of a processor, on one thread.
    """
    for n, d in SIZES:
        with threadpool_limits(1):
            yield {"rows x features": f"{n} x {d}", **_times(n, d)}


def _times(n: int, d: int) -> dict[str, float]:
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, d)) + 3.0 * rng.integers(0, 3, (n, 1))
    centre, scale = _units(points)
    request = SummaryRequest(10, "auto", 2.0, 0, centre=centre, scale=scale)
    found = {
        "k-means ms": _least(lambda: points, lambda x: KMeans(10, n_init=1, random_state=0).fit(x)),
        "columns ms": _least(lambda: _site(points), lambda one: one.answer(ColumnsRequest())),
        "summary ms": _least(lambda: _asked(points), lambda one: one.answer(request)),
    }
    found["ratio"] = (found["columns ms"] + found["summary ms"]) / found["k-means ms"]
    return found | {name: _least(lambda: _context(points), part) for name, part in PARTS.items()}


def _least(fresh: Callable[[], Any], work: Callable[[Any], Any], repeats: int = 4) -> float:
    """The least processor milliseconds of some runs, each with what `fresh` makes."""
    times = []
    for _ in range(repeats):
        given = fresh()
        start = time.process_time()
        work(given)
        times.append(time.process_time() - start)
    return 1000 * min(times)


def _units(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return points.mean(axis=0), points.std(axis=0)


def _site(points: np.ndarray) -> Client:
    return Client(Dataset(Measure(points)), Policy.open())


def _asked(points: np.ndarray) -> Client:
    site = _site(points)
    site.answer(ColumnsRequest())
    return site


def _context(points: np.ndarray) -> ClientContext:
    """What a site that was asked about its columns holds."""
    ledger = Ledger()
    found = ClientContext(Dataset(Measure(points)), Policy.open(), ledger)
    with ledger.lock():
        found.count_units(repr(tuple(one.tolist() for one in _units(found.data.measure.points))))
    assert found.profile
    return found
