"""The four image datasets of the experiment `otdd`, and the measured distances of each pair.

The column "part" of a row has the figure it belongs to: "datasets", "rounds", "support" or
"samples".
"""

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
    "exact_for_same_draws",
    "mean_by_pair",
]

NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
PAIRS = [f"{a} {b}" for a, b in combinations(NAMES, 2)]
#: The two pairs whose distances the paper compares for several numbers of samples. The other
#: ablations use the first pair only.
COMPARED = ("mnist kmnist", "mnist usps")
#: How often samples are drawn from the datasets; each draw has its own seed.
DRAWS = 5


def compared_settings(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """Title of each method that is compared on the four datasets, and values that pick its rows.

    The first is the exact distance and the second our summary. The paper's method follows, with its
    settings in the order of the paper's figure.
    """
    settings = dict.fromkeys(
        (row["support"], row["rounds"]) for row in pick(rows, part="datasets", method="fedwad")
    )
    return [
        ("exact", {"method": "exact"}),
        ("ours, one message", {"method": "summary"}),
        *(
            (f"FedWaD, S = {s}, {k} rounds", {"method": "fedwad", "support": s, "rounds": k})
            for s, k in settings
        ),
    ]


def mean_by_pair(rows: Sequence[Row], setting: dict[str, Any], column: str = "value") -> Floats:
    """The mean over draws of a column, for each pair; only rows with the values of `setting`."""
    chosen = [pick(rows, part="datasets", pair=pair, **setting) for pair in PAIRS]
    return np.array([np.mean([row[column] for row in of_pair]) for of_pair in chosen])


def exact_for_same_draws(rows: Sequence[Row], setting: dict[str, Any]) -> Floats:
    """The mean exact distance of each pair, over the draws for which the setting was measured."""
    seeds = {row["seed"] for row in pick(rows, part="datasets", **setting)}
    return mean_by_pair([row for row in rows if row["seed"] in seeds], {"method": "exact"})
