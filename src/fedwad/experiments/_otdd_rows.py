"""The four image datasets of the dataset distances, and the measured distances of each pair.

A row is one measurement: a method, a pair of datasets, a seed and the distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from fedwad.experiments._experiment import Row, pick
from fedwad.ot import Floats

__all__ = ["COMPARED", "DRAWS", "NAMES", "PAIRS", "compared_settings", "exact_beside", "over_pairs"]

NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
PAIRS = [f"{a} {b}" for a, b in combinations(NAMES, 2)]
#: The two pairs for which the paper shows which is closer, for several numbers of samples. The
#: other ablations use the first pair only.
COMPARED = ("mnist kmnist", "mnist usps")
#: How often samples are drawn from the datasets; each draw has its own seed.
DRAWS = 5


def compared_settings(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """Title and fields of each method that is compared on the four datasets.

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


def over_pairs(rows: Sequence[Row], wanted: dict[str, Any], what: str = "value") -> Floats:
    """The mean over draws of the field `what`, for each pair; `wanted` are fields of the rows."""
    chosen = [pick(rows, part="datasets", pair=pair, **wanted) for pair in PAIRS]
    return np.array([np.mean([row[what] for row in of_pair]) for of_pair in chosen])


def exact_beside(rows: Sequence[Row], wanted: dict[str, Any]) -> Floats:
    """The exact distance of each pair, averaged over the draws that the `wanted` rows have."""
    draws = {row["seed"] for row in pick(rows, part="datasets", **wanted)}
    return over_pairs([row for row in rows if row["seed"] in draws], {"method": "exact"})
