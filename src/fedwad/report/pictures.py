"""Pictures of a distance's convergence and of the eigengap."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._files import write_atomically
from fedwad.clusters import Suggestion
from fedwad.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["convergence", "eigengap", "new_figure", "rendered", "tidy", "write_picture"]

_PAPER, _OURS, _EXACT = "#c1440e", "#1f6f8b", "#222222"
_ENDINGS = (".png", ".svg", ".pdf")


def convergence(result: DistanceResult, path: str | Path, exact: float | None = None) -> None:
    """Draw a distance by round: the paper's estimate, our bounds and estimate, the exact value."""
    figure = new_figure(6.4, 4.2)
    _draw_convergence(figure.subplots(), result, exact)
    write_picture(figure, path)


def eigengap(suggestion: Suggestion, path: str | Path) -> None:
    """Draw the smallest Laplacian eigenvalues: k before the largest gap suggest k clusters."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    numbers = np.arange(1, len(suggestion.eigenvalues) + 1)
    inside = numbers <= suggestion.k
    axes.plot(
        numbers[inside],
        suggestion.eigenvalues[inside],
        "o",
        color=_OURS,
        label=f"before the gap: {suggestion.k}",
    )
    axes.plot(
        numbers[~inside], suggestion.eigenvalues[~inside], "o", color=_PAPER, label="after it"
    )
    axes.axvline(suggestion.k + 0.5, color=_EXACT, linestyle="--", linewidth=1)
    axes.set(
        xlabel="number", ylabel="eigenvalue of the normalised Laplacian", title="How many clusters?"
    )
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False)
    tidy(axes)
    write_picture(figure, path)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _draw_convergence(axes: Axes, result: DistanceResult, exact: float | None) -> None:
    rounds = np.array([record.number for record in result.history])
    for name, label, colour in (
        ("fedwad", "FedWaD, the paper's estimate", _PAPER),
        ("upper", "certified upper bound", _OURS),
    ):
        values = np.array([getattr(record, name) for record in result.history], dtype=float)
        known = np.isfinite(values)
        axes.plot(rounds[known], values[known], "o-", markersize=3, color=colour, label=label)
    axes.axhspan(
        result.lower, result.upper, color=_OURS, alpha=0.08, label="certified interval at the end"
    )
    axes.axhline(result.value, color=_OURS, linewidth=1.2, label="our estimate")
    if exact is not None:
        axes.axhline(
            exact, color=_EXACT, linestyle="--", linewidth=1.2, label="exact (data pooled)"
        )
    axes.set(xlabel="round", ylabel=f"$W_{{{result.p:g}}}$", title="How far apart?")
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False)
    tidy(axes)


def tidy(axes: Axes) -> None:
    """Remove the frame at the top and on the right."""
    axes.spines[["top", "right"]].set_visible(False)


def write_picture(figure: Figure, path: str | Path) -> None:
    """Write the figure; InputError for an unknown ending."""
    path = Path(path)
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"{path} ends in '{path.suffix}'; pictures can be written as {' '.join(_ENDINGS)}."
        )
    write_atomically(path, rendered(figure, path.suffix.lower().lstrip(".")))


def rendered(figure: Figure, ending: str, dpi: int = 150) -> bytes:
    """The figure in a file format; equal figures give equal bytes: no date, no random ids."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"Date": None}} if ending == "svg" else {}
    with rc_context({"svg.hashsalt": "fedwad"}):
        figure.savefig(buffer, format=ending, dpi=dpi, **options)
    return buffer.getvalue()
