"""Error against messages: the paper's estimate after each number of rounds, and ours from the same
and from one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fedwad

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDS, SUPPORTS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20), (10, 100)

#: Ink, faint ink, the paper's colour and ours, readable on a white and on a nearly black page.
THEMES = {
    "": ("#1f2328", "#6e7781", "#b3400b", "#12657f"),
    "-dark": ("#e6edf3", "#9198a1", "#ff9a5c", "#4cc3e0"),
}


def measure() -> list[dict[str, Any]]:
    """Handwritten digits, 0-4 at one site and 5-9 at the other; relative errors to the exact
    distance."""
    images, labels = fedwad.datasets.load("digits")
    x, y = images[labels < 5], images[labels >= 5]
    exact = fedwad.wasserstein(x, y)
    asked = [{"method": "summary", "cells": 10}]
    asked += [{"method": "fedwad", "support": S, "rounds": k} for S in SUPPORTS for k in ROUNDS]
    rows = []
    for options in asked:
        result = fedwad.distance(x, y, **options)
        rows.append(
            {
                "method": options["method"],
                "S": options.get("support", options.get("cells")),
                "messages each": result.traffic.messages // 2,
                "kB each": result.traffic.up / 2000,
                "paper": float("nan") if result.fedwad is None else result.fedwad / exact - 1,
                "lower": result.lower / exact - 1,
                "value": result.value / exact - 1,
                "upper": result.upper / exact - 1,
            }
        )
    return rows


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """The picture of the README: one file for light pages, one whose name ends in -dark for dark
    ones."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    for ending, theme in THEMES.items():
        with mpl.rc_context({"font.size": 13, "svg.hashsalt": "fedwad"}):
            figure = Figure(figsize=(7.2, 4.4), layout="constrained")
            _draw(figure.subplots(), rows, *theme)
            file = Path(path)
            figure.savefig(
                file.with_stem(file.stem + ending), transparent=True, metadata={"Date": None}
            )


def _draw(
    axes: Axes, rows: list[dict[str, Any]], ink: str, faint: str, paper: str, ours: str
) -> None:
    def curve(S: int, what: str) -> tuple[list[float], list[float]]:
        chosen = [row for row in rows if row["method"] == "fedwad" and row["S"] == S]
        return [row["messages each"] for row in chosen], [100 * row[what] for row in chosen]

    (one,) = [row for row in rows if row["method"] == "summary"]
    end = max(row["messages each"] for row in rows)
    axes.axhline(0, color=ink, linewidth=1)
    for S, alpha in zip(SUPPORTS, (0.7, 1.0), strict=True):
        x, y = curve(S, "paper")
        axes.plot(x, y, "o-", color=paper, alpha=alpha, markersize=4)
        axes.text(
            end,
            y[-1] + 4.5,
            f"the paper's, {S} points travel: {y[-1]:+.0f}%",
            color=paper,
            ha="right",
        )
    x, y = curve(S, "value")
    axes.plot(x, y, "o-", color=ours, markersize=4)
    axes.text(
        end, -4, f"ours from the same messages: {y[-1]:+.1f}%", color=ours, ha="right", va="top"
    )
    reach = [[100 * (one["value"] - one["lower"])], [100 * (one["upper"] - one["value"])]]
    axes.errorbar(
        [1],
        [100 * one["value"]],
        reach,
        fmt="o",
        color=ours,
        markersize=10,
        capsize=5,
        elinewidth=1.5,
    )
    note = f"ours from ONE message: {100 * one['value']:+.1f}%\n(bar: proven to lie in it)"
    axes.text(1.6, -19, note, color=ours, va="top", weight="bold")
    most = max(row["kB each"] for row in rows)
    axes.set_xlabel(
        f"messages from each site (1: {one['kB each']:.0f} kB, {end}: up to {most:.0f} kB)"
    )
    axes.set_ylabel("error of the distance")
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.0f}%" if value else "exact")
    axes.set_xlim(0, end + 0.5)
    axes.grid(axis="y", color=faint, alpha=0.25)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(faint)
    axes.tick_params(colors=faint, length=0)
    axes.xaxis.label.set_color(faint)
    axes.yaxis.label.set_color(faint)
