"""Where a site belongs among the others: its neighbours, its cluster, or none.

A site that belongs to no cluster of the others is a stranger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._explain.explanation import Explanation
from fedwad._matrix.odd import site_pvalues
from fedwad._matrix.saved import TABLES
from fedwad.errors import InputError
from fedwad.federation import BlocksReply
from fedwad.ot import Blocks, Floats, permutation_test

if TYPE_CHECKING:
    from fedwad._matrix.result import MatrixResult, Neighbour

__all__ = ["Placement", "place"]

_ALPHA = 0.05
_MAX_CAUSES = 3  # columns that a sentence names
_MIN_MEMBERS = 3  # of a cluster, for a test against their differences from each other


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
        The cluster of other sites whose populations are nearest on average.
    pvalue : float
        P-value of the hypothesis that the site has the population of some member of the cluster. It
        is the largest p-value against a member, so it is small only if the site differs from all.
    oddness : float
        P-value of the hypothesis that the site differs from the members of the cluster no more than
        these differ from each other; nan for fewer than three members.
    tested : bool
        Whether `pvalue` is that of permutation tests; otherwise it follows from the standard errors
        of population distances.
    explanation : Explanation
        The columns by which the site and its nearest neighbour differ.
    """

    site: str
    nearest: tuple[Neighbour, ...]
    cluster: tuple[str, ...]
    pvalue: float
    oddness: float
    tested: bool
    explanation: Explanation

    @property
    def stranger(self) -> bool:
        """Whether the site belongs to no cluster of the others, at the 5% level.

        A stranger differs from every member of the nearest cluster, and by more than the members
        differ from each other if there are at least three.
        """
        return self.pvalue <= _ALPHA and not self.oddness > _ALPHA

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        near, members = self.nearest[0], ", ".join(self.cluster)
        numbers = f"p = {self.pvalue:.2g}, nearest {near.site} at distance {near.value:.3g}"
        if self.stranger:
            causes = self.explanation.causes[:_MAX_CAUSES]
            where = f", mostly in {', '.join(causes)}" if causes else ""
            return f"{self.site} is unlike all of them{where} ({numbers})."
        if self.pvalue <= _ALPHA:
            return (
                f"{self.site} differs from each of {members}, but no more than they differ from"
                f" each other ({numbers})."
            )
        if len(self.cluster) == 1:
            return f"{self.site} is like {members} ({numbers})."
        return f"{self.site} belongs with {members} ({numbers})."

    def __repr__(self) -> str:
        return f"<{self.sentence.removesuffix('.')}>"

    def _repr_html_(self) -> str:
        from fedwad._html import html_table

        return html_table(repr(self), {one.site: f"{one.value:.4g}" for one in self.nearest[:5]})

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists."""
        return {
            "site": self.site,
            "nearest": [{"site": one.site, "distance": one.value} for one in self.nearest],
            "cluster": list(self.cluster),
            "pvalue": self.pvalue,
            "oddness": None if np.isnan(self.oddness) else self.oddness,
            "tested": self.tested,
            "stranger": self.stranger,
            "sentence": self.sentence,
        }


def place(matrix: MatrixResult, name: str, labels: Sequence[int] | None = None) -> Placement:
    """Place one site of a matrix among the others.

    `labels` has the cluster of each other site, in the order of the matrix; by default the clusters
    that the matrix without this site suggests.
    """
    health = matrix.health
    if health is None:
        raise InputError(
            "Distances between populations are unknown here, so no site can be placed; that"
            " needs p = 2, no privacy, and sites whose policies have calibration = true."
        )
    row = matrix.sites.index(name)
    others = [i for i in range(len(matrix)) if i != row]
    labels = _suggest_clusters(matrix, others) if labels is None else list(labels)
    if len(labels) != len(others):
        raise InputError(f"{len(labels)} labels came for {len(others)} other sites; give one each.")
    members = _nearest_cluster(health.square[row], others, labels)
    pvalue, tested = _largest_pvalue(matrix, row, members)
    oddness = float("nan")
    if len(members) >= _MIN_MEMBERS:
        indices = [*members, row]
        submatrix, evidence = np.ix_(indices, indices), matrix.evidence
        moments = None if evidence is None else [evidence.moments[i] for i in indices]
        # Only this site is tested, so there is nothing to adjust for.
        pvalues = site_pvalues(health.square[submatrix], health.error[submatrix], moments)
        oddness = float(pvalues[-1])
    nearest = _neighbours(matrix, row)
    return Placement(
        site=name,
        nearest=nearest,
        cluster=tuple(matrix.sites[i] for i in members),
        pvalue=pvalue,
        oddness=oddness,
        tested=tested,
        explanation=matrix.explain(name, nearest[0].site),
    )


def _neighbours(matrix: MatrixResult, row: int) -> tuple[Neighbour, ...]:
    """Return the other sites, the nearest population first, with their population distances."""
    from fedwad._matrix.result import Neighbour

    assert matrix.health is not None  # noqa: S101
    assert matrix.population is not None  # noqa: S101
    low, high = matrix.population_interval or (matrix.lower, matrix.upper)
    tables = matrix.population[row], low[row], high[row]
    order = np.argsort(matrix.health.square[row], kind="stable").tolist()
    return tuple(
        Neighbour(matrix.sites[i], *(float(table[i]) for table in tables))
        for i in order
        if i != row
    )


def _suggest_clusters(matrix: MatrixResult, others: list[int]) -> list[int]:
    """Return a label for each of these sites: the clusters that a matrix of them suggests."""
    if len(others) < 3:
        return [0] * len(others)
    submatrix = np.ix_(others, others)
    parts: dict[str, Any] = {
        name: None if (table := getattr(matrix, name)) is None else table[submatrix]
        for name in TABLES
    }
    low, high = matrix.population_interval or (matrix.value, matrix.value)
    rest = replace(
        matrix,
        sites=tuple(matrix.sites[i] for i in others),
        population_interval=(low[submatrix], high[submatrix]),
        health=None if matrix.health is None else matrix.health.among(others),
        rows=tuple(matrix.rows[i] for i in others) if matrix.rows else (),
        **parts,
    )
    return [int(label) for label in rest.cluster(rest.suggest().k)]


def _nearest_cluster(square: Floats, others: list[int], labels: Sequence[int]) -> list[int]:
    """Return the indices of the members of the cluster with the smallest mean squared distance."""
    clusters = [
        [i for i, label in zip(others, labels, strict=True) if label == one]
        for one in dict.fromkeys(labels)
    ]
    return min(clusters, key=lambda members: float(np.mean(square[members])))


def _largest_pvalue(matrix: MatrixResult, row: int, members: list[int]) -> tuple[float, bool]:
    """Return the largest p-value against a member, and whether permutation tests gave it."""
    site = _kept_blocks(matrix, row)
    blocks = [kept for i in members if (kept := _kept_blocks(matrix, i)) is not None]
    if site is not None and len(blocks) == len(members):
        tests = [permutation_test([site, member], seed=matrix.seed) for member in blocks]
        return max(test.pvalue for test in tests), True
    assert matrix.health is not None  # noqa: S101
    square, error = matrix.health.square[row, members], matrix.health.error[row, members]
    scores = square / np.where(error > 0, error, np.inf)
    return max(1 - NormalDist().cdf(float(score)) for score in scores), False


def _kept_blocks(matrix: MatrixResult, index: int) -> Blocks | None:
    for one in matrix.kept.get(matrix.sites[index], []):
        if isinstance(one.reply, BlocksReply):
            return one.reply.blocks
    return None
