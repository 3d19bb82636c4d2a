"""Everything that a client needs to answer a request."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from fedwad._files import write_atomically
from fedwad.errors import FederationError, InputError, PolicyError
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

__all__ = ["MAX_CALIBRATED", "ClientContext", "check_releasable"]

_MIN_CELL_SIZE = 10
_NO_SCHEMA = "This site holds a table and no schema yet; agree on one first."
#: A site whose data have larger absolute values sends no calibration.
MAX_CALIBRATED = 1e60


class ClientContext:
    """A client's data, its policy, its ledger and what it stores between requests.

    Nothing of this leaves the client.

    Attributes
    ----------
    data, encoded_digest : the encoded data in canonical order (`Dataset.canonical`), and their
        SHA-256; there are none while a table waits for a schema
    table : the table that an agreed schema encodes, if the site holds one
    digest : SHA-256 of the table if there is one, otherwise of the data. The ledger names the data
        by it, so that another schema makes no other version of the data
    policy, policy_digest : the policy, and the SHA-256 of the rules that can change a reply
    ledger : the record of all requests
    accountant : the privacy budget
    cache : state of runs between rounds
    schema_path : where the agreed schema is stored for the next process of this node; None for a
        ledger in memory
    """

    def __init__(self, data: Dataset | RawTable, policy: Policy, ledger: Ledger) -> None:
        self.policy = policy
        self.policy_digest = policy.digest()
        self.ledger = ledger
        path = ledger.path if isinstance(ledger, FileLedger) else None
        self.cache = RunCache(None if path is None else path.with_suffix(".layers"))
        self.table = data if isinstance(data, RawTable) else None
        self.schema_path = None if path is None else path.with_suffix(".schema.toml")
        self._set_data(self._restrict(data) if isinstance(data, Dataset) else self._load_encoded())
        self.digest = self.encoded_digest if self.table is None else self.table.digest()
        self.accountant = BudgetAccountant(self.ledger, self.policy, self.digest)

    def _restrict(self, data: Dataset) -> Dataset:
        """The data; under an epsilon, with no classes but those of the policy's `label_names`.

        Under an epsilon, all properties of the data that could make a release fail are checked
        here, so that the error reaches only the site itself. Later refusals depend on public facts.
        """
        if not self.policy.is_private:
            return data
        check_releasable(data.measure)
        return data.with_public_classes(tuple(self.policy.label_names))

    def _set_data(self, data: Dataset | None) -> None:
        self._data = None if data is None else data.canonical()
        self.encoded_digest = "" if self._data is None else self._data.digest()
        # Random splits are seeded by the rows alone: labels that nobody asks for change no number.
        self._rows_digest = self.encoded_digest
        if self._data is not None and self._data.labels is not None:
            self._rows_digest = replace(self._data, labels=None).digest()
        self._views: dict[ClassStatistics, Measure] = {}
        self._calibrations: dict[tuple[int, CovarianceType, ClassStatistics], Calibration] = {}

    def _load_encoded(self) -> Dataset | None:
        """The table, encoded by the stored schema that sites agreed on before; None if there is
        none."""
        if self.schema_path is None or not self.schema_path.exists():
            return None
        try:
            schema = replace(Schema.load(self.schema_path), public=False)  # sites agreed on it
            return self.require_table().encode(schema, self.policy.min_level_size)
        except InputError as error:
            raise InputError(
                f"The schema that was agreed on does not fit the table: {error} Remove"
                f" {self.schema_path} to agree on another one."
            ) from None

    def require_table(self) -> RawTable:
        """The table; PolicyError if the site holds data that no agreed schema encodes."""
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
            raise PolicyError(_NO_SCHEMA)
        return self._data

    def check_encoded(self) -> None:
        """Raise PolicyError if the data are a table without a schema yet."""
        if not self.is_encoded:
            raise PolicyError(_NO_SCHEMA)

    @property
    def is_encoded(self) -> bool:
        """Whether the data are encoded; False for a table that waits for a schema."""
        return self._data is not None

    def adopt(self, schema: Schema) -> Dataset:
        """Encode the table by an agreed schema, and store the schema beside the ledger."""
        table = self.require_table()
        if self._data is None or self._data.schema != schema:
            try:
                data = table.encode(schema, self.policy.min_level_size)
            except InputError as error:  # its text can name rows, so it stays here
                logging.getLogger("fedwad.client").warning("%s", error)
                raise InputError(
                    "The schema does not fit this site's table; see the site's log."
                ) from None
            self._store_schema(schema)
            self._set_data(data)
        return self.data

    def _store_schema(self, schema: Schema) -> None:
        if self.schema_path is None:
            return
        try:
            write_atomically(self.schema_path, schema.to_toml())
        except InputError as error:  # its text has a path of this site
            logging.getLogger("fedwad.client").warning("%s", error)
            raise FederationError(
                "This site cannot write the agreed schema to disk; its operator has to make room."
            ) from None

    @property
    def min_own_cell_size(self) -> int:
        """Smallest number of samples in a cell or block that this client forms by itself."""
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
        """What this client measures on random halves of its rows.

        None if the policy withholds it, if a half has fewer rows than a cell must have, or if a
        number is too large. With `support`, the cells are those of transport to the support,
        otherwise k-means cells. Unless `class_statistics` is "ignored", distances are those between
        labelled samples.
        """
        measure, key = self.data.measure, (cells, covariance_type, class_statistics)
        min_size = self.min_own_cell_size
        if not self.policy.calibration or len(measure) < 2 * min_size or not self._in_range():
            return None
        if support is not None:
            return calibrate(
                measure,
                min(cells, 10),
                covariance_type,
                min_size,
                support=support,
                digest=self._rows_digest,
            )
        if key not in self._calibrations:
            half = len(measure) // 2
            self._calibrations[key] = calibrate(
                measure,
                cells,
                covariance_type,
                max(1, min(min_size, half // cells)),
                digest=self._rows_digest,
                codes=None if class_statistics == "ignored" else self.data.require_class_codes(),
                class_covariance="diag" if class_statistics == "ignored" else class_statistics,
            )
        return self._calibrations[key]

    def _in_range(self) -> bool:
        """Whether fourth powers of the data, which variances of squares need, are finite."""
        return self.data.measure.max_abs < MAX_CALIBRATED

    def min_class_size(self, class_statistics: ClassStatistics) -> int:
        """Kish's effective number of samples in the smallest class.

        Where class statistics are "ignored", all samples are one class.
        """
        measure = self.view(class_statistics)
        codes = (
            measure.codes
            if isinstance(measure, LabelledMeasure)
            else np.zeros(len(measure), dtype=np.int64)
        )
        return min_cell_size(codes, measure.weights)


def check_releasable(measure: Measure) -> None:
    """Raise InputError unless private releases of these samples are possible."""
    if not measure.is_uniform:
        raise InputError(
            "The samples have unequal weights; private releases need samples of equal weights."
        )
    if measure.dimension > MOST_FEATURES:
        raise InputError(
            f"The data have {measure.dimension} features; private releases take up to"
            f" {MOST_FEATURES}: reduce them first by a public map, such as a random projection."
        )
