"""Newcomers, and where a site belongs among the others: its neighbours, its cluster, or none.

A site that joins a matrix after it was computed is the only one that is asked. The kept replies of
the other sites answer the same requests again. A site that belongs to no cluster of the others is a
stranger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._files import to_plain
from fedwad.compare.answers import verdict
from fedwad.compare.clusters import check_labels
from fedwad.compare.explanation import Explanation
from fedwad.compare.sentences import MAX_NAMED, join, pvalue_in_words
from fedwad.compare.task import ColumnNames
from fedwad.errors import InputError
from fedwad.federation import KeptFederation, KeptReply, Site, local
from fedwad.statistics.blocking import Blocks
from fedwad.statistics.testing import permutation_test

if TYPE_CHECKING:
    from fedwad.compare.results import MatrixResult, Neighbour


@dataclass(frozen=True, eq=False)
class Placement:
    """Where a site belongs among the others.

    Attributes
    ----------
    site : str
    nearest : tuple of Neighbour
        The other sites, the nearest population first, with distances between populations and their
        95% intervals.
    cluster : tuple of str
        The cluster of the other site whose population is nearest.
    pvalue : float
        P-value of the hypothesis that the site has the population of some member of the cluster. It
        is the largest p-value of the tests against members, so it is small only if the site differs
        from all; nan if they were not tested.
    smallest : float
        The smallest p-value that these numbers of rows can give.
    mixed : bool
        Whether members of the cluster differ from each other.
    explanation : Explanation
        The columns by which the site and its nearest neighbour differ.
    """

    site: str
    nearest: tuple[Neighbour, ...]
    cluster: tuple[str, ...]
    pvalue: float
    smallest: float
    mixed: bool
    explanation: Explanation

    @property
    def stranger(self) -> bool | None:
        """Whether the site differs from every member of the nearest cluster, at the 5% level.

        None if there are too few rows to tell.
        """
        return verdict(self.pvalue, self.smallest)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        near, members = self.nearest[0], join(self.cluster)
        if self.stranger is None:
            return f"It cannot be told whether {self.site} fits {members}."
        numbers = pvalue_in_words(self.pvalue)
        if self.stranger:
            causes = self.explanation.causes_with_pvalues[:MAX_NAMED]
            where = f", from {near.site} in {join(causes)}" if causes else ""
            too = ", which differ from each other too" if self.mixed else ""
            each = members if len(self.cluster) == 1 else f"each of {members}{too}"
            return f"{self.site} differs from {each} ({numbers}){where}."
        if len(self.cluster) == 1:
            return f"There is no evidence that {self.site} differs from {members} ({numbers})."
        too = ", which differ from each other" if self.mixed else ""
        return (
            f"There is no evidence that {self.site} differs from all of {members}{too} ({numbers}):"
            " it may fit with one of them."
        )

    def __repr__(self) -> str:
        return f"<{self.sentence.removesuffix('.')}>"

    def _repr_html_(self) -> str:
        from fedwad._html import html_table

        return html_table(repr(self), {one.site: f"{one.value:.4g}" for one in self.nearest[:5]})

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists."""
        return {
            "site": self.site,
            "nearest": [
                {"site": one.site, "distance": to_plain(one.value)} for one in self.nearest
            ],
            "cluster": list(self.cluster),
            "pvalue": to_plain(self.pvalue),
            "smallest": self.smallest,
            "mixed": self.mixed,
            "stranger": self.stranger,
            "sentence": self.sentence,
        }


def place(matrix: MatrixResult, name: str, labels: Sequence[int] | None = None) -> Placement:
    """Place one site of a matrix among the others.

    `labels` has the cluster of each other site, in the order of the matrix; by default the clusters
    that the matrix without this site suggests.
    """
    from fedwad.compare.results import Neighbour

    if matrix.square is None or not matrix.knows_populations:
        if matrix.rows and matrix.rows[matrix.sites.index(name)] < 2:
            raise InputError(
                f"{name} has one row, which is too few to place it; use more rows.", "too-few-rows"
            )
        raise InputError(
            "Distances between populations are unknown here, so no site can be placed; that"
            " needs p = 2, no privacy, and sites whose policies send columns.",
            "not-known",
        )
    row = matrix.sites.index(name)
    square = matrix.square[row]
    others = np.array([i for i in range(len(matrix)) if i != row])
    labels = _suggest_clusters(matrix, others.tolist()) if labels is None else labels
    cluster_of = check_labels(labels, len(others))
    order = np.argsort(square[others], kind="stable")
    members = others[cluster_of == cluster_of[order[0]]].tolist()
    pvalue, smallest = _largest_pvalue(matrix, row, members)
    low, high = matrix.population_interval or (matrix.lower, matrix.upper)
    value = np.sqrt(np.maximum(square, 0.0))
    if matrix.population is not None:  # where there is evidence
        value = np.where(np.isnan(matrix.population[row]), value, matrix.population[row])
    nearest = tuple(
        Neighbour(matrix.sites[i], *(float(table[i]) for table in (value, low[row], high[row])))
        for i in others[order].tolist()
    )
    return Placement(
        site=name,
        nearest=nearest,
        cluster=tuple(matrix.sites[i] for i in members),
        pvalue=pvalue,
        smallest=smallest,
        mixed=any(matrix.differs[i, j] is True for i in members for j in members),
        explanation=matrix.explain(name, nearest[0].site),
    )


