"""What the figures of all experiments share: colours, panels, curves of means and legends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.experiments._experiment import Row, mean_by
from fedwad.ot import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EXACT_COLOUR",
    "OUR_COLOUR",
    "PAPER_COLOUR",
    "legend_below",
    "plot_means",
    "square_matrix",
    "subplots",
]

#: In all figures: the paper's method, ours, the exact distance.
PAPER_COLOUR, OUR_COLOUR, EXACT_COLOUR = "#c1440e", "#1f6f8b", "#222222"


def subplots(rows: int, columns: int, panel_size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure, and its panels row by row; the size of a panel is (width, height) in inches."""
    from matplotlib.figure import Figure

    width, height = panel_size
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
    """The symmetric matrix with these values above its diagonal, row by row.

    The diagonal is NaN, so figures leave it blank.
    """
    square = np.full((size, size), np.nan)
    above_diagonal = np.triu_indices(size, 1)
    square[above_diagonal] = square.T[above_diagonal] = values
    return square
