"""The result of `fedwad.embed`, which can be saved, loaded, clustered, searched and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad import clusters
from fedwad._blas import single_threaded_blas
from fedwad._checks import check_integer, format_value
from fedwad._distance.result import DistanceResult
from fedwad._embedding.groups import kmeans, suggest
from fedwad._embedding.pairs import pair_distance, pair_values, reassign_borders
from fedwad._files import SavedResult
from fedwad._html import data_frame
from fedwad._matrix.result import MatrixRound
from fedwad._words import format_bytes
from fedwad.errors import InputError
from fedwad.federation import SummaryReply, Traffic
from fedwad.ot import Floats
from fedwad.tables import Schema

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["EmbeddedNeighbour", "EmbeddingResult"]

_CANDIDATES_PER_NEIGHBOUR = 10  # sites whose distances are estimated, for each one of the result


@dataclass(frozen=True)
class EmbeddedNeighbour:
    """Another site, the `embedded` distance of the two points, and the estimated distance `value`
    of the two sites.

    `value` is None if the embedding was loaded from a file, which does not hold the sites' cells.
    """

    site: str
    embedded: float
    value: float | None


@dataclass(frozen=True, eq=False)
class EmbeddingResult(SavedResult):
    """One point for each of N sites.

    Attributes
    ----------
    sites : tuple of str
        Names of the sites, in the order of rows.
    embedding : array (N, k)
        Points on their principal axes, the one with the largest variance first.
    explained : float
        Fraction of the variance of all coordinates that the k axes explain.
    noise : array (N,)
        What the sampling of each site's rows adds to its squared distances, measured on synthetic
        samples of some sites. In simulations, the squared distance of the points of two sites of
        one population was 0.9 to 1.3 times the sum of the noise of both.
    rows : tuple of int
        The number of rows of each site.
    options, seed, class_covariance, covariance_types, min_cell_size, traffic, history, failed
        As in MatrixResult.
    replies : tuple
        The cells that the sites sent, from which distances of pairs are estimated; not saved.
    features, schema
        Names of the features, and the schema by which tables were encoded, if known; not saved.
    """

    _format: ClassVar[str] = "fedwad embedding 1"
    _noun: ClassVar[str] = "embedding"
    _unsaved: ClassVar[tuple[str, ...]] = ("replies", "features", "schema")

    sites: tuple[str, ...]
    embedding: Floats
    explained: float
    noise: Floats
    rows: tuple[int, ...]
    options: dict[str, Any]
    seed: int
    class_covariance: str | None = None
    covariance_types: tuple[str, ...] = ()
    min_cell_size: int | None = None
    history: tuple[MatrixRound, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    failed: Mapping[str, str] = field(default_factory=dict)
    replies: tuple[SummaryReply, ...] = ()
    features: tuple[str, ...] | None = None
    schema: Schema | None = None

    def __post_init__(self) -> None:
        index_of = {name: index for index, name in enumerate(self.sites)}
        object.__setattr__(self, "_index_of", index_of)

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        failed = f", without {len(self.failed)}" if self.failed else ""
        return f"<embedding of {len(self)} sites in {self.embedding.shape[1]} dimensions{failed}>"

    def cluster(self, n_clusters: int, seed: int = 0) -> NDArray[np.int64]:
        """Return one label for each site, by k-means on the points.

        A site between two clusters is then assigned to the one to whose central sites it has the
        smaller estimated distances. An embedding that was loaded from a file lacks the cells for
        this step.
        """
        k = check_integer(n_clusters, "n_clusters")
        if k > len(self):
            raise InputError(
                f"{k} clusters were asked for among {len(self)} sites; ask for at most as many."
            )
        with single_threaded_blas():
            labels = kmeans(self.embedding, k, check_integer(seed, "seed", 0))
            if self.replies and k > 1:
                reassigned = reassign_borders(
                    self.embedding, labels, self.replies, self.sites, self.seed
                )
                labels = clusters.in_order(reassigned)
        return labels

    def suggest(self) -> clusters.Suggestion:
        """Suggest a number of clusters from the distances between at most 300 random sites.

        It is 1 if no eigengap is clear; see `fedwad.clusters.suggest`.
        """
        with single_threaded_blas():
            return suggest(self.embedding, self.noise, self.seed)

    def embedded_distance(self, a: str, b: str) -> float:
        """Return the Euclidean distance between the points of two sites."""
        difference = self.embedding[self._index(a)] - self.embedding[self._index(b)]
        return float(np.sqrt(difference @ difference))

    def distance(self, a: str, b: str) -> DistanceResult:
        """Return the estimated distance of two sites with its certified bounds.

        It is computed from the cells that both sites have sent, so no site is asked.
        """
        i, j = self._index(a), self._index(b)
        if i == j:
            raise InputError(f"'{a}' is named twice; name two different sites.")
        if not self.replies:
            raise InputError(
                "This embedding was read from a file, which does not hold what the sites sent;"
                " embed again, or use embedded_distance."
            )
        class_statistics: Any = self.class_covariance or "ignored"
        both = (self.replies[i], self.replies[j])
        with single_threaded_blas():
            return pair_distance(
                both,
                (a, b),
                self.seed,
                class_statistics,
                (self.features, self.schema),
                int(self.options["support"]),
            )

    def nearest(
        self, name: str, count: int = 10, candidates: int | None = None
    ) -> list[EmbeddedNeighbour]:
        """Return the most similar sites, the most similar one first.

        Candidates are the nearest points. Their distances are estimated from the cells, and these
        estimates decide on the order.

        Parameters
        ----------
        name : name of a site
        count : number of neighbours to return
        candidates : number of candidates; ten times `count` when left out
        """
        row = self._index(name)
        count = check_integer(count, "count")
        if candidates is None:
            candidates = _CANDIDATES_PER_NEIGHBOUR * count
        indices = self.candidates(name, max(check_integer(candidates, "candidates"), count))
        embedded = {k: self.embedded_distance(name, self.sites[k]) for k in indices}
        if not self.replies:
            return [EmbeddedNeighbour(self.sites[k], embedded[k], None) for k in indices[:count]]
        with single_threaded_blas():
            values = pair_values(self.replies, self.sites, [(row, k) for k in indices], self.seed)
        order = sorted(indices, key=lambda k: (values[row, k], embedded[k]))[:count]
        return [EmbeddedNeighbour(self.sites[k], embedded[k], values[row, k]) for k in order]

    def candidates(self, name: str, count: int) -> list[int]:
        """Return the indices of the `count` sites with the nearest points, the nearest first."""
        row = self._index(name)
        squares = ((self.embedding - self.embedding[row]) ** 2).sum(axis=1)
        order = np.argsort(squares, kind="stable").tolist()
        return [index for index in order if index != row][: check_integer(count, "count")]

    def to_frame(self) -> pd.DataFrame:
        """Return the points as a pandas DataFrame, one row for each site."""
        return data_frame(self.embedding, index=list(self.sites))

    def plot(
        self, clusters: Sequence[int] | NDArray[np.int64] | None = None, path: Any = None
    ) -> Figure:
        """Draw the sites on the first two axes, and write the picture if a path is given."""
        from fedwad._embedding.plot import draw

        return draw(self, self.check_clusters(clusters), None if path is None else Path(path))

    def check_clusters(self, labels: Any) -> NDArray[np.int64]:
        """Return labels of clusters as an array, zeros for None.

        InputError unless there is one integer for each site.
        """
        if labels is None:
            return np.zeros(len(self), dtype=np.int64)
        try:
            checked = np.asarray(labels, dtype=np.int64)
        except (TypeError, ValueError):
            checked = np.zeros(0, dtype=np.int64)
        if checked.shape != (len(self),):
            raise InputError(
                f"The labels of clusters are not one integer for each of {len(self)} sites."
            )
        return checked

    def _index(self, name: str) -> int:
        index_of: dict[str, int] = self._index_of  # type: ignore[attr-defined]
        if not isinstance(name, str) or name not in index_of:
            first_names = ", ".join(self.sites[:5]) + (", ..." if len(self) > 5 else "")
            raise InputError(
                f"There is no site {format_value(name)} in this embedding; it has {first_names}."
            )
        return index_of[name]

    def _html_rows(self) -> dict[str, str]:
        return {
            "sites": str(len(self)),
            "clusters suggested": str(self.suggest().k),
            "variance on the first two axes": f"{self.on_two_axes:.0%}",
            "sent by the sites": format_bytes(self.traffic.up),
        }

    @property
    def on_two_axes(self) -> float:
        """Fraction of the variance of all coordinates that the first two axes explain."""
        squares = (self.embedding**2).sum(axis=0)
        total = float(squares.sum())
        return self.explained * float(squares[:2].sum()) / total if total else 1.0

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> EmbeddingResult:
        remaining = dict(content)
        result = cls(
            sites=tuple(remaining.pop("sites")),
            embedding=np.array(remaining.pop("embedding"), dtype=np.float64),
            noise=np.array(remaining.pop("noise"), dtype=np.float64),
            rows=tuple(map(int, remaining.pop("rows"))),
            covariance_types=tuple(remaining.pop("covariance_types")),
            history=tuple(MatrixRound(**record) for record in remaining.pop("history")),
            traffic=Traffic(**remaining.pop("traffic")),
            **remaining,
        )
        result._check()
        return result

    def _check(self) -> None:
        size = len({name for name in self.sites if type(name) is str})
        if size != len(self.sites) or len(self.rows) != size or self.noise.shape != (size,):
            raise ValueError("not one entry for each site")
        if self.embedding.ndim != 2 or len(self.embedding) != size:
            raise ValueError("not one point for each site")
        if not (np.isfinite(self.embedding).all() and np.isfinite(self.noise).all()):
            raise ValueError("not finite")
        if type(self.options["support"]) is not int or type(self.explained) is not float:
            raise ValueError("not an integer support, or not a fraction")
