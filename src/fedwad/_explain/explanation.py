"""Why two sites differ: the part of each column, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad._html import data_frame
from fedwad.errors import InputError
from fedwad.ot import Floats

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Dependence", "Explanation"]

_ARRAYS = ("share", "excess", "location", "scale", "rest", "share_std", "excess_std", "significant")


@dataclass(frozen=True)
class Dependence:
    """Two columns whose correlation changed: what it is at both sites, and the score of its change.

    "Here" is the first site, "there" the second. By chance alone the score is the absolute value of
    a standard normal number.
    """

    first: str
    second: str
    here: float
    there: float
    score: float


@dataclass(frozen=True)
class ClassShare:
    """One class of labelled data: its site, and its number there; names of labels are not sent.

    `weight` is its fraction of the rows, `share` its fraction of the squared distance, and `column`
    the column that contributes most to `share`.
    """

    site: str
    number: int
    weight: float
    share: float
    column: str


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why two sites differ.

    Attributes
    ----------
    sites : tuple of two str
        "Here" is the first, "there" the second.
    names, kinds : tuples of K str
        The columns. A category is one column, however many features encode it.
    share : array (K,)
        Part of each column in the squared distance between the samples; sum one, or zeros for the
        same data. In high dimension most of it is sampling noise.
    excess : array (K,)
        Part of each column in the squared distance between the populations, where noise is taken
        away column by column; sum one, or zeros if nothing is left.
    location, scale, rest : arrays (K,)
        Parts of `excess` that are a shift of the mean, a change of spread, and everything else.
        The frequency of a level, of a boolean or of missing values is location.
    share_std, excess_std : arrays (K,)
        Standard errors.
    significant : array (K,) of bool
        Whether a change of the column is more than chance explains.
    here, there : tuples of K mappings
        The column at both sites in its own units: mean, std and the fraction of missing values, or
        the fractions of levels.
    dependence : tuple of Dependence
        Columns whose correlation changed most, if more than chance; `dependence_known` says whether
        correlations could be compared.
    differs : bool or None
        Whether the sites differ by more than chance as a whole; None if unknown.
    notes : tuple of str
        What these sites' summaries cannot show.
    classes : tuple of ClassShare
        Which classes of labelled data contribute most, the largest of each site first; for
        method "summary". Over the classes of one site `share` sums to one.
    """

    sites: tuple[str, str]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    share: Floats
    excess: Floats
    location: Floats
    scale: Floats
    rest: Floats
    share_std: Floats
    excess_std: Floats
    significant: NDArray[np.bool_]
    here: tuple[Mapping[str, float], ...]
    there: tuple[Mapping[str, float], ...]
    dependence: tuple[Dependence, ...] = ()
    dependence_known: bool = False
    differs: bool | None = None
    notes: tuple[str, ...] = ()
    classes: tuple[ClassShare, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explanation) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def order(self) -> tuple[int, ...]:
        """Columns by excess, the largest first, and by share where that is equal."""
        return tuple(np.lexsort((-self.share, -self.excess)).tolist())

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of the columns that changed by more than chance, the largest excess first."""
        return tuple(self.names[k] for k in self.order if self.significant[k])

    @property
    def only_dependence(self) -> bool:
        """Whether correlations changed, and means and spreads make less than half of the excess."""
        by_column = float((self.location + self.scale).sum())
        return bool(self.dependence) and by_column < 0.5 * float(self.excess.sum())

    @property
    def text(self) -> str:
        """One sentence, or a few."""
        from fedwad._explain.text import sentences

        return sentences(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        first, second = self.sites
        causes = ", ".join(self.causes[:3]) or "nothing beyond chance"
        return f"<explanation {first} - {second}: {causes}>"

    def levels(self, name: str) -> list[tuple[str, float, float]]:
        """Levels of a category with their fractions here and there, the most changed first."""
        index = self._index(name)
        if self.kinds[index] != "category":
            raise InputError(f"Column '{name}' is a {self.kinds[index]}; it has no levels.")
        here, there = self.here[index], self.there[index]
        rows = [(level, float(here[level]), float(there[level])) for level in here]
        return sorted(rows, key=lambda row: -abs(row[1] - row[2]))

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"There is no column '{name}'; the columns are {list(self.names)}.")
        return self.names.index(name)

    def records(self) -> list[dict[str, Any]]:
        """One mapping for each column, the largest excess first, as `--json` prints them."""
        records = []
        for k in self.order:
            row: dict[str, Any] = {"name": self.names[k], "kind": self.kinds[k]}
            row |= {name: getattr(self, name)[k].item() for name in _ARRAYS}
            row |= {"here": _nan_to_none(self.here[k]), "there": _nan_to_none(self.there[k])}
            records.append(row)
        return records

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each column, the largest excess first, as a pandas DataFrame."""
        rows = self.records()
        for row in rows:
            here, there = row.pop("here"), row.pop("there")
            for key in ("mean", "std", "missing"):
                row[f"{key}_here"], row[f"{key}_there"] = here.get(key), there.get(key)
        return data_frame(rows).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists."""
        return {
            "sites": list(self.sites),
            "columns": self.records(),
            "dependence": [asdict(one) for one in self.dependence],
            "dependence_known": self.dependence_known,
            "differs": self.differs,
            "notes": list(self.notes),
            "classes": [asdict(one) for one in self.classes],
            "text": self.text,
        }

    def _repr_html_(self) -> str:
        from fedwad._explain.text import html

        return html(self)

    def plot(
        self, path: Any = None, max_columns: int = 15, shape: tuple[int, ...] | None = None
    ) -> Figure:
        """Draw the columns that matter most as bars, or all as an image of this `shape`.

        Parameters
        ----------
        path : a .png, .svg or .pdf file to write, optional
        max_columns : largest number of columns, which are the bars
        shape : of an image whose pixels are the columns: (28, 28), or (32, 32, 3) with channels
        """
        from fedwad._explain.plot import draw

        return draw(self, path, max_columns, shape)


def _nan_to_none(values: Mapping[str, float]) -> dict[str, float | None]:
    return {key: None if value != value else float(value) for key, value in values.items()}
