"""The picture of an embedding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedwad._explain.plot import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedwad._embedding.result import EmbeddingResult

__all__ = ["draw", "plane"]

_MAX_NAMED = 30  # sites up to which names are written


def plane(result: EmbeddingResult) -> NDArray[np.float64]:
    """Return the first two coordinates of each site, (N, 2); the second is 0 if there is one."""
    points = np.zeros((len(result), 2))
    width = min(2, result.embedding.shape[1])
    points[:, :width] = result.embedding[:, :width]
    return points


def draw(result: EmbeddingResult, labels: NDArray[np.int64], path: Path | None) -> Figure:
    """Draw the sites on the first two axes, coloured by cluster, and write the figure if `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.subplots()
    points = plane(result)
    size = float(np.clip(4000 / len(result), 2, 36))
    for k in np.unique(labels):
        members = points[labels == k]
        axes.scatter(members[:, 0], members[:, 1], s=size, label=f"cluster {k + 1}", linewidths=0)
    if len(result) <= _MAX_NAMED:
        for name, (x, y) in zip(result.sites, points, strict=True):
            axes.annotate(name, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=7)
    if 1 < len(np.unique(labels)) <= 20:
        axes.legend(fontsize=8, frameon=False)
    axes.set_aspect("equal")
    axes.set(title=f"{len(result)} sites; the plane holds {result.on_two_axes:.0%} of the variance")
    axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        write_figure(figure, path)
    return figure
