"""Everything that a client needs to answer a request."""

from __future__ import annotations

import copy
import hashlib
import math
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError, PolicyError
from fedwad.messages.message import ClassStatistics
from fedwad.messages.samples import MAX_CALIBRATED
from fedwad.privacy import MOST_FEATURES, compose, epsilon_of, mu_of
from fedwad.site.acceptance import accept_schema, are_units, refusal, same_encoding
from fedwad.site.data import Dataset
from fedwad.site.policy import Policy
from fedwad.site.raw import RawTable, profile_of_points
from fedwad.site.store import Ledger
from fedwad.statistics import (
    Calibration,
    CellSums,
    CovarianceType,
    Summary,
    calibrate,
    merge_cells,
    summarise,
)
from fedwad.statistics.blocking import Blocks, block_means
from fedwad.statistics.cells import Counted, nearest
from fedwad.statistics.order import OrderStatistics, order_statistics
from fedwad.statistics.populations import CovarianceNoise, covariance_noise
from fedwad.tables import Profile
from fedwad.tables.profiles import groups_reveal
from fedwad.transport import Floats, LabelledMeasure, Measure
from fedwad.transport.measures import data_order, row_digests


class Encoding:
    """Encoded data in canonical order (`Dataset.canonical`), and what was computed from them."""

    def __init__(self, data: Dataset) -> None:
        self.data = data.canonical()
        # Random splits are seeded by the rows alone: labels that nobody asks for change no number.
        self.rows_digest = replace(self.data, labels=None).digest()
        self.views: dict[ClassStatistics, Measure] = {}
        self.calibrations: dict[tuple[int, CovarianceType, ClassStatistics], Calibration] = {}

    @cached_property
    def keys(self) -> NDArray[np.void]:
        """A digest of each row, from which random orders of the rows follow."""
        own = self.data.row_digests
        return row_digests(self.data.measure) if own is None else own


