"""What a client lays out to work on a question: its data, its rules, and what it remembers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedwad.federation.data import Dataset
from fedwad.federation.ledger import Ledger
from fedwad.federation.message import Classes
from fedwad.federation.policy import Policy
from fedwad.federation.purse import Purse
from fedwad.federation.session import Session
from fedwad.ot import LabelledMeasure, Measure, smallest_cell

__all__ = ["Desk"]

_FEWEST_IN_A_CELL = 10


class Desk:
    """A client's data in canonical order, its policy, and its memory between rounds. It never leaves the client."""

    def __init__(self, data: Dataset, policy: Policy, purse: Purse | None = None, folder: Path | None = None) -> None:
        self.data = data.canonical()
        self.policy = policy
        self.purse = Purse(Ledger(), policy, "") if purse is None else purse
        self.session = Session(folder)
        self._views: dict[Classes, Measure] = {}

    @property
    def floor(self) -> int:
        """Fewest samples of a cell that a client makes by itself."""
        return max(_FEWEST_IN_A_CELL, self.policy.smallest_cell)

    def view(self, classes: Classes) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        if classes not in self._views:
            self._views[classes] = self.data.view(classes)
        return self._views[classes]

    def smallest_class(self, classes: Classes) -> int:
        """Samples in the smallest class whose statistics are part of that view; all of them if none are."""
        measure = self.view(classes)
        codes = measure.codes if isinstance(measure, LabelledMeasure) else np.zeros(len(measure), dtype=np.int64)
        return smallest_cell(codes, measure.weights)
