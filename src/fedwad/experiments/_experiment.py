"""What an experiment is: settings to measure, and figures and judged claims made of the rows.

A row is one measurement: the settings of its task, and what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Claim", "Experiment", "Figures", "Row", "Settings", "has_cuda", "mean_by", "pick"]

Settings = dict[str, Any]
Row = dict[str, Any]
#: Figures by file name without suffix.
Figures = Mapping[str, "Figure"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether it held here (None if these rows cannot tell), and what we
    found."""

    text: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper.

    Parameters
    ----------
    name, title : the name on the command line, and what the experiment shows
    tasks : function of `quick` that returns the settings to measure, fewer and smaller ones if True
    measure : function that takes the settings of one task as keywords and returns its rows
    draw : function of all rows that returns the figures
    judge : function of all rows that returns the paper's claims with verdicts
    data : names of the datasets that the experiment needs, for `fedwad.datasets.load`
    skip_reason : function that takes the settings of a task as keywords and returns why this
        machine does not measure it, or None if it does
    """

    name: str
    title: str
    tasks: Callable[[bool], Sequence[Settings]]
    measure: Callable[..., list[Row]]
    draw: Callable[[Sequence[Row]], Figures]
    judge: Callable[[Sequence[Row]], list[Claim]]
    data: tuple[str, ...] = ()
    skip_reason: Callable[..., str | None] = lambda **_: None


def pick(rows: Sequence[Row], **values: Any) -> list[Row]:
    """The rows that have these values in the columns of these names."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def mean_by(rows: Sequence[Row], x: str, y: str) -> tuple[list[Any], list[float]]:
    """The values of column `x` in ascending order, and the mean of column `y` at each.

    Rows without a value of `y` do not count.
    """
    complete = [row for row in rows if row.get(y) is not None]
    xs = sorted({row[x] for row in complete})
    return xs, [float(np.mean([row[y] for row in complete if row[x] == at])) for at in xs]


def has_cuda() -> bool:
    """Whether PyTorch is installed and finds a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
