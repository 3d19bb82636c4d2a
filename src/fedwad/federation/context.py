"""What a client lays out to work on a question: its data, its rules, and what it remembers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedwad.federation.accountant import BudgetAccountant
from fedwad.federation.cache import RunCache
from fedwad.federation.data import Dataset
from fedwad.federation.ledger import Ledger
from fedwad.federation.message import Classes
from fedwad.federation.policy import Policy
from fedwad.ot import LabelledMeasure, Measure, min_cell_size

__all__ = ["ClientContext"]

_FEWEST_IN_A_CELL = 10


class ClientContext:
    """A client's data in canonical order, its policy, and its memory between rounds. It never
    leaves the client."""

    def __init__(
        self,
        data: Dataset,
        policy: Policy,
        accountant: BudgetAccountant | None = None,
        folder: Path | None = None,
    ) -> None:
        self.data = data.canonical()
        self.policy = policy
        self.accountant = (
            BudgetAccountant(Ledger(), policy, "") if accountant is None else accountant
        )
        self.cache = RunCache(folder)
        self._views: dict[Classes, Measure] = {}

    @property
    def floor(self) -> int:
        """Fewest samples of a cell that a client makes by itself."""
        return max(_FEWEST_IN_A_CELL, self.policy.min_cell_size)

    def view(self, classes: Classes) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        if classes not in self._views:
            self._views[classes] = self.data.view(classes)
        return self._views[classes]

    def smallest_class(self, classes: Classes) -> int:
        """Samples in the smallest class whose statistics are part of that view; all of them if none
        are."""
        measure = self.view(classes)
        codes = (
            measure.codes
            if isinstance(measure, LabelledMeasure)
            else np.zeros(len(measure), dtype=np.int64)
        )
        return min_cell_size(codes, measure.weights)
