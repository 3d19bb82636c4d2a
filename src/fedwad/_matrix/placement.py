"""Where a site belongs among the others: its neighbours, its cluster, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._explain.explanation import Explanation
from fedwad._matrix.odd import site_pvalues
from fedwad.errors import InputError
from fedwad.federation import BlocksReply
from fedwad.ot import Blocks, Floats, permutation_test

if TYPE_CHECKING:
    from fedwad._matrix.result import MatrixResult, Neighbour

__all__ = ["Placement", "place"]

_LEVEL = 0.05
_MOST_CAUSES = 3
_FEWEST_FOR_ODDNESS = 3  # members whose differences can be compared with


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
        Of the hypothesis that the site has the population of some member of the cluster: the
        largest p-value against its members, so small only if it differs from all.
    oddness : float
        P-value of the hypothesis that the site differs from the cluster no more than its members
        differ from each other; nan for fewer than three members.
    tested : bool
        Whether `pvalue` is that of the permutation test; otherwise it is from the errors of
        population distances.
    explanation : Explanation
        What the site and its nearest neighbour differ by.
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
        """Whether the site is unlike all others, at the 5% level.

        It differs from every member of the nearest cluster, and by more than they differ from each
        other if there are at least three.
        """
        return self.pvalue <= _LEVEL and not self.oddness > _LEVEL

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        near, members = self.nearest[0], ", ".join(self.cluster)
        numbers = f"p = {self.pvalue:.2g}, nearest {near.site} at distance {near.value:.3g}"
        if self.stranger:
            causes = self.explanation.causes[:_MOST_CAUSES]
            where = f", mostly in {', '.join(causes)}" if causes else ""
            return f"{self.site} is unlike all of them{where} ({numbers})."
        if self.pvalue <= _LEVEL:
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

    `labels` are clusters of the other sites in their order; by default those that the matrix
    without this site suggests.
    """
    health = matrix.health
    if health is None:
        raise InputError(
            "Distances between populations are unknown here, so no site can be placed; sites must"
            " send the numbers of their splits (calibration = true)."
        )
    row = matrix.sites.index(name)
    others = [i for i in range(len(matrix)) if i != row]
    groups = _suggest_clusters(matrix, others) if labels is None else list(labels)
    if len(groups) != len(others):
        raise InputError(f"{len(groups)} labels came for {len(others)} other sites; give one each.")
    members = _nearest_group(health.square[row], others, groups)
    pvalue, tested = _largest_pvalue(matrix, row, members)
    oddness = float("nan")
    if len(members) >= _FEWEST_FOR_ODDNESS:
        indices = [*members, row]
        submatrix, evidence = np.ix_(indices, indices), matrix.evidence
        moments = None if evidence is None else [evidence.moments[i] for i in indices]
        # One site, not all, is new, so there is nothing to adjust for.
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
    """The other sites, the nearest population first, with distances between populations."""
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
    """Clusters that the matrix without the site suggests."""
    if len(others) < 3:
        return [0] * len(others)
    submatrix = np.ix_(others, others)
    parts: dict[str, Any] = {
        name: None if (table := getattr(matrix, name)) is None else table[submatrix]
        for name in ("value", "lower", "upper", "fedwad", "noise", "population", "pvalue")
    }
    low, high = matrix.population_interval or (matrix.value, matrix.value)
    rest = replace(
        matrix,
        sites=tuple(matrix.sites[i] for i in others),
        population_interval=(low[submatrix], high[submatrix]),
        **parts,
    )
    return [int(label) for label in rest.cluster(rest.suggest().k)]


def _nearest_group(square: Floats, others: list[int], groups: list[int]) -> list[int]:
    """Indices of the sites in the group with the smallest mean squared distance."""
    found = {
        label: [i for i, group in zip(others, groups, strict=True) if group == label]
        for label in dict.fromkeys(groups)
    }
    return min(found.values(), key=lambda members: float(np.mean(square[members])))


def _largest_pvalue(matrix: MatrixResult, row: int, members: list[int]) -> tuple[float, bool]:
    """The largest p-value against the members, and whether it is of the permutation test."""
    blocks = {i: _blocks(matrix, i) for i in (row, *members)}
    known = [one for one in blocks.values() if one is not None]
    if len(known) == len(blocks):
        new, *rest = known
        found = [permutation_test([new, one], seed=matrix.seed).pvalue for one in rest]
        return max(found), True
    assert matrix.health is not None  # noqa: S101
    square, error = matrix.health.square[row, members], matrix.health.error[row, members]
    scores = square / np.where(error > 0, error, np.inf)
    return max(1 - NormalDist().cdf(float(score)) for score in scores), False


def _blocks(matrix: MatrixResult, index: int) -> Blocks | None:
    for one in matrix.kept.get(matrix.sites[index], []):
        if isinstance(one.reply, BlocksReply):
            return one.reply.blocks
    return None
