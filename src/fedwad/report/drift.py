"""A picture of comparisons with a reference over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedwad.report.pictures import new_figure, tidy, write_picture

__all__ = ["drift_history"]

_OURS, _ALARM = "#1f6f8b", "#c1440e"


def drift_history(lines: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw the distances of a history, what chance alone gives, and where drift was found."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    numbers = np.array([line["test"] for line in lines])
    values = np.array([line["value"] for line in lines], dtype=float)
    noise = np.array([line["noise"] for line in lines], dtype=float)
    drift = np.array([bool(line["drift"]) for line in lines])
    axes.fill_between(numbers, 0, noise, color=_OURS, alpha=0.15, label="chance alone")
    axes.plot(numbers, values, "o-", color=_OURS, label="distance from the reference")
    axes.plot(numbers[drift], values[drift], "o", color=_ALARM, label="drift")
    axes.set(xlabel="comparison", ylabel="distance", title="Drift since the reference")
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False)
    tidy(axes)
    write_picture(figure, path)
