"""Pictures of an explanation."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._checks import check_integer, format_value
from fedwad._explain.text import change_in_words
from fedwad._files import write_atomically
from fedwad.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedwad._explain.explanation import Explanation

__all__ = ["draw", "write_figure"]

# Kinds of files, each with what leaves its date out, so that the same figure gives the same file.
_NO_DATES: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_COLOURS = {"location": "#1f6f8b", "scale": "#e0a458", "rest": "#7a5195"}
_LABELS = {"location": "mean or frequency", "scale": "spread", "rest": "rest"}
_GREY = "#bbbbbb"


def draw(e: Explanation, path: Any, max_columns: int, shape: tuple[int, ...] | None) -> Figure:
    """Bars of the columns with the largest excess or, with a shape, images of all columns.

    The figure is written to `path` if there is one.
    """
    from matplotlib.figure import Figure

    shown = e.order[: check_integer(max_columns, "max_columns")]
    height = 3.6 if shape is not None else 1.2 + 0.32 * len(shown)
    figure = Figure(figsize=(7.2, height), layout="constrained")
    if shape is None:
        _draw_bars(figure, e, shown)
    else:
        _draw_images(figure, e, shape)
    if path is not None:
        write_figure(figure, path)
    return figure


def _draw_bars(figure: Figure, e: Explanation, shown: tuple[int, ...]) -> None:
    axes = figure.subplots()
    rows = np.arange(len(shown))[::-1]
    any_excess = bool(e.excess.any())
    start = np.zeros(len(shown))
    for part, colour in _COLOURS.items() if any_excess else ():
        widths = getattr(e, part)[list(shown)]
        axes.barh(rows, widths, left=start, color=colour, label=_LABELS[part])
        start = start + widths
    if any_excess:
        errors = e.excess_std[list(shown)]
        axes.errorbar(start, rows, xerr=errors, fmt="none", ecolor="#444444", elinewidth=1)
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    else:
        axes.barh(rows, e.share[list(shown)], color=_GREY)
    axes.set_yticks(rows, [e.names[k] for k in shown], fontsize=8)
    for label, k in zip(axes.get_yticklabels(), shown, strict=True):
        label.set_color("#000000" if e.significant[k] else "#888888")
    for row, end, k in zip(rows, start, shown, strict=True):
        words = change_in_words(e, k) if e.significant[k] else ""
        axes.annotate(f"  {words}", (end + e.excess_std[k], row), va="center", fontsize=7)
    what = "the excess" if any_excess else "the squared distance between samples (all within noise)"
    axes.set(xlabel=f"part of {what}", title=f"{e.sites[0]} and {e.sites[1]}")
    axes.set_xlim(0, 1.05 * max(float(start.max()), float(e.share.max()), 0.01) + 0.3 * any_excess)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_images(figure: Figure, e: Explanation, shape: tuple[int, ...]) -> None:
    try:
        rows, cols, *channels = (check_integer(size, "shape") for size in shape)
    except (TypeError, ValueError):
        given = repr(shape) if isinstance(shape, tuple) else format_value(shape)
        raise InputError(f"shape is {given}; give rows and columns, such as (28, 28).") from None
    if len(channels) > 1 or math.prod((rows, cols, *channels)) != len(e):
        raise InputError(
            f"shape is {tuple(shape)} and there are {len(e)} columns; give the image's own shape."
        )
    for axes, (title, values) in zip(
        figure.subplots(1, 2), (("excess", e.excess), ("share", e.share)), strict=True
    ):
        pixels = values.reshape(rows, cols, -1).sum(axis=2)
        image = axes.imshow(pixels, cmap="magma", vmin=0)
        axes.set(title=title, xticks=[], yticks=[])
        figure.colorbar(image, ax=axes, shrink=0.8)
    figure.suptitle(f"{e.sites[0]} and {e.sites[1]}", fontsize=10)


def write_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf; the same figure gives the same file."""
    from matplotlib import rc_context

    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _NO_DATES:
        raise InputError(
            f"{target} ends in '{target.suffix}'; pictures can be written as {' '.join(_NO_DATES)}."
        )
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "fedwad"}):
        figure.savefig(buffer, format=ending.lstrip("."), dpi=150, metadata=_NO_DATES[ending])
    write_atomically(target, buffer.getvalue())