def _suggest_clusters(matrix: MatrixResult, others: list[int]) -> list[int]:
    """Return a label for each of these sites: the clusters that a matrix of them suggests."""
    if len(others) < 3:
        return [0] * len(others)
    blocks = _kept_blocks(matrix, others)
    test = None if blocks is None else permutation_test(blocks, seed=matrix.seed)
    rest = replace(matrix.of_sites(others), test=test)
    suggestion = rest.suggest()  # clusters of one site each say nothing about a newcomer
    k = suggestion.k if test and suggestion.k < len(rest) else suggestion.by_distance
    return [int(label) for label in rest.cluster(k)]


def _largest_pvalue(matrix: MatrixResult, row: int, members: list[int]) -> tuple[float, float]:
    """Return the largest p-value against a member, and the smallest possible one.

    The largest of several p-values needs no adjustment: it is small only if all are (Berger 1982).
    """
    blocks = _kept_blocks(matrix, [row, *members])
    if blocks is not None:
        tests = [permutation_test([blocks[0], one], seed=matrix.seed) for one in blocks[1:]]
        return max(test.pvalue for test in tests), max(test.smallest for test in tests)
    if matrix.pvalue is None or matrix.smallest is None:
        return math.nan, 1.0
    return float(matrix.pvalue[row, members].max()), float(matrix.smallest[row, members].max())


def _kept_blocks(matrix: MatrixResult, sites: Sequence[int]) -> list[Blocks] | None:
    """The blocks of these sites; None unless all of them were kept."""
    kept = [one.reply.blocks for k in sites for one in matrix.kept.get(matrix.sites[k], ())[:1]]
    known = [one for one in kept if one is not None]
    return known if len(known) == len(sites) else None


def add_site(matrix: MatrixResult, source: Any, name: str) -> MatrixResult:
    """Return the matrix with one site more.

    `source` is a site, or data, which become a local site of this `name`. Old distances are
    computed again from the kept replies, with the same seed. Their estimates change a little where
    the larger number of pairs means fewer synthetic samples for each pair.
    """
    from fedwad.compare.api import matrix as compute

    _check_kept(matrix)
    features, schema = _column_names(matrix)
    new_site = source if isinstance(source, Site) else local({name: source}, schema=schema)[name]
    if new_site.name in matrix.sites:
        raise InputError(
            f"There is a site '{new_site.name}' already; give the new one a different name.",
            "repeated-site",
        )
    fed = KeptFederation(matrix.kept, new_site.federation, features, schema)
    result = compute(
        fed,
        matrix.method,  # type: ignore[arg-type]
        seed=matrix.seed,
        p=matrix.p,
        sites=[*matrix.sites, new_site.name],
        **matrix.options,
    )
    if new_site.name not in result.sites:
        raise InputError(
            f"{new_site.name} did not answer: {result.failed[new_site.name]}", "no-reply"
        )
    return replace(result, traffic=fed.traffic)


def join_options(matrix: MatrixResult) -> dict[str, Any]:
    """Return what an engine needs to ask a newcomer what the sites of the matrix were asked."""
    _check_kept(matrix)
    schema = _column_names(matrix)[1]
    requests = [one.to_dict()["request"] for one in matrix.kept[matrix.sites[0]]]
    return {"requests": requests, "schema": None if schema is None else schema.to_toml()}


def add_replies(
    matrix: MatrixResult, name: str, replies: Sequence[Mapping[str, Any]]
) -> MatrixResult:
    """Return the matrix with one site more, which an engine has asked with `join_options`."""
    try:
        kept = [KeptReply.from_dict(one) for one in replies]
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise InputError(f"The engine returned no replies of {name}.", "bad-reply") from None
    return add_site(matrix, KeptFederation({name: kept}, None, *_column_names(matrix))[name], name)


def _column_names(matrix: MatrixResult) -> ColumnNames:
    evidence = matrix.evidence
    return (None, None) if evidence is None else (evidence.features, evidence.schema)


def _check_kept(matrix: MatrixResult) -> None:
    """Raise InputError unless there are kept replies of all sites."""
    if set(matrix.kept) != set(matrix.sites):
        raise InputError(
            "This matrix was computed without replies that may be kept; compute it with method"
            " 'summary', without labels or privacy, from sites whose policies have keep = true.",
            "not-kept",
        )
