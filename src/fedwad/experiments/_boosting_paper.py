"""The paper's numbers of boosting: accuracy in percent, mean and deviation over five trials (its
appendix)."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAPERS", "Printed"]


class Printed(NamedTuple):
    """A printed number and its deviation."""

    mean: float
    deviation: float


def _read() -> dict[tuple[str, str, str, int, str], Printed]:
    found = {}
    with Path(__file__).with_name("boosting_paper.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            data, structure, algorithm, clients = (row.pop(key) for key in list(row)[:4])
            for way, cell in row.items():
                printed = Printed(*map(float, cell.split()))
                found[data, structure, algorithm, int(clients), way] = printed
    return found


#: By dataset, structure, algorithm, number of clients, and how clients are clustered.
PAPERS = _read()
