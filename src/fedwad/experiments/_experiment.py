"""What an experiment is: settings to measure, and figures and judged claims made of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Claim", "Experiment", "Figures", "Row", "Settings", "cuda", "mean_by", "pick"]

Settings = dict[str, Any]
Row = dict[str, Any]
#: Figures by file name without ending.
Figures = Mapping[str, "Figure"]


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
    name, title : the name on the command line, and what the experiment shows
    tasks : the settings to measure, fewer and smaller ones when quick
    measure : the rows of one task, whose settings it takes as keywords
    draw : figures of all rows
    judge : the paper's claims, judged by all rows
    data : names of the datasets that it needs, for `fedwad.datasets.load`
    skip_reason : why a task is not measured on this machine; None where it is
    """

    name: str
    title: str
    tasks: Callable[[bool], Sequence[Settings]]
    measure: Callable[..., list[Row]]
    draw: Callable[[Sequence[Row]], Figures]
    judge: Callable[[Sequence[Row]], list[Claim]]
    data: tuple[str, ...] = ()
    skip_reason: Callable[..., str | None] = lambda **_: None


def pick(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def mean_by(rows: Sequence[Row], x: str, y: str) -> tuple[list[Any], list[float]]:
    """The values of column `x` in order, and the mean of column `y` at each."""
    known = [row for row in rows if row.get(y) is not None]
    xs = sorted({row[x] for row in known})
    return xs, [float(np.mean([row[y] for row in known if row[x] == at])) for at in xs]


def cuda() -> bool:
    """Whether there are PyTorch and a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
