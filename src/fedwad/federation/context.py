"""Everything that a client needs to answer a request."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from fedwad._files import write_atomically
from fedwad.errors import InputError, PolicyError
from fedwad.federation._ledger_file import FileLedger
from fedwad.federation.accountant import BudgetAccountant
from fedwad.federation.cache import RunCache
from fedwad.federation.data import Dataset
from fedwad.federation.ledger import Ledger
from fedwad.federation.needs import ClassStatistics
from fedwad.federation.policy import Policy
from fedwad.federation.raw import RawTable
from fedwad.ot import (
    Calibration,
    CovarianceType,
    Floats,
    LabelledMeasure,
    Measure,
    calibrate,
    min_cell_size,
)
from fedwad.privacy import MOST_FEATURES
from fedwad.tables import Schema

__all__ = ["MAX_CALIBRATED", "ClientContext"]

_MIN_CELL_SIZE = 10
#: Numbers beyond are not calibrated.
MAX_CALIBRATED = 1e60


class ClientContext:
    """A client's data, its policy, its ledger and what it keeps between requests.

    The data are in an order that depends on the rows alone. Nothing of this leaves the client.

    Attributes
    ----------
    data, encoded_digest : the data in that order, and their SHA-256; a table that waits for a
        schema has none yet
    table : the table that an agreed schema encodes, if the site holds one
    digest : SHA-256 of the table, or of the data; the ledger names the data by it, whatever the
        schema
    policy, policy_digest : the policy, and the SHA-256 of the settings that affect replies
    ledger : the record of all requests
    accountant : the privacy budget
    cache : state of runs between rounds
    """

    def __init__(self, data: Dataset | RawTable, policy: Policy, ledger: Ledger) -> None:
        self.policy = policy
        self.policy_digest = policy.digest()
        self.ledger = ledger
        path = ledger.path if isinstance(ledger, FileLedger) else None
        self.cache = RunCache(None if path is None else path.with_suffix(".layers"))
        self.table = data if isinstance(data, RawTable) else None
        #: Where the agreed schema is kept for the next process of this node.
        self.schema_file = None if path is None else path.with_suffix(".schema.toml")
        self._hold(self._checked(data) if isinstance(data, Dataset) else self._recall())
        self.digest = self.encoded_digest if self.table is None else self.table.digest()
        self.accountant = BudgetAccountant(self.ledger, self.policy, self.digest)

    def _checked(self, data: Dataset) -> Dataset:
        """Under an epsilon, everything that could make a release fail is found out now.

        The error is for whoever opens the client. Later, refusals depend on public facts only.
        """
        if not self.policy.is_private:
            return data
        if not data.measure.is_uniform:
            raise InputError(
                "The samples have unequal weights; private releases need samples of equal weights."
            )
        if data.measure.dimension > MOST_FEATURES:
            raise InputError(
                f"The data have {data.measure.dimension} features; private releases take up to"
                f" {MOST_FEATURES}: reduce them first by a public map, such as a random projection."
            )
        return data.classed(tuple(self.policy.label_names))

    def _hold(self, data: Dataset | None) -> None:
        self._data = None if data is None else data.canonical()
        self.encoded_digest = "" if self._data is None else self._data.digest()
        # Splits depend on the rows alone: labels that nobody asks for change no number.
        self._rows_digest = self.encoded_digest
        if self._data is not None and self._data.labels is not None:
            self._rows_digest = replace(self._data, labels=None).digest()
        self._views: dict[ClassStatistics, Measure] = {}
        self._calibrations: dict[tuple[int, CovarianceType, ClassStatistics], Calibration] = {}

    def _recall(self) -> Dataset | None:
        """The table as the schema that was agreed on before encodes it."""
        if self.schema_file is None or not self.schema_file.exists():
            return None
        try:
            schema = replace(Schema.load(self.schema_file), public=False)  # sites agreed on it
            return self.require_table().encoded(schema, self.policy.min_level_size)
        except InputError as error:
            raise InputError(
                f"The schema that was agreed on does not fit the table: {error} Remove"
                f" {self.schema_file} to agree on another one."
            ) from None

    def require_table(self) -> RawTable:
        """The table; PolicyError if the data have an encoding of their own."""
        if self.table is None:
            raise PolicyError(
                "This site's data are encoded already, by its own schema or as numbers; it takes"
                " part in no agreement on a schema."
            )
        return self.table

    @property
    def data(self) -> Dataset:
        """The data in canonical order; PolicyError if they are a table without a schema yet."""
        if self._data is None:
            raise PolicyError("This site holds a table and no schema yet; agree on one first.")
        return self._data

    def check_ready(self, encoded: bool) -> None:
        """PolicyError if a request needs `encoded` data and they are a table without a schema."""
        if encoded and self._data is None:
            raise PolicyError("This site holds a table and no schema yet; agree on one first.")

    @property
    def has_data(self) -> bool:
        """Whether the data are encoded."""
        return self._data is not None

    def adopt(self, schema: Schema) -> Dataset:
        """Encode the table by an agreed schema, and keep that beside the ledger."""
        table = self.require_table()
        if self._data is None or self._data.schema != schema:
            try:
                data = table.encoded(schema, self.policy.min_level_size)
            except InputError as error:  # its text can name rows, so it stays here
                logging.getLogger("fedwad.client").warning("%s", error)
                raise InputError(
                    "The schema does not fit this site's table; see the site's log."
                ) from None
            if self.schema_file is not None:
                write_atomically(self.schema_file, schema.to_toml())
            self._hold(data)
        return self.data

    @property
    def min_own_cell_size(self) -> int:
        """Fewest samples in a cell that this client forms itself."""
        return max(_MIN_CELL_SIZE, self.policy.min_cell_size)

    def view(self, class_statistics: ClassStatistics) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        if class_statistics not in self._views:
            self._views[class_statistics] = self.data.view(class_statistics)
        return self._views[class_statistics]

    def calibration(
        self,
        cells: int,
        covariance_type: CovarianceType,
        support: Floats | None = None,
        class_statistics: ClassStatistics = "ignored",
    ) -> Calibration | None:
        """The calibration of the rows; None if the policy withholds it or there are few rows.

        A half has at least as many rows as a cell must have. With `support`, cells are those of
        transport to it. With `class_statistics`, distances are those between labelled samples.
        """
        count, key = len(self.data.measure), (cells, covariance_type, class_statistics)
        fewest = self.min_own_cell_size
        if not self.policy.calibration or count < 2 * fewest or not self._in_range():
            return None
        measure = self.data.measure
        if support is not None:
            return calibrate(
                measure,
                min(cells, 10),
                covariance_type,
                fewest,
                support=support,
                digest=self._rows_digest,
            )
        if key not in self._calibrations:
            smallest = max(1, min(fewest, count // (2 * cells)))  # a half has half the rows
            self._calibrations[key] = calibrate(
                measure,
                cells,
                covariance_type,
                smallest,
                digest=self._rows_digest,
                codes=None if class_statistics == "ignored" else self.data.require_class_codes(),
                class_covariance="diag" if class_statistics == "ignored" else class_statistics,
            )
        return self._calibrations[key]

    def _in_range(self) -> bool:
        """Whether fourth powers of the numbers, which variances of squares need, can be stored."""
        measure = self.data.measure
        return measure.max_abs(np.zeros(measure.dimension)) < MAX_CALIBRATED

    def smallest_class(self, class_statistics: ClassStatistics) -> int:
        """Effective number of samples (Kish) in the smallest class of this view.

        Without class statistics all samples are one class.
        """
        measure = self.view(class_statistics)
        codes = (
            measure.codes
            if isinstance(measure, LabelledMeasure)
            else np.zeros(len(measure), dtype=np.int64)
        )
        return min_cell_size(codes, measure.weights)
