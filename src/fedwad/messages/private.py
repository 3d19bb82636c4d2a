"""Releases under differential privacy, paid for out of the site's budget: moments and cells,
histograms of columns, and the sums from which a schema follows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedwad.errors import InputError
from fedwad.messages.learning import check_names
from fedwad.messages.message import (
    MAX_COUNT,
    Count,
    LabelName,
    Needs,
    Reply,
    Request,
    SchemaText,
    have_shapes,
    is_finite,
    require,
)
from fedwad.privacy import (
    DP,
    BinnedColumn,
    ColumnsRelease,
    Release,
    bin_columns,
    check_budget,
    check_draft,
    count_schema_sums,
    mu_of,
    noise_of,
)
from fedwad.tables import Schema
from fedwad.transport import Floats

_MAX_ABS = 1e150  # of a number in a release, so that products stay finite


@dataclass(frozen=True, eq=False)
class _BudgetRequest(Request):
    """What requests for releases have in common: the privacy that they pay for."""

    kind: ClassVar[str] = "private"
    uses_budget: ClassVar[bool] = True
    epsilon: float
    delta: float

    def check_values(self) -> None:
        check_budget(self.epsilon, self.delta)

    @property
    def mu(self) -> float:
        """The privacy loss of the release."""
        return mu_of(self.epsilon, self.delta)

    def needs(self) -> Needs:
        return Needs(mu=self.mu)


@dataclass(frozen=True, eq=False)
class PrivateReply(Release, Reply):
    """A release as a reply; its fields are those of `fedwad.privacy.Release`."""

    def check_values(self) -> None:
        require(1 <= self.count <= MAX_COUNT, "samples are not counted by a positive integer.")
        norms = self.clip_norm, self.whitened_clip_norm
        require(all(0 < one < _MAX_ABS for one in norms), "a clip norm is not positive.")
        vectors = self.mean, self.origin, self.first_mean, self.centre
        matrices = self.first_second, self.whitening, self.second
        numbers = (*((one, "d") for one in vectors), *((one, "dd") for one in matrices))
        require(have_shapes(*numbers) and self.mean.size > 0, "its moments are not finite.")
        cells = (self.mean, "d"), (self.centres, "sd"), (self.sums, "sd"), (self.masses, "s")
        require(have_shapes(*cells), "cells are not finite.")
        noise = is_finite(self.noise, 1) and len(self.noise) == 3
        given = noise and bool((self.noise >= 0).all()) and bool((self.noise[:2] > 0).all())
        require(given, "the noise is not given.")
        spectrum = np.abs(np.linalg.eigvalsh((self.whitening + self.whitening.T) / 2))
        singular = float(spectrum.min()) <= 1e-14 * float(spectrum.max())
        require(not singular, "its whitening matrix is singular.")


@dataclass(frozen=True, eq=False)
class PrivateRequest(_BudgetRequest):
    """Ask for noisy moments and cells of the samples within `clip_norm` of `centre`.

    See `fedwad.privacy.release`. The site chooses the cells from public numbers. With `labels` they
    are the classes of these public names.
    """

    reply_type: ClassVar[type[Reply]] = PrivateReply
    clip_norm: float
    centre: Floats
    labels: tuple[LabelName, ...] = ()

    @classmethod
    def of(cls, guarantee: DP) -> PrivateRequest:
        """The request for a release with this guarantee."""
        guarantee = guarantee.completed(None)
        return cls(
            float(guarantee.epsilon),
            float(guarantee.delta),
            float(guarantee.clip_norm or 0.0),
            guarantee.centre_point,
            guarantee.class_names,
        )

    def check_values(self) -> None:
        if self.centre.ndim != 1:
            raise InputError("The centre is a point.", "bad-request")
        if self.labels:
            check_names(self.labels)
        DP(  # InputError unless these make a guarantee
            self.epsilon,
            delta=self.delta,
            clip_norm=self.clip_norm,
            centre=self.centre,
            labels=self.labels or None,
        ).completed(None)

    def needs(self) -> Needs:
        return replace(super().needs(), size=len(self.labels) or None)

    def check(self, reply: PrivateReply) -> None:
        require(reply.clip_norm == self.clip_norm, "it is about another clip_norm.")
        if self.labels:
            require(len(reply.centres) == len(self.labels), "it leaves out a class.")


@dataclass(frozen=True, eq=False)
class PrivateColumnsReply(ColumnsRelease, Reply):
    """A release as a reply; its fields are those of `fedwad.privacy.ColumnsRelease`."""

    def check_values(self) -> None:
        require(1 <= self.count <= MAX_COUNT, "samples are not counted by a positive integer.")
        largest = 1e15  # beyond the largest number of rows and its noise
        counted = is_finite(self.counts, 1, largest) and len(self.counts) > 0
        require(counted and 0 < self.noise < largest, "counts or their noise are not finite.")


@dataclass(frozen=True, eq=False)
class PrivateColumnsRequest(_BudgetRequest):
    """Ask for noisy counts of rows in these bins; see `fedwad.privacy.columns`.

    The bins are part of the request, so neither side has to guess them, and nothing about the data
    decides them. `widths` has the number of encoded features of each column, which follow one
    another. `edges` has the edges of the bins of a number, or an empty array for a category, whose
    features are its levels. The second feature of a number flags missing values. Without `widths`
    each feature is a number, and all have the same bins, the only entry of `edges`.
    """

    reply_type: ClassVar[type[Reply]] = PrivateColumnsReply
    widths: tuple[Annotated[int, Meta(ge=1, le=1000)], ...]
    edges: tuple[Floats, ...]

    @classmethod
    def of(cls, guarantee: DP, schema: Schema | None) -> PrivateColumnsRequest:
        """The request for a release with this guarantee of tables with this public schema.

        Without a schema, features are numbers within `clip_norm` of `centre`.
        """
        guarantee = guarantee.completed(schema)
        budget = float(guarantee.epsilon), float(guarantee.delta)
        centre = guarantee.centre_point
        columns = bin_columns(schema, len(centre), guarantee.clip_norm or 0.0, centre)
        if schema is None and len(centre) == 1:
            return cls(*budget, (), (columns[0].edges,))
        widths = tuple(one.features.stop - one.features.start for one in columns)
        return cls(*budget, widths, tuple(one.edges for one in columns))

    def check_values(self, most_bins: int = 1000) -> None:
        super().check_values()
        widths = self.widths or (1,)
        if len(widths) != len(self.edges):
            raise InputError("widths and edges must have an entry for each column.", "bad-option")
        for width, edges in zip(widths, self.edges, strict=True):
            is_category = self.widths and not edges.size
            is_number = width <= 2 and 3 <= edges.size <= most_bins + 1
            increasing = is_finite(edges, 1) and bool((np.diff(edges) > 0).all())
            if not increasing or not (is_category or is_number):
                raise InputError(
                    "Edges of bins must be finite and increase, for one number at a time.",
                    "bad-option",
                )

    def columns(self, dimension: int) -> tuple[BinnedColumn, ...]:
        """The columns of data with this number of features, with their bins."""
        widths = self.widths or (1,) * dimension
        edges = self.edges if self.widths else self.edges * dimension
        ends = np.cumsum(widths).tolist()
        return tuple(
            BinnedColumn("", slice(end - width, end), of_column, 1.0, width == 2 <= len(of_column))
            for end, width, of_column in zip(ends, widths, edges, strict=True)
        )

    def dimension(self, reply: PrivateColumnsReply) -> int:
        """The number of features that a reply to this request is about."""
        return sum(self.widths) or len(reply.counts) // (len(self.edges[0]) - 1)

    def check(self, reply: PrivateColumnsReply) -> None:
        columns = self.columns(self.dimension(reply))
        bins = sum(one.size for one in columns)
        require(len(reply.counts) == bins, "its counts are about other bins.")
        noise = noise_of(len(columns), bins, self.mu)
        require(math.isclose(reply.noise, noise, rel_tol=1e-9), "its noise is not as asked for.")


@dataclass(frozen=True, eq=False)
class PrivateSchemaReply(Reply):
    """The number of rows, noisy sums over them, and the standard deviation of the noise."""

    count: Count
    sums: Floats
    noise: Annotated[float, Meta(gt=0, lt=_MAX_ABS)]

    def check_values(self) -> None:
        require(is_finite(self.sums, 1), "sums are not finite.")


@dataclass(frozen=True)
class PrivateSchemaRequest(_BudgetRequest):
    """Ask for the noisy sums from which a schema follows; `draft` is the text of its file.

    The draft is the site's own schema file, and the request must repeat it. A refusal because they
    differ says nothing about the rows.
    """

    reply_type: ClassVar[type[Reply]] = PrivateSchemaReply
    draft: SchemaText

    def check_values(self) -> None:
        super().check_values()
        check_draft(_read(self.draft))

    def check(self, reply: PrivateSchemaReply) -> None:
        size = count_schema_sums(_read(self.draft))
        require(len(reply.sums) == size, "it has a different number of sums.")


def _read(draft: str) -> Schema:
    return Schema.from_toml(draft, "The draft", public=True)
