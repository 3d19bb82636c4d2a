"""The computations of `fedwad demo`: four hospitals compare their patients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from fedwad.errors import DataWarning
from fedwad.federation import Entry, LocalFederation
from fedwad.ot import Floats
from fedwad.tables import Schema

__all__ = ["PAPER_ROUNDS", "PAPER_SUPPORT", "DemoResult", "run_demo"]

_LABEL_COLUMN = "num"  # the diagnosis, which is not compared
#: Support and rounds of the paper's method, for comparison.
PAPER_SUPPORT, PAPER_ROUNDS = 100, 20


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo found.

    Attributes
    ----------
    matrix : the distances from one summary and one message of blocks from each hospital
    clusters : a label for each hospital
    schema : how the columns were encoded
    ledgers : the entries of each hospital's ledger about replies that left it
    paper : the distances from the paper's method on the same tables
    exact : the exact distances, from pooled rows that nobody would have
    raw_bytes : size of all tables
    """

    matrix: fedwad.MatrixResult
    clusters: Any
    schema: Schema
    ledgers: dict[str, tuple[Entry, ...]]
    paper: fedwad.MatrixResult
    exact: Floats
    raw_bytes: int

    @property
    def sent(self) -> int:
        """Bytes that left the hospitals."""
        return sum(entry.bytes for entries in self.ledgers.values() for entry in entries)

    @property
    def messages(self) -> int:
        """Messages that left the hospitals; each takes the schema with its next request."""
        return self.matrix.traffic.messages

    def error_of(self, values: Floats) -> float:
        """The mean relative error of distances over all pairs."""
        pairs = np.triu_indices(len(self.exact), 1)
        return float(np.mean(values[pairs] / self.exact[pairs] - 1))


def run_demo(seed: int, on_progress: Callable[[str], None]) -> DemoResult:
    """Compare the hospitals of UCI Heart Disease; `on_progress` is called before each step."""
    files = fedwad.datasets.load("heart")
    on_progress("The hospitals agree on what their columns mean")
    fed = _open(files)
    on_progress("One summary from each hospital")
    matrix = fedwad.matrix(fed, test=True, seed=seed)
    ledgers = {
        name: tuple(entry for entry in ledger.entries if entry.outcome == "answered")
        for name, ledger in fed.ledgers.items()
    }
    on_progress("The paper's method, for comparison")
    method = fedwad.methods.Pairs(support=PAPER_SUPPORT, rounds=PAPER_ROUNDS)
    paper = fedwad.matrix(_open(files), method=method, seed=seed)
    on_progress("The exact distances, for comparison")
    assert fed.schema is not None  # noqa: S101
    return DemoResult(
        matrix=matrix,
        clusters=matrix.cluster(matrix.suggest().k, seed=seed),
        schema=fed.schema,
        ledgers=ledgers,
        paper=paper,
        exact=_exact_distances([fed.schema.encode(path) for path in files.values()]),
        raw_bytes=sum(path.stat().st_size for path in files.values()),
    )


def _open(files: dict[str, Path]) -> LocalFederation:
    with warnings.catch_warnings():  # the page and the screen show the conflicts
        warnings.simplefilter("ignore", DataWarning)
        return fedwad.local(files, label_column=_LABEL_COLUMN)


def _exact_distances(tables: list[Floats]) -> Floats:
    size = len(tables)
    distances = np.zeros((size, size))
    for i in range(size):
        for j in range(i):
            distances[i, j] = distances[j, i] = fedwad.wasserstein(tables[i], tables[j])
    return distances
