"""A permutation test between two sites: the public function, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_integer
from fedwad._distance.api import as_sites
from fedwad._distance.blocks import ask_blocks
from fedwad._explain.evidence import Evidence
from fedwad._explain.explain import explain_pair
from fedwad._explain.explanation import Explanation
from fedwad._explain.parts import PairDistance
from fedwad._files import SavedResult
from fedwad.errors import InputError
from fedwad.federation import MeteredFederation, Traffic
from fedwad.ot import block_moments
from fedwad.ot import permutation_test as run_permutation_test

__all__ = ["PermutationTestResult", "permutation_test"]

_ALPHA = 0.05  # `explain` takes sites with a p-value up to this as different


@dataclass(frozen=True, eq=False)
class PermutationTestResult(SavedResult):
    """A permutation test of whether two sites have one population.

    Attributes
    ----------
    pvalue : float
        P-value of the hypothesis that both sites have the same population. It is exact: if the
        hypothesis is true, and the rows of both sites together are exchangeable under it, the
        p-value is at most alpha with probability at most alpha.
    statistic : float
        One minus the smallest of `ranks`, each divided by a fixed weight; between 0 and 1. It says
        how strong the evidence for a difference is, not how large the difference is.
    smallest : float
        The smallest p-value that is possible with these numbers of blocks and of permutations.
    ranks : mapping
        The names of several statistics, and the p-value that each would have if it were the only
        one.
    sites : tuple of two str
    rows : int
        Number of rows in each block of the test, in which the blocks that were sent are merged.
    blocks : tuple of two int
        Number of these blocks at each site.
    seed : int
    traffic : Traffic
    evidence : Evidence or None
        A few numbers for each column, from which `explain` is computed.
    """

    _format: ClassVar[str] = "fedwad permutation test 1"
    _noun: ClassVar[str] = "permutation test"

    pvalue: float
    statistic: float
    smallest: float
    ranks: Mapping[str, float]
    sites: tuple[str, ...]
    rows: int
    blocks: tuple[int, ...]
    seed: int
    traffic: Traffic
    evidence: Evidence | None = None

    def __repr__(self) -> str:
        return f"<permutation test {' - '.join(self.sites)}: p = {self.pvalue:.4g}>"

    def explain(self, names: Sequence[str] | None = None) -> Explanation:
        """Return which columns differ, from the means and spreads that were sent with the blocks.

        Parameters
        ----------
        names : names of the columns, if the sites' data have none
        """
        if self.evidence is None:
            raise InputError(
                "This test was saved without its evidence, which explains it; run it again."
            )
        pair = PairDistance(value=0.0, differs=self.pvalue <= _ALPHA)  # a test has no distance
        sites = self.sites[0], self.sites[1]
        return explain_pair(self.evidence, (0, 1), sites, pair, names)

    def _html_rows(self) -> dict[str, str]:
        return {"p-value": f"{self.pvalue:.3g}", "smallest possible": f"{self.smallest:.2g}"}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> PermutationTestResult:
        remaining = dict(content)
        evidence = remaining.pop("evidence", None)
        if not 0 < remaining["pvalue"] <= 1:
            raise ValueError("not a p-value")
        return cls(
            sites=tuple(remaining.pop("sites")),
            blocks=tuple(remaining.pop("blocks")),
            traffic=Traffic(**remaining.pop("traffic")),
            evidence=None if evidence is None else Evidence.from_dict(evidence),
            **remaining,
        )


def permutation_test(
    a: Any, b: Any, blocks: int | None = None, seed: int = 0
) -> PermutationTestResult:
    """Test whether the data of two sites come from one population, without pooling them.

    Each site shuffles its rows, with a hash of its data as the seed, and divides them into blocks
    of 10, 20, 40, ... rows. Over each block it sends the means of functions that are the same at
    all sites: powers of the features, and squares of their sums with random signs. The server
    merges blocks until all have one size, and permutes them between the sites. The p-value is exact
    for any distribution if, under the hypothesis, the rows of both sites together are exchangeable.

    Parameters
    ----------
    a, b : two sites of one federation (`fed["paris"]`), or data, which become local sites
    blocks : number of blocks that each site keeps at least when blocks are merged; 20 when left
        out. Merging stops before a site would have fewer. A site that sends fewer keeps all. A
        policy may set a larger size for the smallest blocks.
    seed : seed of random permutations, which are drawn if there are too many to try all

    Returns
    -------
    PermutationTestResult
        `pvalue`, `statistic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (300, 4)), rng.normal(0.5, 1, (200, 4))
    >>> fedwad.permutation_test(X, Y).pvalue < 0.01
    True
    """
    seed = check_integer(seed, "seed", 0)
    if blocks is not None:
        blocks = check_integer(blocks, "blocks", 2)
    first, second = as_sites(a, b)
    if first == second:
        raise InputError("Both sites are the same; a test compares two different ones.")
    metered = MeteredFederation(first.federation)
    names = (first.name, second.name)
    with single_threaded_blas():
        replies = ask_blocks(metered, names)
        blocks_of_both = [replies[name] for name in names]
        min_blocks = {} if blocks is None else {"min_blocks": blocks}
        test = run_permutation_test(blocks_of_both, seed=seed, **min_blocks)
    return PermutationTestResult(
        pvalue=test.pvalue,
        statistic=test.statistic,
        smallest=test.smallest,
        ranks=test.ranks,
        sites=names,
        rows=test.rows,
        blocks=test.blocks,
        seed=seed,
        traffic=metered.traffic,
        evidence=Evidence(
            tuple(map(block_moments, blocks_of_both)),
            features=metered.features,
            schema=metered.schema,
        ),
    )
