"""The figures of the experiment `otdd`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.experiments._experiment import Figures, Row, pick
from fedwad.experiments._otdd_rows import COMPARED, NAMES, compared_settings, mean_by_pair
from fedwad.experiments._plots import (
    EXACT_COLOUR,
    OUR_COLOUR,
    PAPER_COLOUR,
    legend_below,
    plot_means,
    square_matrix,
    subplots,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]


def draw(rows: Sequence[Row]) -> Figures:
    return {
        "otdd": _matrices(rows),
        "otdd-ablation": _ablation(rows),
        "otdd-samples": _samples(rows),
    }


def _matrices(rows: Sequence[Row]) -> Figure:
    squares = {
        title: square_matrix(mean_by_pair(rows, setting), 4)
        for title, setting in compared_settings(rows)
    }
    figure, panels = subplots(1, len(squares), panel_size=(3.0, 3.0))
    names = [name.replace("fashion_mnist", "fashion").upper() for name in NAMES]
    low, high = (limit(list(squares.values())) for limit in (np.nanmin, np.nanmax))
    for panel, (title, square) in zip(panels, squares.items(), strict=True):
        panel.grid(False)
        panel.imshow(square, cmap="viridis", vmin=low, vmax=high)
        for i, j in np.argwhere(np.isfinite(square)):
            shade = "white" if square[i, j] < (low + high) / 2 else "black"
            place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
            panel.text(j, i, f"{square[i, j]:.1f}", color=shade, **place)
        panel.set_title(title, fontsize=8)
        panel.set_xticks(range(4), names, rotation=30, fontsize=7)
        panel.set_yticks(range(4), names if panel is panels[0] else [], fontsize=7)
    return figure


def _ablation(rows: Sequence[Row]) -> Figure:
    figure, panels = subplots(1, 2, panel_size=(5.2, 3.6))
    n = max(row["n"] for row in rows)
    first = pick(rows, pair=COMPARED[0], n=n, seed=0)
    exact = pick(first, method="exact")[0]
    ours = pick(first, method="summary")[-1]  # the time of the first includes compilation
    ours_seconds: dict[str, Any] = {"color": OUR_COLOUR, "linestyle": ":", "alpha": 0.6}
    for panel, part, label in (
        (panels[0], "rounds", "rounds"),
        (panels[1], "support", "support points S"),
    ):
        chosen = pick(rows, part=part)
        plot_means(panel, chosen, part, "value", "o-", color=PAPER_COLOUR, label="FedWaD, distance")
        panel.axhline(exact["value"], color=EXACT_COLOUR, label="exact, distance")
        words = "ours, one message, distance"
        panel.axhline(ours["value"], color=OUR_COLOUR, linestyle="--", label=words)
        other = panel.twinx()
        plot_means(other, chosen, part, "seconds", "s:", color="#999999", label="FedWaD, seconds")
        other.axhline(ours["seconds"], **ours_seconds, label="ours, one message, seconds")
        other.set(ylabel="processor seconds (dotted)", yscale="log")
        panel.set(xscale="log", xlabel=label, ylabel=f"distance MNIST - KMNIST, n = {n}")
    lines = [*panel.get_lines(), *other.get_lines()]
    legend_below(figure, lines, len(lines), fontsize=7)
    return figure


def _samples(rows: Sequence[Row]) -> Figure:
    figure, panels = subplots(1, 2, panel_size=(5.2, 3.6))
    chosen = pick(rows, part="samples")
    supports = sorted({row["support"] for row in pick(chosen, method="fedwad")})
    curves = [
        ("exact", {"method": "exact"}, EXACT_COLOUR, 1.0),
        ("ours, one message", {"method": "summary"}, OUR_COLOUR, 1.0),
    ]
    curves += [
        (f"FedWaD, S = {s}", {"method": "fedwad", "support": s}, PAPER_COLOUR, shade)
        for s, shade in zip(supports, np.linspace(0.45, 1.0, len(supports)), strict=True)
    ]
    for panel, column in zip(panels, ("value", "seconds"), strict=True):
        for pair, style in zip(COMPARED, ("o-", "s--"), strict=True):
            for title, setting, colour, shade in curves:
                label = title if pair == COMPARED[0] else None
                marks = {"color": colour, "alpha": shade, "markersize": 4, "label": label}
                plot_means(panel, pick(chosen, pair=pair, **setting), "n", column, style, **marks)
        panel.set(xscale="log", xlabel="samples n")
        panel.set_title("MNIST - KMNIST, dashed: MNIST - USPS", fontsize=9)
    panels[0].set(ylabel="distance")
    panels[1].set(ylabel="processor seconds", yscale="log")
    legend_below(figure, panels[0].get_legend_handles_labels()[0], 4, fontsize=7)
    return figure
