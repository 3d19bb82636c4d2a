"""The four datasets, and what the rows measured on them say about each pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from fedwad.experiments._experiment import Row, pick
from fedwad.ot import Floats

__all__ = [
    "COMPARED",
    "DRAWS",
    "NAMES",
    "PAIRS",
    "compared_settings",
    "exact_beside",
    "over_pairs",
    "square_matrix",
]

NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
PAIRS = [f"{a} {b}" for a, b in combinations(NAMES, 2)]
#: The two whose order the paper follows over the number of samples; the other ablations are about
#: the first.
COMPARED = ("mnist kmnist", "mnist usps")
DRAWS = 5


def compared_settings(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """What is compared over the four datasets: exact, ours, and the paper's settings in the order
    of its figure."""
    settings = dict.fromkeys(
        (row["support"], row["rounds"]) for row in pick(rows, part="datasets", method="fedwad")
    )
    ways: list[tuple[str, dict[str, Any]]] = [("exact", {"method": "exact"})]
    ways.append(("ours, one message", {"method": "summary"}))
    ways += [
        (f"FedWaD, S = {s}, {k} rounds", {"method": "fedwad", "support": s, "rounds": k})
        for s, k in settings
    ]
    return ways


def over_pairs(rows: Sequence[Row], wanted: dict[str, Any], what: str = "value") -> Floats:
    """The mean over draws for each pair."""
    chosen = [pick(rows, part="datasets", pair=pair, **wanted) for pair in PAIRS]
    return np.array([np.mean([row[what] for row in own]) for own in chosen])


def exact_beside(rows: Sequence[Row], wanted: dict[str, Any]) -> Floats:
    """The exact distances of the same draws."""
    draws = {row["seed"] for row in pick(rows, part="datasets", **wanted)}
    return over_pairs([row for row in rows if row["seed"] in draws], {"method": "exact"})


def square_matrix(values: Floats) -> Floats:
    """The symmetric matrix of six pairs; its diagonal is zero, of no interest, and not shown."""
    square = np.full((4, 4), np.nan)
    above = np.triu_indices(4, 1)
    square[above] = square.T[above] = values
    return square