class ClientContext:
    """A client's data, its policy, its ledger and what it stores between requests.

    Nothing of this leaves the client. What depends on encoded data, such as `data`, is there for
    data that are encoded already, and in the copy that `for_schema` returns.

    Attributes
    ----------
    table : the table that a schema in a request encodes, if the site holds one
    digest : SHA-256 of the table if there is one, otherwise of the data. The ledger names the data
        by it, so that another schema makes no other version of the data
    policy, policy_digest : the policy, and the SHA-256 of the rules that can change a reply
    ledger : the record of all requests
    transports : the arguments of the last `keep_transport` of each run
    """

    def __init__(self, data: Dataset | RawTable, policy: Policy, ledger: Ledger) -> None:
        self.policy = policy
        self.policy_digest = policy.digest()
        self.ledger = ledger
        self.transports: OrderedDict[str, tuple[Floats, Floats]] = OrderedDict()
        self.table = data if isinstance(data, RawTable) else None
        self._encoding: Encoding | None = None
        if isinstance(data, Dataset):
            if policy.is_private:
                # All that could make a release fail is checked here, so that the error reaches only
                # the site itself. Later refusals depend on public facts.
                check_releasable(data.measure)
                data = data.with_public_classes(tuple(policy.label_names))
            self._encoding = Encoding(data)
        #: The last encoding of the table by the text of its schema: a cache, which changes no
        #: answer.
        self._encodings: dict[str, Encoding] = {}
        self.digest = self.data.digest() if self.table is None else self.table.digest()

    def check_policy(self, policy: Policy) -> None:
        """Raise InputError if the data would have to be read anew under another policy."""
        for rule in ("is_private", "min_level_size", "label_names"):
            if getattr(policy, rule) != getattr(self.policy, rule):
                raise InputError(
                    "The new policy changes how the data are read; start the node again.",
                    "restart-needed",
                )

    def set_policy(self, policy: Policy) -> None:
        """Apply another policy, which was checked, from now on."""
        self.policy, self.policy_digest = policy, policy.digest()
        self._encodings.clear()
        self.__dict__.pop("profile", None)  # it depends on the policy's minimum
        if self._encoding is not None:
            self._encoding.calibrations.clear()

    @cached_property
    def profile(self) -> Profile:
        """What the site publishes about its columns."""
        if self.table is not None:
            return self.table.profile(self.policy.min_cell_size)
        return profile_of_points(self.data, self.policy.min_cell_size)

    def for_schema(self, text: str) -> ClientContext:
        """This context with the data that a request with this schema is about.

        A table is encoded by the schema, if the site accepts it (`accept_schema`). Data that are
        encoded already need none. PolicyError "schema-refused" for any other schema, and
        "no-schema" for a table without one.
        """
        if self.table is None:
            own = self.data.schema
            if text and (own is None or not same_encoding(text, own)):
                raise refusal()
            return self
        if not text:
            raise _no_schema()
        if text not in self._encodings:
            schema = accept_schema(text, self.table, self.profile)
            self.count_units(repr(schema.compared_columns))
            try:  # one sentence, whatever is wrong: which values are too large is about the data
                encoding = Encoding(self.table.encode_proposal(schema, self.profile))
            except InputError:
                raise refusal() from None
            self._encodings.clear()  # one encoded table is held in memory
            self._encodings[text] = encoding
        with_data = copy.copy(self)
        with_data._encoding = self._encodings[text]
        return with_data

    def count_units(self, units: str) -> None:
        """Note in the ledger in which units these data are asked about, a schema for example.

        PolicyError if they were asked about in as many other units as the policy allows.
        """
        data = self.digest[:32]
        digest = data + hashlib.sha256(units.encode()).hexdigest()[:32]
        used = {one for one in self.ledger.sent_digests("schema") if one.startswith(data)}
        if digest in used:
            return
        self.policy.check_schemas(len(used))
        self.ledger.record("schema", "answered", digest=digest, data=self.digest)

    def sampled(self, samples: int | None, draw: int) -> ClientContext:
        """This context with so many random rows of its data; itself if there are no more."""
        data = self.data
        if samples is None or samples >= len(data.measure):
            return self
        rng = self.rng("samples", np.array([samples, draw]))
        with_rows = copy.copy(self)
        with_rows._encoding = Encoding(data.taken(rng.permutation(len(data.measure))[:samples]))
        return with_rows

    def check_budget(self, mu: float) -> None:
        """Raise PolicyError unless a release of this privacy loss is within the policy's budget.

        A privacy loss is the mu of Gaussian differential privacy; losses compose as the root of the
        sum of their squares. The budget is never reset. All entries of the ledger count, whichever
        process wrote them, and also those about earlier versions of the data, since a record may be
        in all versions.
        """
        epsilon, delta = self.policy.epsilon, self.policy.delta
        if epsilon is None:
            raise PolicyError(
                "This site's policy grants no budget for private releases; it has no epsilon.",
                "no-budget",
            )
        if math.isinf(epsilon):
            return
        spent = self.ledger.spent
        if math.isinf(spent):
            raise PolicyError(
                "This site's ledger holds replies without differential privacy, so nothing can be"
                " guaranteed for its data any more.",
                "no-guarantee",
            )
        # Rounding: n releases of mu / sqrt(n) must fit into a budget of mu.
        if compose((spent, mu)) > mu_of(epsilon, delta) * (1 + 1e-9):
            raise PolicyError(
                "This release would exceed the privacy budget of this site: epsilon ="
                f" {epsilon:g}, of which {epsilon_of(spent, delta):.3g} is spent; repeat an"
                " earlier request, whose reply is stored, or ask for a smaller epsilon.",
                "budget-spent",
            )

    def spend(self, mu: float) -> None:
        """Charge a release. Noise may be drawn only after this has written the entry to disk."""
        self.check_budget(mu)
        self.ledger.record("private", "spent", data=self.digest, mu=mu)

    def keep_transport(
        self, run: str, potentials: Floats, means: Floats, most_runs: int = 256, most: int = 1 << 25
    ) -> None:
        """Keep in memory the potentials of a support and the means of its cells, from which the
        next transport starts: this saves time and changes no number. Those of the last runs stay,
        up to `most` bytes."""
        self.transports[run] = potentials, means
        self.transports.move_to_end(run)
        size = potentials.nbytes + means.nbytes
        while len(self.transports) > max(1, min(most_runs, most // size)):
            self.transports.popitem(last=False)

    @property
    def data(self) -> Dataset:
        """The encoded data in canonical order; PolicyError for a table without a schema."""
        return self._encoded.data

    @property
    def _encoded(self) -> Encoding:
        if self._encoding is None:
            raise _no_schema()
        return self._encoding

    def rng(self, purpose: str, *arrays: NDArray[Any]) -> np.random.Generator:
        """A generator of random numbers that nobody can know who does not know the rows.

        It is seeded by the rows, the purpose and these arrays, so that a request that comes again
        gets the same reply.
        """
        content = hashlib.sha256(f"{self._encoded.rows_digest} {purpose}".encode())
        for array in arrays:
            content.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return np.random.default_rng(list(content.digest()))

    @property
    def min_own_cell_size(self) -> int:
        """Smallest number of samples in a cell or block that this client forms by itself: ten,
        whatever less the policy allows."""
        return max(10, self.policy.min_cell_size)

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """Where columns that may have missing values have one, (n, c); None if there are none.

        A missing value is 0, so that sums tell those of few rows that have one.
        """
        return self._present_in(self.data.measure.points)

    def _present_in(self, points: Floats) -> NDArray[np.bool_] | None:
        """Where columns have a value that a sum would tell: one that is there, and in columns of
        numbers of which most rows have one and the same value, another than this."""
        masks = self._masks(points)
        usual = self._usual_values
        masks |= {k: masks.get(k, True) & (points[:, k] != value) for k, value in usual.items()}
        return np.column_stack(list(masks.values())) if masks else None

    @cached_property
    def _usual_values(self) -> dict[int, float]:
        """The value that most rows of a table have, by the index of a column that is no indicator;
        none where the policy has no minimum."""
        points, schema = self.data.measure.points, self.data.schema
        if schema is None or self.policy.min_cell_size == 1:
            return {}
        middle = np.median(points, axis=0)  # if most rows have a value, it is the median
        shares = (points == middle).mean(axis=0)
        return {
            k: float(middle[k])
            for k in np.flatnonzero((shares > 0.5) & (shares < 1)).tolist()
            if k not in schema.indicators
        }

    @cached_property
    def _optional(self) -> dict[int, int | None]:
        """Columns that may have missing values: the index of their value, and that of the flag of
        missing ones if they have one."""
        schema = self.data.schema
        if schema is None:
            return {}
        place = {name: k for k, name in enumerate(schema.feature_names)}
        found = (
            [place[name] for name in column.encoded_names]
            for column in schema.compared_columns
            if column.kind != "category" and column.missing != "refuse"
        )
        return {value: flag[0] if flag else None for value, *flag in found}

    def _masks(self, points: Floats) -> dict[int, NDArray[np.bool_]]:
        """Where columns that may have missing values have one, by the index of their value."""
        return {
            k: points[:, k] != 0 if flag is None else points[:, flag] == 0
            for k, flag in self._optional.items()
        }

    def left_out(self, allowed: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The rows that sums over the `allowed` classes leave out: those of other classes and, if
        these are fewer units than the policy's minimum, rows of the largest class until they are
        enough. Sums over all rows would tell the sum over those left out; PolicyError if all rows
        of that class do not hide it."""
        data, least = self.data, self.policy.min_cell_size
        codes, weights = data.require_class_codes(), data.measure.weights
        found = ~np.isin(codes, allowed)
        if not found.any():
            return found
        largest = allowed[np.bincount(codes, weights)[allowed].argmax()]
        order, _ = data_order(data.measure, "left out", self._encoded.keys)
        for row in (*order[codes[order] == largest].tolist(), None):
            rows = np.flatnonzero(found)
            units = None if data.units is None else data.units[rows]
            count = Counted(units=units).fewest(np.zeros(len(rows), np.int64), weights[rows])
            if count >= least or row is None:
                break
            found[row] = True
        self.policy.check_cell_size(count)
        return found

    def by_classes(self, codes: NDArray[np.int64]) -> tuple[Measure, NDArray[np.bool_] | None]:
        """The samples, and where they have values (`present`), for sums over single classes.

        A column of which fewer units of a class than the policy's minimum have a value, but some,
        has none in any class, since the rest would follow from sums over all: its values become the
        value that most rows of the table have, or missing.
        """
        measure, units, least = self.data.measure, self.data.units, self.policy.min_cell_size
        points = measure.points.copy()
        present, usual = self.present, self._usual_values
        if present is None:
            return measure, present
        there = self._masks(points)
        for place, mask in zip(there | usual, present.T, strict=True):
            owners = np.flatnonzero(mask) if units is None else units[mask]
            pairs = np.unique(np.column_stack([codes[mask], owners]), axis=0)
            counts = np.bincount(pairs[:, 0])
            if ((counts > 0) & (counts < least)).any():
                points[mask, place] = usual.get(place, 0.0)
                flag = self._optional.get(place)
                if flag is not None and (place not in usual or there[place].mean() < 0.5):
                    points[mask, flag] = 1.0
        return Measure(points, measure.weights), self._present_in(points)

    def view(self, class_statistics: ClassStatistics) -> Measure:
        """The samples, or the samples with the statistics of their class appended."""
        views = self._encoded.views
        if class_statistics not in views:
            views[class_statistics] = self.data.view(class_statistics)
        return views[class_statistics]

    def summarise(
        self, cells: int, covariance_type: CovarianceType, p: float, seed: int
    ) -> Summary:
        """The summary of the data by k-means cells.

        Of a table that is read in batches, cells are found on the sample that is held, and all rows
        are summed in them, each in the cell of the nearest mean, by one pass. With another order
        than 2, or if such a cell has too few rows, the summary is that of the sample.
        """
        size, data = self.min_own_cell_size, self.data
        found = summarise(
            data.measure, cells, covariance_type, p, size, seed, self.present, data.units
        )
        table, schema = self.table, data.schema
        if table is None or table.batches is None or schema is None or p != 2:
            return found
        published = self.profile.by_name()
        compared = [published[c.name] for c in schema.compared_columns if c.name in published]
        if any(s.kind in ("number", "date") and not s.moments for s in compared):
            return found  # in the sample, values that the profile withholds are hidden
        sums = [
            CellSums.of(points, found.means, covariance_type, self._present_in(points))
            for points in table.encoded_batches(schema, self.profile)
        ]
        whole = merge_cells(*sums)
        if whole.smallest < size:
            return found
        summary = whole.summary(covariance_type)
        if data.units is None:
            return summary
        # Different units in a cell are at least those of the sample.
        labels = nearest(data.measure.points, found.means - found.means[0], found.means[0])
        pairs = np.unique(np.column_stack([labels, data.units]), axis=0)
        fewest = int(np.bincount(pairs[:, 0], minlength=len(found.means)).min())
        return found if fewest < size else replace(summary, min_cell_size=fewest)

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
        if self.policy.splits == "none" or len(measure) < 2 * min_size or not self._in_range():
            return None
        measured = partial(
            calibrate, measure, digest=self._encoded.rows_digest, units=self.data.units
        )
        if support is not None:
            return measured(min(cells, 10), covariance_type, min_size, support=support)
        if key not in self._encoded.calibrations:
            half = len(measure) // 2
            self._encoded.calibrations[key] = measured(
                cells,
                covariance_type,
                max(1, min(min_size, half // cells)),
                codes=None if class_statistics == "ignored" else self.data.require_class_codes(),
                class_covariance="diag" if class_statistics == "ignored" else class_statistics,
            )
        return self._encoded.calibrations[key]

    def block_means(self, centre: Floats, scale: Floats) -> Blocks | None:
        """Means over blocks of rows, in the units of the schema, or of `centre` and `scale`.

        None if the policy withholds them, if rows are too few or have weights, or without units. A
        server may choose units as it may choose a schema: within bounds (`are_units`), and as many
        as the policy's `max_schemas`.
        """
        data, policy = self.data, self.policy
        if policy.splits != "blocks" or not data.measure.is_uniform:
            return None
        if data.schema is not None:
            centre, scale = np.zeros(1), np.ones(1)
        elif not len(centre) or not are_units(scale, self.profile):
            return None
        else:
            try:
                self.count_units(repr((centre.tolist(), scale.tolist())))
            except PolicyError:  # asked about in other units before: nothing more is tested
                return None
        order, rng = data_order(data.measure, "blocks", self._encoded.keys)
        size, units = self.min_own_cell_size, data.units
        with suppress(InputError):  # too few rows
            return block_means(
                data.measure.points, order, rng, centre, scale, size, units, *data.block_options
            )
        return None

    def order_statistics(self) -> OrderStatistics | None:
        """Expected order statistics of each feature; None where `block_means` would be, too."""
        data = self.data
        if self.policy.splits != "blocks" or not data.measure.is_uniform or not self._in_range():
            return None
        order, _ = data_order(data.measure, "order", self._encoded.keys)
        points, size = data.measure.points, self.min_own_cell_size
        masks = self._masks(points)
        present = np.ones(points.shape, dtype=bool) if masks else None
        for place, mask in masks.items():
            present[:, place] = mask  # type: ignore[index]
        reveal = partial(groups_reveal, size)
        with suppress(InputError):  # too few rows
            return order_statistics(
                points, order, size, data.units, withhold=reveal, present=present
            )
        return None

    def covariance_noise(self, max_features: int = 256) -> CovarianceNoise | None:
        """Noise of covariances, as measured on splits of the rows; None where it is not known.

        With 256 features the splits take about as long as the calibration; more features take the
        cube of their number.
        """
        data = self.data
        if self.policy.splits == "none" or not data.measure.is_uniform or not self._in_range():
            return None
        if data.measure.dimension > max_features:
            return None
        order, _ = data_order(data.measure, "covariance", self._encoded.keys)
        with suppress(InputError):  # too few rows
            return covariance_noise(data.measure.points, order, data.units)
        return None

    def _in_range(self) -> bool:
        """Whether fourth powers of the data, which variances of squares need, are finite."""
        return self.data.measure.max_abs < MAX_CALIBRATED

    def min_class_size(self, class_statistics: ClassStatistics) -> int:
        """Kish's effective number of samples, or of units, in the smallest class.

        Where class statistics are "ignored", all samples are one class.
        """
        measure = self.view(class_statistics)
        codes = (
            measure.codes if isinstance(measure, LabelledMeasure) else np.zeros(len(measure), int)
        )
        return Counted(units=self.data.units).fewest(codes, measure.weights)


def _no_schema() -> PolicyError:
    return PolicyError(
        "This site holds a table, and the request brought no schema to encode it by.", "no-schema"
    )


def check_releasable(measure: Measure) -> None:
    """Raise InputError unless private releases of these samples are possible."""
    if not measure.is_uniform:
        raise InputError(
            "The samples have unequal weights; private releases need samples of equal weights.",
            "bad-weights",
        )
    if measure.dimension > MOST_FEATURES:
        raise InputError(
            f"The data have {measure.dimension} features; private releases take up to"
            f" {MOST_FEATURES}: reduce them first by a public map, such as a random projection.",
            "too-many-features",
        )
