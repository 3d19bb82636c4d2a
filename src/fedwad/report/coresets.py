"""Pictures of coresets: sheets of images, points in two directions, and the loss by round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.flat import flattened
from fedwad.report.pictures import new_figure, tidy, write_picture

__all__ = ["coreset_curves", "coreset_picture", "image_shape"]

_FEWEST_PIXELS = 16  # fewer features are not an image
_MOST_COLUMNS = 20
_COLOURS = ("#1f6f8b", "#c1440e", "#7a9e35", "#8c5fa8", "#222222")


def image_shape(features: int, shape: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
    """The given shape of an image, or the square of so many numbers, or None if there is none."""
    if shape is not None:
        if (
            math.prod(shape) != features
            or len(shape) not in (2, 3)
            or (len(shape) == 3 and shape[2] != 3)
        ):
            raise InputError(
                f"shape is {shape}; give (rows, columns) or (rows, columns, 3) of {features}"
                " numbers."
            )
        return shape
    side = math.isqrt(features)
    return (side, side) if side * side == features >= _FEWEST_PIXELS else None


def coreset_picture(
    results: Mapping[str, CoresetResult], path: str | Path, *, shape: tuple[int, ...] | None = None
) -> None:
    """Draw one or several coresets of the same data, by name, into a .png, .svg or .pdf file.

    Points that are images become rows of images, the heaviest first. Other points are drawn in
    their two principal directions; heavier points are larger.
    """
    if not results:
        raise InputError("No coreset was given; give at least one to draw.")
    features = {result.points.shape[1] for result in results.values()}
    if len(features) > 1:
        raise InputError(
            "The coresets have different numbers of features; draw coresets of one dataset."
        )
    image = image_shape(features.pop(), shape)
    if image is None:
        _draw_points(results, path)
    else:
        _draw_sheet(results, path, image)


def sheet(points: Floats, shape: tuple[int, ...], columns: int, low: float, high: float) -> Floats:
    """Images side by side in one array, grey levels from 0 to 1, one pixel apart."""
    rows = -(-len(points) // columns)
    height, width = shape[0] + 1, shape[1] + 1
    canvas = np.ones((rows * height - 1, columns * width - 1, *shape[2:]))
    scaled = np.clip((points - low) / ((high - low) or 1.0), 0.0, 1.0)
    for number, image in enumerate(scaled):
        top, left = (number // columns) * height, (number % columns) * width
        canvas[top : top + shape[0], left : left + shape[1]] = image.reshape(shape)
    return canvas


def _draw_sheet(
    results: Mapping[str, CoresetResult], path: str | Path, shape: tuple[int, ...]
) -> None:
    first = next(iter(results.values())).points  # its range sets the grey levels of all
    low, high = float(first.min()), float(first.max())
    columns = min(_MOST_COLUMNS, max(len(result) for result in results.values()))
    heights = [-(-len(result) // columns) for result in results.values()]
    figure = new_figure(
        0.55 * columns + 0.2, sum(0.55 * height * shape[0] / shape[1] + 0.3 for height in heights)
    )
    rows = figure.subplots(len(results), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[
        :, 0
    ]
    for axes, (name, result) in zip(rows, results.items(), strict=True):
        order = np.argsort(-result.weights, kind="stable")
        picture = sheet(result.points[order], shape, columns, low, high)
        axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(_title(name, result), fontsize=8, loc="left")
        axes.set_axis_off()
    write_picture(figure, path)


def _draw_points(results: Mapping[str, CoresetResult], path: str | Path) -> None:
    figure = new_figure(6.4, 4.8)
    axes = figure.subplots()
    flat, (across, up) = flattened(results)
    for number, (name, result) in enumerate(results.items()):
        size = 60 * len(result) * result.weights
        axes.scatter(
            flat[name][:, 0],
            flat[name][:, 1],
            s=size,
            alpha=0.7,
            color=_COLOURS[number % len(_COLOURS)],
            label=_title(name, result),
        )
    axes.set(xlabel=across, ylabel=up)
    axes.set_aspect("equal", adjustable="datalim")  # the distance is Euclidean
    axes.legend(fontsize=8, frameon=False)
    tidy(axes)
    write_picture(figure, path)


def _title(name: str, result: CoresetResult) -> str:
    is_sharp = result.upper - result.lower <= 1e-3 * result.upper
    text = f"{result.value:.4g}" if is_sharp else f"{result.lower:.4g} to {result.upper:.4g}"
    return f"{name}: W2 {text}" if name else f"W2 {text}"


def coreset_curves(results: Mapping[str, CoresetResult], path: str | Path) -> None:
    """Draw the loss of each method by round, and the certified interval of the union."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    for number, (name, result) in enumerate(results.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        rounds = [record.number for record in result.history]
        losses = [record.loss for record in result.history]
        axes.plot(rounds, losses, "-", color=colour, label=name or result.method)
        known = [
            (record.number, record.lower, record.upper)
            for record in result.history
            if record.lower is not None and record.upper is not None
        ]
        bounds = np.array(known, dtype=float).reshape(-1, 3).T
        axes.fill_between(*bounds, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="round", ylabel="$W_2$", title="Loss of each method")
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False)
    tidy(axes)
    write_picture(figure, path)
