"""The accuracies that the paper's appendix prints for the experiment `boosting`: mean and standard
deviation over five trials, in percent."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAPER_ACCURACY", "PaperAccuracy"]


class PaperAccuracy(NamedTuple):
    """A printed mean and its standard deviation."""

    mean: float
    deviation: float


def _read() -> dict[tuple[str, str, str, int, str], PaperAccuracy]:
    accuracies = {}
    with Path(__file__).with_name("boosting_paper.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            data, structure, algorithm, clients = (row.pop(key) for key in list(row)[:4])
            for way, text in row.items():
                accuracy = PaperAccuracy(*map(float, text.split()))
                accuracies[data, structure, algorithm, int(clients), way] = accuracy
    return accuracies


#: By dataset, structure, algorithm, number of clients, and way to cluster the clients.
PAPER_ACCURACY = _read()
