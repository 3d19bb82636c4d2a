"""Everything that a client needs to answer a request."""

from __future__ import annotations

import numpy as np

from fedwad.federation.accountant import BudgetAccountant
from fedwad.federation.cache import ReplyCache, RunCache
from fedwad.federation.data import Dataset
from fedwad.federation.ledger import FileLedger, Ledger
from fedwad.federation.needs import Classes
from fedwad.federation.policy import Policy
from fedwad.ot import LabelledMeasure, Measure, min_cell_size

__all__ = ["ClientContext"]

_FEWEST_IN_A_CELL = 10


class ClientContext:
    """A client's data in canonical order, its policy, its ledger and what it keeps between
    requests. It never leaves the client.

    Attributes
    ----------
    data, digest : the data in canonical order, and their SHA-256
    policy, policy_digest : the policy, and the SHA-256 of what in it can change a reply
    ledger : the record of all requests
    accountant : the privacy budget
    cache : state of runs between rounds
    replies : the last replies, to be sent again when a request is repeated
    """

    def __init__(self, data: Dataset, policy: Policy, ledger: Ledger) -> None:
        self.data = data.canonical()
        self.digest = self.data.digest()
        self.policy = policy
        self.policy_digest = policy.digest()
        self.ledger = ledger
        self.accountant = BudgetAccountant(ledger, policy, self.digest)
        layers = ledger.path.with_suffix(".layers") if isinstance(ledger, FileLedger) else None
        self.cache = RunCache(layers)
        self.replies = ReplyCache()
        self._views: dict[Classes, Measure] = {}

    @property
    def floor(self) -> int:
        """Fewest samples in a cell that this client forms itself."""
        return max(_FEWEST_IN_A_CELL, self.policy.min_cell_size)

    def view(self, classes: Classes) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        if classes not in self._views:
            self._views[classes] = self.data.view(classes)
        return self._views[classes]

    def smallest_class(self, classes: Classes) -> int:
        """Number of samples in the smallest class of this view.

        Without class statistics all samples are one class.
        """
        measure = self.view(classes)
        codes = (
            measure.codes
            if isinstance(measure, LabelledMeasure)
            else np.zeros(len(measure), dtype=np.int64)
        )
        return min_cell_size(codes, measure.weights)
