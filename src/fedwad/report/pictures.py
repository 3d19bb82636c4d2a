"""Pictures of a distance's convergence, of the demo, and of the eigengap."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._files import write_atomically
from fedwad.clusters import Suggestion
from fedwad.errors import InputError
from fedwad.ot import Floats, Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["convergence", "demo_picture", "eigengap", "rendered"]

_PAPER, _OURS, _EXACT = "#c1440e", "#1f6f8b", "#222222"
_ENDINGS = (".png", ".svg", ".pdf")


def convergence(result: DistanceResult, path: str | Path, exact: float | None = None) -> None:
    """Draw a distance by round: the paper's estimate, our bounds and estimate, the exact value."""
    figure = _figure(6.4, 4.2)
    _draw_convergence(figure.subplots(), result, exact)
    _write(figure, path)


def demo_picture(
    result: DistanceResult,
    summary: DistanceResult,
    exact: float,
    clouds: Mapping[str, Floats],
    supports: Mapping[int, Measure],
    path: str | Path,
) -> None:
    """Left: estimates by round. Right: both clouds and the moving support, in two principal
    directions."""
    figure = _figure(11.5, 4.6)
    left, right = figure.subplots(1, 2)
    _draw_convergence(left, result, exact)
    left.axhline(
        summary.value,
        color=_OURS,
        linestyle=":",
        linewidth=1.6,
        label="our estimate from one message each",
    )
    left.legend(fontsize=8, frameon=False)
    _draw_clouds(right, clouds, supports)
    _write(figure, path)


def eigengap(suggestion: Suggestion, path: str | Path) -> None:
    """Draw the smallest Laplacian eigenvalues: k before the largest gap suggest k clusters."""
    figure = _figure(6.4, 4.2)
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
    _tidy(axes)
    _write(figure, path)


def _figure(width: float, height: float) -> Figure:
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
            exact,
            color=_EXACT,
            linestyle="--",
            linewidth=1.2,
            label="exact (data pooled)",
        )
    axes.set(xlabel="round", ylabel=f"$W_{{{result.p:g}}}$", title="How far apart?")
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False)
    _tidy(axes)


def _draw_clouds(axes: Axes, clouds: Mapping[str, Floats], supports: Mapping[int, Measure]) -> None:
    stacked = np.vstack(list(clouds.values()))
    centre = stacked.mean(axis=0)
    directions = np.linalg.svd(stacked - centre, full_matrices=False)[2][:2].T

    def flat(points: Floats) -> Floats:
        return np.asarray((points - centre) @ directions)

    for (name, cloud), colour in zip(clouds.items(), ("#8fb8de", "#f2b880"), strict=True):
        x, y = flat(cloud).T
        axes.scatter(x, y, s=7, color=colour, label=f"{name}: stays at its site", rasterized=True)
    shades = np.linspace(0.75, 0.0, len(supports))
    for (number, support), shade in zip(supports.items(), shades, strict=True):
        plural = "s" if number > 1 else ""
        x, y = flat(support.points).T
        axes.scatter(
            x,
            y,
            s=16,
            color=str(shade),
            edgecolors="white",
            linewidths=0.4,
            label=f"travelling support after {number} round{plural}",
        )
    axes.set(
        title=f"What travels ({stacked.shape[1]} dimensions, in a plane)",
        xticks=[],
        yticks=[],
    )
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)
    _tidy(axes)


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _write(figure: Figure, path: str | Path) -> None:
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
