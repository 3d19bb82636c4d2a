"""What the figures of all experiments share: colours, axes, curves of means and legends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.experiments._experiment import Row, mean_by
from fedwad.ot import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXACT", "OURS", "PAPER", "axes", "legend_below", "plot_means", "square_matrix"]

#: The same colours in all figures: the paper's method, ours, the exact reference.
PAPER, OURS, EXACT = "#c1440e", "#1f6f8b", "#222222"


def axes(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure, and its panels row by row; width and height are of one panel, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    panels = list(np.ravel(figure.subplots(rows, columns)))
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(True, alpha=0.2)
    return figure, panels


def plot_means(
    panel: Axes, rows: Sequence[Row], x: str, y: str, style: str, **options: Any
) -> None:
    """Plot the mean of column `y` at each value of column `x`."""
    panel.plot(*mean_by(rows, x, y), style, **options)


def legend_below(figure: Figure, curves: Any, columns: int, fontsize: int = 8) -> None:
    """Put one legend for these curves below all panels."""
    options: dict[str, Any] = {"ncols": columns, "fontsize": fontsize, "frameon": False}
    figure.legend(handles=curves, loc="outside lower center", **options)


def square_matrix(values: Sequence[float] | Floats, size: int) -> Floats:
    """The symmetric matrix of all pairs; its diagonal is NaN, so figures leave it blank."""
    square = np.full((size, size), np.nan)
    above = np.triu_indices(size, 1)
    square[above] = square.T[above] = values
    return square
