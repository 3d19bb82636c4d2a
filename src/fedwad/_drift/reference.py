"""A reference: a summary and block means of one site, with which later data are compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_integer, check_text, format_value
from fedwad._distance.api import distance
from fedwad._distance.result import DistanceResult
from fedwad._drift.history import History
from fedwad._drift.result import DriftResult
from fedwad._drift.sequential_test import compare_blocks, level_at
from fedwad._files import SavedResult
from fedwad.errors import InputError
from fedwad.federation import (
    AgreedFederation,
    BlocksReply,
    BlocksRequest,
    KeptFederation,
    KeptReply,
    MeteredFederation,
    Policy,
    Site,
    SummaryReply,
    SummaryRequest,
    check_keep,
    check_same_features,
    local,
)
from fedwad.methods import Summary
from fedwad.tables import Schema

__all__ = ["Reference"]


@dataclass(frozen=True, eq=False)
class Reference(SavedResult):
    """A summary, means over blocks of rows and the schema of one site, to find drift later.

    It holds no rows. Its site's policy must allow that replies are kept (`keep = true`).

    Attributes
    ----------
    site : str
        Name of the site.
    summary, blocks : KeptReply
        The requests that the site answered, and its replies.
    features : tuple of str or None
        Names of the features.
    schema : Schema or None
        The schema that encoded the table.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> reference = fedwad.Reference.from_data(rng.normal(size=(500, 3)), name="last year")
    >>> reference
    <reference of last year: 500 rows, 3 features, 50 blocks>
    >>> reference.compare(rng.normal(size=(400, 3))).drift
    False
    >>> reference.compare(rng.normal(0.5, 1, (400, 3))).drift
    True
    """

    _format: ClassVar[str] = "fedwad reference 1"
    _noun: ClassVar[str] = "reference"

    site: str
    summary: KeptReply
    blocks: KeptReply
    features: tuple[str, ...] | None = None
    schema: Schema | None = None

    @classmethod
    def from_data(
        cls,
        source: Any,
        name: str = "reference",
        *,
        cells: int = 10,
        seed: int = 0,
        policy: Policy | None = None,
        label_column: str | None = None,
        drop: str | Iterable[str] = (),
        schema: Schema | str | Path | None = "auto",
        missing: str | Iterable[str] | Mapping[str, Iterable[str]] = (),
    ) -> Reference:
        """Ask a site for a summary and for means over blocks, and keep both.

        Parameters
        ----------
        source : data (an array, a data frame, a path), which become a local site; or a site of a
            federation, `fed["paris"]`, whose own policy then decides
        name : name of the local site
        cells : number of cells of the summary
        seed : seed of the random numbers of the summary
        policy : what a local site answers; open by default
        label_column, drop, schema, missing : what the columns of a table are, see `fedwad.local`
        """
        if isinstance(source, Site):
            site = source
        else:
            fed = local(
                {check_text(name, "name"): source}, policy, label_column, drop, schema, missing
            )
            site = fed[name]
            if schema == "auto" and fed.schema is not None:
                site = AgreedFederation(fed, fed.schema.for_new_data(), [name])[name]
        method = Summary(cells=cells)
        metered = MeteredFederation(site.federation)
        request = SummaryRequest(method.cells, method.covariance_type, 2.0, seed)
        with single_threaded_blas():
            reply = metered.ask({site.name: request}, SummaryReply)[site.name]
            check_keep(site.name, reply)
            blocks = metered.ask({site.name: BlocksRequest()}, BlocksReply)[site.name]
        check_keep(site.name, blocks)
        return cls(
            site.name,
            KeptReply(request.validate(), reply),
            KeptReply(BlocksRequest(), blocks),
            metered.features,
            metered.schema,
        )

    def __repr__(self) -> str:
        summary, blocks = self._replies
        return (
            f"<reference of {self.site}: {summary.summary.count} rows,"
            f" {summary.summary.dimension} features, {len(blocks.means)} blocks>"
        )

    @property
    def _replies(self) -> tuple[SummaryReply, BlocksReply]:
        summary, blocks = self.summary.reply, self.blocks.reply
        assert isinstance(summary, SummaryReply)  # noqa: S101
        assert isinstance(blocks, BlocksReply)  # noqa: S101
        return summary, blocks

    @property
    def digest(self) -> str:
        """SHA-256 of the content, which identifies the reference in a history."""
        return hashlib.sha256(json.dumps(self.to_dict()).encode("utf-8")).hexdigest()

    def compare(
        self,
        new: Any,
        alpha: float = 0.01,
        *,
        name: str = "new",
        history: str | Path | None = None,
        seed: int = 0,
        label_column: str | None = None,
        drop: str | Iterable[str] = (),
        missing: str | Iterable[str] | Mapping[str, Iterable[str]] = (),
    ) -> DriftResult:
        """Test whether new data still come from the population of the reference.

        Parameters
        ----------
        new : data, which become a local site and are encoded as the reference was; or a site of a
            federation
        alpha : probability of a false alarm: of this comparison, or with `history` over all
            comparisons with this reference together, however many
        name : name of the new data in the result; a site keeps its own
        history : path of a file of JSON lines to which the comparison is added. Comparison k has
            the significance level alpha 12 / ((k + 11) (k + 12)); these levels sum to alpha. Data
            that were compared before keep their number and get no second line
        seed : seed of the permutations
        label_column, drop, missing : what the columns of a table are, see `fedwad.local`
        """
        if not isinstance(alpha, float) or not 0 < alpha < 1:
            raise InputError(
                f"alpha is {format_value(alpha)}; give a number between 0 and 1, such as 0.01."
            )
        seed = check_integer(seed, "seed", 0)
        site = self._new_site(new, name, label_column, drop, missing)
        log = None if history is None else History(history, self.digest)
        metered = MeteredFederation(site.federation)
        with single_threaded_blas():
            summary, blocks = self._ask(metered, site.name)
            distance_result = self._distance(site.name, summary)
            data_digest = hashlib.sha256(np.ascontiguousarray(blocks.means).tobytes()).hexdigest()
            number = 1 if log is None else log.comparison_number(data_digest)
            level = alpha if log is None else level_at(alpha, number)
            test = compare_blocks(self._replies[1].blocks, blocks.blocks, level, seed)
        result = DriftResult(
            distance=replace(distance_result, traffic=metered.traffic),
            pvalue=test.pvalue,
            smallest=test.smallest,
            alpha=alpha,
            level=level,
            test=number,
            blocks=test.blocks,
            data=data_digest,
            reference=self.digest,
        )
        if log is not None:
            log.append(result.line())
        return result

    def history(self, path: str | Path) -> list[dict[str, Any]]:
        """Return the comparisons with this reference in a history file, oldest first."""
        return History(path, self.digest).entries

    def _new_site(
        self, new: Any, name: str, label_column: str | None, drop: Any, missing: Any
    ) -> Site:
        """The site to compare, encoded as the reference was."""
        if isinstance(new, Site):
            return new
        fed = local({check_text(name, "name"): new}, None, label_column, drop, self.schema, missing)
        if fed.features != self.features:
            raise InputError(
                f"The features of {name} have different names than those of the reference;"
                " compare the same columns."
            )
        return fed[name]

    def _ask(self, metered: MeteredFederation, name: str) -> tuple[SummaryReply, BlocksReply]:
        """The replies of the new data to the two requests that the reference answered."""
        summary = metered.ask({name: self.summary.request}, SummaryReply)[name]
        expected = self._replies[0].summary.dimension
        check_same_features({self.site: expected, name: summary.summary.dimension})
        return summary, metered.ask({name: self.blocks.request}, BlocksReply)[name]

    def _distance(self, name: str, summary: SummaryReply) -> DistanceResult:
        """The distance between the reference and the new data, from the two summaries alone."""
        request = self.summary.request
        assert isinstance(request, SummaryRequest)  # noqa: S101
        reference = self.site if self.site != name else f"{self.site} (reference)"
        kept = {reference: [self.summary], name: [KeptReply(request, summary)]}
        fed = KeptFederation(kept, None, self.features, self.schema)
        return distance(fed[reference], fed[name], cells=request.cells, seed=request.seed)

    def _content(self) -> dict[str, Any]:
        return {
            "site": self.site,
            "features": None if self.features is None else list(self.features),
            "schema": None if self.schema is None else self.schema.to_toml(),
            "summary": self.summary.to_dict(),
            "blocks": self.blocks.to_dict(),
        }

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> Reference:
        features, schema = content["features"], content["schema"]
        reference = cls(
            site=str(content["site"]),
            summary=KeptReply.from_dict(content["summary"]),
            blocks=KeptReply.from_dict(content["blocks"]),
            features=None if features is None else tuple(map(str, features)),
            schema=None if schema is None else Schema.from_toml(schema),
        )
        summary, blocks = reference._replies
        if summary.summary.dimension != len(blocks.centre):
            raise ValueError("summary and blocks differ in their features")
        return reference
