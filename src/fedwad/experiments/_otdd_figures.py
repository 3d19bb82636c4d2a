"""The figures of the experiment on four datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwad.experiments._experiment import EXACT, OURS, PAPER, Row, axes, mean_by, pick
from fedwad.experiments._otdd_rows import (
    COMPARED,
    NAMES,
    compared_settings,
    over_pairs,
    square_matrix,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]


def draw(rows: Sequence[Row]) -> Mapping[str, Figure]:
    return {
        "otdd": _matrices(rows),
        "otdd-ablation": _ablation(rows),
        "otdd-samples": _samples(rows),
    }


def _matrices(rows: Sequence[Row]) -> Figure:
    squares = {
        title: square_matrix(over_pairs(rows, wanted)) for title, wanted in compared_settings(rows)
    }
    figure, panels = axes(1, len(squares), 3.0, 3.0)
    names = [name.replace("fashion_mnist", "fashion").upper() for name in NAMES]
    low, high = (limit(list(squares.values())) for limit in (np.nanmin, np.nanmax))
    for number, (panel, (title, square)) in enumerate(zip(panels, squares.items(), strict=True)):
        panel.grid(False)
        panel.imshow(square, cmap="viridis", vmin=low, vmax=high)
        for i, j in np.argwhere(np.isfinite(square)):
            shade = "white" if square[i, j] < (low + high) / 2 else "black"
            panel.text(
                j, i, f"{square[i, j]:.1f}", ha="center", va="center", fontsize=8, color=shade
            )
        panel.set_title(title, fontsize=8)
        panel.set_xticks(range(4), names, rotation=30, fontsize=7)
        panel.set_yticks(range(4), names if number == 0 else [], fontsize=7)
    return figure


def _ablation(rows: Sequence[Row]) -> Figure:
    figure, panels = axes(1, 2, 5.2, 3.6)
    n = max(row["n"] for row in rows)
    pair, limit = (
        COMPARED[0],
        [row["value"] for row in pick(rows, pair=COMPARED[0], n=n, method="exact", seed=0)],
    )
    (*_, ours) = pick(
        rows, pair=pair, n=n, method="summary", seed=0
    )  # the first one's time has compiling in it
    for panel, part, label in (
        (panels[0], "rounds", "rounds"),
        (panels[1], "support", "support points S"),
    ):
        chosen = pick(rows, part=part)
        panel.plot(*mean_by(chosen, part, "value"), "o-", color=PAPER, label="FedWaD, distance")
        panel.axhline(limit[0], color=EXACT, label="exact, distance")
        panel.axhline(
            ours["value"], color=OURS, linestyle="--", label="ours, one message, distance"
        )
        other = panel.twinx()
        other.plot(
            *mean_by(chosen, part, "seconds"), "s:", color="#999999", label="FedWaD, seconds"
        )
        other.axhline(
            ours["seconds"],
            color=OURS,
            linestyle=":",
            alpha=0.6,
            label="ours, one message, seconds",
        )
        other.set(ylabel="processor seconds (dotted)", yscale="log")
        panel.set(xscale="log", xlabel=label, ylabel=f"distance MNIST - KMNIST, n = {n}")
    lines = [line for axis in (panel, other) for line in axis.get_lines()]
    labels = [str(line.get_label()) for line in lines]
    figure.legend(
        lines, labels, fontsize=7, frameon=False, loc="outside lower center", ncols=len(lines)
    )
    return figure


def _samples(rows: Sequence[Row]) -> Figure:
    figure, panels = axes(1, 2, 5.2, 3.6)
    chosen = pick(rows, part="samples")
    supports = sorted({row["support"] for row in pick(chosen, method="fedwad")})
    ways = [
        ("exact", {"method": "exact"}, EXACT, 1.0),
        ("ours, one message", {"method": "summary"}, OURS, 1.0),
    ]
    ways += [
        (f"FedWaD, S = {s}", {"method": "fedwad", "support": s}, PAPER, shade)
        for s, shade in zip(supports, np.linspace(0.45, 1.0, len(supports)), strict=True)
    ]
    for panel, what in zip(panels, ("value", "seconds"), strict=True):
        for pair, style in zip(COMPARED, ("o-", "s--"), strict=True):
            for title, wanted, colour, shade in ways:
                label = title if pair == COMPARED[0] else None
                xs, values = mean_by(pick(chosen, pair=pair, **wanted), "n", what)
                panel.plot(xs, values, style, color=colour, alpha=shade, markersize=4, label=label)
        panel.set(xscale="log", xlabel="samples n")
        panel.set_title("MNIST - KMNIST, dashed: MNIST - USPS", fontsize=9)
    panels[0].set(ylabel="distance")
    panels[1].set(ylabel="processor seconds", yscale="log")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        fontsize=7,
        frameon=False,
        loc="outside lower center",
        ncols=4,
    )
    return figure
