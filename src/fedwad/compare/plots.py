"""Pictures of distances, Table 1, explanations and embeddings."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer, format_value
from fedwad._files import new_figure, write_atomically
from fedwad.compare.explanation import change_in_words
from fedwad.compare.shown import ShownMatrix
from fedwad.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedwad.compare.embedding import EmbeddingResult
    from fedwad.compare.explanation import Explanation
    from fedwad.compare.results import DistanceResult, MatrixResult
    from fedwad.compare.table_one import ColumnsResult


# Kinds of files, each with what leaves its date out, so that the same figure gives the same file.
_NO_DATES: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
COLOUR, _GREY = "#0b6585", "#bbbbbb"  # the first as on pages


def draw_explanation(
    e: Explanation, path: Any, max_columns: int, shape: tuple[int, ...] | None
) -> Figure:
    """Bars of the columns with the largest share or, with a shape, images of all columns.

    The figure is written to `path` if there is one.
    """
    shown = e.order[: check_integer(max_columns, "max_columns")]
    figure = new_figure(7.2, 1.2 + 0.32 * len(shown) if shape is None else 3.6)
    if shape is not None:
        _draw_images(figure, e, shape)
        return written(figure, path)
    axes = figure.subplots()
    rows = np.arange(len(shown))[::-1]
    share = np.nan_to_num(e.share[list(shown)])
    causes = [e.names[k] in e.causes for k in shown]
    axes.barh(rows, share, color=[COLOUR if cause else _GREY for cause in causes])
    axes.set_yticks(rows, [e.names[k] for k in shown], fontsize=8)
    for label, cause in zip(axes.get_yticklabels(), causes, strict=True):
        label.set_color("#000000" if cause else "#888888")
    for row, end, k, cause in zip(rows, share, shown, causes, strict=True):
        words = f"{change_in_words(e, k)}, p = {e.pvalue[k]:.2g}" if cause else ""
        axes.annotate(f"  {words}", (end, row), va="center", fontsize=7)
    axes.set(
        xlabel="part of the squared distance between the populations",
        title=f"{e.sites[0]} and {e.sites[1]}",
    )
    axes.set_xlim(0, 1.05 * max(float(share.max()), 0.01) + 0.3 * any(causes))
    return written(figure, path)


def draw_columns(t: ColumnsResult, path: Any) -> Figure:
    """A histogram or bars of levels for each column and site, the smallest p-value on top.

    Columns of which no site publishes anything are left out; the figure is written to `path` if
    there is one.
    """
    shown = [(k, bars) for k in t.order if (bars := t.columns[k].bars()) is not None]
    if not shown:
        raise InputError(
            "The sites publish no column that could be drawn; ask for more rows.", "bad-option"
        )
    figure = new_figure(1.6 + 1.8 * len(t.sites), 0.6 + 1.1 * len(shown))
    grid = figure.subplots(len(shown), len(t.sites), squeeze=False)
    for row, (k, bars) in zip(grid, shown, strict=True):
        top = max(float(np.max(one)) for one in bars.fractions if one is not None)
        for axes, fractions, site in zip(row, bars.fractions, t.sites, strict=True):
            axes.set(xticks=[], yticks=[])
            axes.spines["left"].set_visible(False)
            if fractions is None:
                axes.text(0.5, 0.5, "withheld", ha="center", va="center", fontsize=7)
                axes.set(xlim=(0, 1), ylim=(0, 1))
            else:
                axes.bar(np.arange(len(fractions)), fractions, width=0.95, color=COLOUR)
                axes.set(xlim=(-0.6, len(fractions) - 0.4), ylim=(0, 1.05 * top))
                ends = [0, len(fractions) - 1] if len(fractions) > 6 else range(len(fractions))
                axes.set_xticks(list(ends), [bars.labels[place] for place in ends])
                axes.tick_params(labelsize=6, length=0)
            if axes in grid[0]:
                axes.set_title(site, fontsize=8)
        row[0].set_ylabel(t.names[k], fontsize=8, rotation=0, ha="right", va="center")
    return written(figure, path)


def draw_distance(r: DistanceResult, path: Any) -> Figure:
    """The distance between the populations and that between the samples, with their intervals."""
    rows = [("between these samples", r.value, (r.lower, r.upper))]
    if r.population_interval is not None:
        rows.append(("between the populations, 95%", r.population, r.population_interval))
    figure = new_figure(7.2, 1.4 + 0.5 * len(rows))
    axes = figure.subplots()
    for place, (_, value, (low, high)) in enumerate(rows):
        axes.plot([low, high], [place, place], color=COLOUR, linewidth=4, alpha=0.4)
        axes.plot([value], [place], "o", color=COLOUR)  # nothing where the estimate is not known
    if r.noise is not None:
        axes.axvline(r.noise, color="#888888", linestyle=":", label="chance alone")
        axes.legend(fontsize=7, frameon=False)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=8)
    axes.set(xlabel="distance", title=f"{r.sites[0]} and {r.sites[1]}", ylim=(-0.7, len(rows)))
    return written(figure, path)


def draw_matrix(m: MatrixResult, path: Any) -> Figure:
    """The distances between all sites as a picture, with numbers if there are few."""
    shown, count = ShownMatrix(m), len(m)
    figure = new_figure(2.4 + 0.3 * min(count, 20), 1.8 + 0.3 * min(count, 20))
    axes = figure.subplots()
    table = shown.colour_values
    axes.imshow(table, cmap="Blues", vmin=0)
    if count <= _MAX_NAMED:
        axes.set_xticks(range(count), m.sites, fontsize=7, rotation=90)
        axes.set_yticks(range(count), m.sites, fontsize=7)
    if count <= 12:
        for (i, j), value in np.ndenumerate(table):
            shade = "white" if value > np.nanmax(table) / 2 else "black"
            text = shown.texts[i][j]
            axes.text(j, i, text, ha="center", va="center", fontsize=6, color=shade)
    axes.set_title(shown.title, fontsize=8)
    return written(figure, path)


def written(figure: Figure, path: Any) -> Figure:
    """The figure, which is written to `path` if there is one."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        write_figure(figure, path)
    return figure


