"""The answer to `fedwad.matrix`: saved, loaded, clustered, and searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad import clusters
from fedwad._checks import check_whole
from fedwad._files import Saved
from fedwad.errors import InputError
from fedwad.federation import Traffic
from fedwad.ot import Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MatrixResult", "MatrixRound", "Neighbour"]

_TABLES = ("value", "lower", "upper", "fedwad")


@dataclass(frozen=True)
class MatrixRound:
    """One round of method "hub" or "pairs": its length, and how far the supports moved in it (root
    mean square)."""

    number: int
    seconds: float
    shift: float


@dataclass(frozen=True)
class Neighbour:
    """A client, its estimated distance and the certified interval."""

    id: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class MatrixResult(Saved):
    """All distances between N clients, with their intervals and their price.

    Attributes
    ----------
    sites : tuple of str
        Names of the clients, in the order of rows and columns.
    value : array (N, N)
        Estimates, symmetric, zero on the diagonal.
    lower, upper : arrays (N, N)
        Certified bounds, given honest clients and up to rounding (1e-9 relative).
    fedwad : array (N, N) or None
        The paper's estimates, for method "pairs".
    privacy : dict or None With differential privacy the promise of each client's release; `lower`
        and `upper` are then no certificate, see DistanceResult.
    lost : mapping
        Clients that did not answer, each with the reason; they are not among `sites`.
    history, traffic, smallest, forms
        As in DistanceResult.
    """

    _format: ClassVar[str] = "fedwad matrix 1"
    _noun: ClassVar[str] = "matrix"

    sites: tuple[str, ...]
    value: Floats
    lower: Floats
    upper: Floats
    method: str
    support: int
    rounds: int
    seed: int
    labels: bool = False
    covariance: str = "diag"
    p: float = 2.0
    fedwad: Floats | None = None
    history: tuple[MatrixRound, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    min_cell_size: int | None = None
    covariance_types: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    privacy: dict[str, Any] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixResult) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.sites)

    def __repr__(self) -> str:
        what = "dataset distances" if self.labels else f"W{self.p:g} distances"
        lost = f", without {', '.join(self.lost)}" if self.lost else ""
        private = "" if self.privacy is None else f", epsilon {self.privacy['epsilon']:g}"
        return f"<{what} between {len(self)} clients, method {self.method}{private}{lost}>"

    @property
    def certified(self) -> bool:
        """Whether `lower` and `upper` are proven, given honest clients. Nothing is proven about
        noisy numbers."""
        return self.privacy is None

    def cluster(
        self,
        k: int,
        affinity: clusters.Affinity = "linear",
        n_neighbors: int = 3,
        seed: int = 0,
    ) -> NDArray[np.int64]:
        """One label for each client, by spectral clustering; see `fedwad.clusters.cluster`."""
        return clusters.cluster(self.value, k, affinity, n_neighbors, seed)

    def suggest(self) -> clusters.Suggestion:
        """How many clusters there seem to be; see `fedwad.clusters.suggest`."""
        return clusters.suggest(self.value)

    def stability(
        self,
        k: int,
        affinity: clusters.Affinity = "linear",
        n_neighbors: int = 3,
        draws: int = 20,
        noise: float = 0.05,
        seed: int = 0,
    ) -> float:
        """How well the clusters survive errors in the distances, 1 for perfectly; see
        `fedwad.clusters.stability`."""
        return clusters.stability(self.value, k, affinity, n_neighbors, draws, noise, seed)

    def nearest(self, name: str, count: int | None = None) -> list[Neighbour]:
        """The other clients, most alike first: whose data to train with, or to start from."""
        if name not in self.sites:
            raise InputError(
                f"There is no client '{name}' in this matrix; it has {', '.join(self.sites)}."
            )
        row = self.sites.index(name)
        order = [i for i in np.argsort(self.value[row], kind="stable").tolist() if i != row]
        if count is not None:
            order = order[: check_whole(count, "count")]
        tables = (self.value, self.lower, self.upper)
        return [
            Neighbour(self.sites[i], *(float(table[row, i]) for table in tables)) for i in order
        ]

    def to_frame(self, which: Literal["value", "lower", "upper"] = "value") -> pd.DataFrame:
        """One of the matrices as a pandas DataFrame with the names of clients (needs pandas)."""
        if which not in _TABLES or getattr(self, which) is None:
            raise InputError(f"There is no table {which!r}; choose 'value', 'lower' or 'upper'.")
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas; run: pip install pandas.") from None
        return pd.DataFrame(getattr(self, which), index=list(self.sites), columns=list(self.sites))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists: what --json prints and `save` writes."""
        names = (
            "method",
            "support",
            "rounds",
            "seed",
            "labels",
            "covariance",
            "p",
            "min_cell_size",
            "privacy",
        )
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content |= {
            "sites": list(self.sites),
            "covariance_types": list(self.covariance_types),
            "lost": dict(self.lost),
        }
        content |= {
            name: None if (table := getattr(self, name)) is None else table.tolist()
            for name in _TABLES
        }
        content["traffic"] = asdict(self.traffic)
        content["history"] = [asdict(record) for record in self.history]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> MatrixResult:
        """What `to_dict` gave; InputError if it is something else."""
        try:
            found = dict(content)
            tables: dict[str, Any] = {name: found.pop(name) for name in _TABLES}
            for name, table in tables.items():
                tables[name] = None if table is None else np.array(table, dtype=np.float64)
            if type(found["sites"]) is not list:
                raise TypeError("not a list of names")
            result = cls(
                sites=tuple(found.pop("sites")),
                covariance_types=tuple(found.pop("covariance_types")),
                traffic=Traffic(**found.pop("traffic")),
                history=tuple(MatrixRound(**record) for record in found.pop("history")),
                **tables,
                **found,
            )
            size = len(set(result.sites))
            known = [
                table
                for table in (result.value, result.lower, result.upper, result.fedwad)
                if table is not None
            ]
            if size != len(result.sites) or not all(type(name) is str for name in result.sites):
                raise ValueError("not names")
            if len(known) < 3 or not all(table.shape == (size, size) for table in known):
                raise ValueError("not square")
            if not ((result.lower <= result.value) & (result.value <= result.upper)).all():
                raise ValueError("not a result of matrix()")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "These are not the parts of a matrix; some are missing or were changed."
            ) from None
        return result
