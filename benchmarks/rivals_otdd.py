"""microsoft/otdd from its own code, beside its formula as `benchmarks.rivals_datasets` has it.

The package is not on PyPI. A clone of https://github.com/microsoft/otdd (commit 72f1b22) has to be
on PYTHONPATH, with `pip install --no-deps geomloss==0.2.6 munkres seaborn adjustText`; without it
there is no table. PyTorch has removed `symeig`, which its code calls: `eigh` stands in for it here.
It runs in double precision; in single its square roots of covariances failed on these images.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.rivals import Given
from benchmarks.rivals_datasets import METHODS, Labelled, Table, data_sets

Row = dict[str, Any]

FORMULA, EXACT = "microsoft/otdd", "fedwad, rows in one place"


def distance(first: Labelled, second: Labelled) -> float:
    """`DatasetDistance` with its defaults."""
    import torch
    from otdd.pytorch.distance import DatasetDistance
    from torch.utils.data import TensorDataset

    def with_targets(data: Labelled) -> Any:
        found: Any = TensorDataset(*(torch.as_tensor(part) for part in data))
        found.targets = found.tensors[1]
        found.classes = [str(code) for code in range(int(data[1].max()) + 1)]
        return found

    def symeig(matrix: Any, eigenvectors: bool = False, upper: bool = True) -> Any:  # noqa: ARG001
        return torch.linalg.eigh(matrix, UPLO="U" if upper else "L")

    old: Any = torch
    old.symeig = old.Tensor.symeig = symeig
    sides = with_targets(first), with_targets(second)
    found = DatasetDistance(*sides, device="cpu", precision="double", verbose=0)
    return float(found.distance(maxsamples=max(len(first[1]), len(second[1]))))


def measure(given: Given) -> list[Row]:
    """Its 66 distances of one draw: how far its formula is from them, and ranks."""
    if find_spec("otdd") is None:
        print("microsoft/otdd is not here: see benchmarks/rivals_otdd.py", file=sys.stderr)
        return []
    os.environ["TQDM_DISABLE"] = "1"
    logging.disable(logging.WARNING)
    known = {name: data for name, (data, _) in data_sets().items()}
    pairs = list(combinations(known, 2))[: given.runs or None]
    begin = time.process_time()
    own: Table = {(a, b): distance(known[a], known[b]) for a, b in pairs}
    seconds = time.process_time() - begin
    tables = {name: METHODS[name](known) for name in (FORMULA, EXACT, "fedwad, one summary")}
    values = np.array(list(own.values()))
    formula = np.array([tables[FORMULA][pair] for pair in pairs])
    row: Row = {"pairs": len(pairs), "s": seconds}
    row["formula, largest difference %"] = float(100 * np.abs(formula / values - 1).max())
    for name, table in tables.items():
        row[f"rank with {name}"] = float(spearmanr(values, [table[pair] for pair in pairs])[0])
    return [row]
