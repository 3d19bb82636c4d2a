"""Pictures of a distance by round, of the eigengap, and of drift over time."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._files import write_atomically
from fedwad.clusters import Suggestion
from fedwad.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "convergence",
    "drift_history",
    "eigengap",
    "new_figure",
    "render",
    "write_chart",
    "write_picture",
]

_RUST, _BLUE, _BLACK = "#c1440e", "#1f6f8b", "#222222"
_ENDINGS = (".png", ".svg", ".pdf")
_NO_DATES = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # metadata for `savefig`


def convergence(result: DistanceResult, path: str | Path, exact: float | None = None) -> None:
    """Draw a distance by round: the paper's estimate, our bounds and estimate, the exact value."""
    axes = new_figure(6.4, 4.2).subplots()
    rounds = np.array([record.number for record in result.history])
    for name, label, colour in (
        ("fedwad", "FedWaD, the paper's estimate", _RUST),
        ("upper", "certified upper bound", _BLUE),
    ):
        values = np.array([getattr(record, name) for record in result.history], dtype=float)
        finite = np.isfinite(values)
        axes.plot(rounds[finite], values[finite], "o-", markersize=3, color=colour, label=label)
    axes.axhspan(
        result.lower, result.upper, color=_BLUE, alpha=0.08, label="certified interval at the end"
    )
    axes.axhline(result.value, color=_BLUE, linewidth=1.2, label="our estimate")
    if exact is not None:
        axes.axhline(
            exact, color=_BLACK, linestyle="--", linewidth=1.2, label="exact (data pooled)"
        )
    axes.set(xlabel="round", ylabel=f"$W_{{{result.p:g}}}$", title="How far apart?")
    write_chart(axes, path)


def eigengap(suggestion: Suggestion, path: str | Path) -> None:
    """Draw the smallest Laplacian eigenvalues; k before the largest gap suggest k clusters."""
    axes = new_figure(6.4, 4.2).subplots()
    numbers = np.arange(1, len(suggestion.eigenvalues) + 1)
    is_before_gap = numbers <= suggestion.k
    axes.plot(
        numbers[is_before_gap],
        suggestion.eigenvalues[is_before_gap],
        "o",
        color=_BLUE,
        label=f"before the gap: {suggestion.k}",
    )
    axes.plot(
        numbers[~is_before_gap],
        suggestion.eigenvalues[~is_before_gap],
        "o",
        color=_RUST,
        label="after it",
    )
    axes.axvline(suggestion.k + 0.5, color=_BLACK, linestyle="--", linewidth=1)
    axes.set(
        xlabel="number", ylabel="eigenvalue of the normalised Laplacian", title="How many clusters?"
    )
    write_chart(axes, path)


def drift_history(entries: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw the distances of a history, what chance alone gives, and where drift was found.

    `entries` are the comparisons that `Reference.history` returns.
    """
    axes = new_figure(6.4, 4.2).subplots()
    numbers = np.array([entry["test"] for entry in entries])
    values = np.array([entry["value"] for entry in entries], dtype=float)
    noise = np.array([entry["noise"] for entry in entries], dtype=float)
    drift = np.array([bool(entry["drift"]) for entry in entries])
    axes.fill_between(numbers, 0, noise, color=_BLUE, alpha=0.15, label="chance alone")
    axes.plot(numbers, values, "o-", color=_BLUE, label="distance from the reference")
    axes.plot(numbers[drift], values[drift], "o", color=_RUST, label="drift")
    axes.set(xlabel="comparison number", ylabel="distance", title="Drift since the reference")
    axes.set_ylim(bottom=0)
    write_chart(axes, path)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write_chart(axes: Axes, path: str | Path, *, integer_x: bool = True) -> None:
    """Add a legend, remove the frame at the top and on the right, and write the figure."""
    if integer_x:
        axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    write_picture(cast("Figure", axes.figure), path)


def write_picture(figure: Figure, path: str | Path) -> None:
    """Write the figure in the format that the ending of the path names."""
    path = Path(path)
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"{path} ends in '{path.suffix}'; pictures can be written as {' '.join(_ENDINGS)}."
        )
    write_atomically(path, render(figure, path.suffix.lower().lstrip(".")))


def render(figure: Figure, ending: str, dpi: int = 150) -> bytes:
    """The figure in the format of a file ending such as "png".

    Equal figures give equal bytes: there is no date and no random id.
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "fedwad"}):
        figure.savefig(buffer, format=ending, dpi=dpi, metadata=_NO_DATES.get(ending))
    return buffer.getvalue()
