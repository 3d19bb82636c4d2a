"""What an experiment is: settings to go through, rows that are measured, pictures and judgements
made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EXACT",
    "OURS",
    "PAPER",
    "Claim",
    "Experiment",
    "Row",
    "Settings",
    "axes",
    "mean_by",
    "pick",
]

Settings = dict[str, Any]
Row = dict[str, Any]

#: The same colours in all pictures: the paper's method, ours, the exact reference.
PAPER, OURS, EXACT = "#c1440e", "#1f6f8b", "#222222"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether it held here (None: these rows cannot tell), and what was
    found."""

    text: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper.

    Parameters
    ----------
    name, title : the word for the command line, and what it shows
    tasks : the settings to go through, fewer and smaller ones when quick; each is measured by
        itself and kept
    measure : rows of one task
    draw : pictures of all rows, by file name without ending
    judge : what the paper claims, held against all rows
    data : names of the datasets that it needs, for `fedwad.datasets.load`
    leaves_out : why a task is not measured on this machine; None where it is
    """

    name: str
    title: str
    tasks: Callable[[bool], Sequence[Settings]]
    measure: Callable[..., list[Row]]
    draw: Callable[[Sequence[Row]], Mapping[str, Figure]]
    judge: Callable[[Sequence[Row]], list[Claim]]
    data: tuple[str, ...] = ()
    leaves_out: Callable[..., str | None] = lambda **_: None


def pick(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def mean_by(rows: Sequence[Row], x: str, y: str) -> tuple[list[Any], list[float]]:
    """The values of column `x` in order, and the mean of column `y` at each."""
    known = [row for row in rows if row.get(y) is not None]
    xs = sorted({row[x] for row in known})
    return xs, [float(np.mean([row[y] for row in known if row[x] == at])) for at in xs]


def axes(
    rows: int = 1, columns: int = 1, width: float = 4.6, height: float = 3.4
) -> tuple[Figure, list[Axes]]:
    """A figure with tidy axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    panels = list(np.ravel(figure.subplots(rows, columns)))
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(True, alpha=0.2)
    return figure, panels