def _draw_images(figure: Figure, e: Explanation, shape: tuple[int, ...]) -> None:
    try:
        rows, cols, *channels = (check_integer(size, "shape") for size in shape)
    except (TypeError, ValueError):
        given = repr(shape) if isinstance(shape, tuple) else format_value(shape)
        raise InputError(
            f"shape is {given}; give rows and columns, such as (28, 28).", "bad-option"
        ) from None
    if len(channels) > 1 or math.prod((rows, cols, *channels)) != len(e.here):
        raise InputError(
            f"shape is {tuple(shape)} and there are {len(e.here)} columns; give the image's own"
            " shape.",
            "wrong-shape",
        )
    for axes, (title, values) in zip(
        figure.subplots(1, 2),
        (("populations", e.share), ("samples", e.sample_share)),
        strict=True,
    ):
        pixels = values[: len(e.here)].reshape(rows, cols, -1).sum(axis=2)
        image = axes.imshow(pixels, cmap="magma", vmin=0)
        axes.set(title=title, xticks=[], yticks=[])
        figure.colorbar(image, ax=axes, shrink=0.8)
    figure.suptitle(f"{e.sites[0]} and {e.sites[1]}", fontsize=10)


def write_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Write a figure as .png, .svg or .pdf; the same figure gives the same file."""
    from matplotlib import rc_context

    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _NO_DATES:
        raise InputError(
            f"{target} ends in '{target.suffix}'; pictures can be written as"
            f" {' '.join(_NO_DATES)}.",
            "unknown-format",
        )
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "fedwad"}):
        figure.savefig(buffer, format=ending.lstrip("."), dpi=dpi, metadata=_NO_DATES[ending])
    write_atomically(target, buffer.getvalue())


_MAX_NAMED = 30  # sites up to which names are written


def plane(result: EmbeddingResult) -> NDArray[np.float64]:
    """Return the first two coordinates of each site, (N, 2); the second is 0 if there is one."""
    points = np.zeros((len(result), 2))
    width = min(2, result.embedding.shape[1])
    points[:, :width] = result.embedding[:, :width]
    return points


def draw_embedding(result: EmbeddingResult, labels: NDArray[np.int64], path: Any) -> Figure:
    """Draw the sites on the first two axes, coloured by cluster, and write the figure if `path`."""
    figure = new_figure(6.4, 5.2)
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
    return written(figure, path)
