"""Pictures of coresets: sheets of images, points in two directions, and the loss by round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.pictures import new_figure, write_chart, write_picture

__all__ = [
    "coreset_curves",
    "coreset_picture",
    "feature_names",
    "image_shape",
    "project_to_plane",
    "sheet",
]

_MIN_PIXELS = 16  # fewer features are not an image
_MAX_COLUMNS = 20  # images in a row
_MIN_LOADING2 = 0.2  # squared loading from which a feature names a principal direction
_COLOURS = ("#1f6f8b", "#c1440e", "#7a9e35", "#8c5fa8", "#222222")


def image_shape(features: int, shape: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
    """The given shape of an image, or that of a square with so many pixels.

    None if no shape is given and the features cannot be a square image.
    """
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
    return (side, side) if side * side == features >= _MIN_PIXELS else None


def coreset_picture(
    results: Mapping[str, CoresetResult], path: str | Path, *, shape: tuple[int, ...] | None = None
) -> None:
    """Draw one or several coresets of the same data, by name, into a .png, .svg or .pdf file.

    Points that are images become rows of images, the heaviest first. Other points are drawn in
    their two principal directions, or as they are if they have one or two features; heavier points
    are larger.
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
    """Images side by side in one array, one white pixel apart.

    Numbers from `low` to `high` become shades from 0, black, to 1, white.
    """
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
    first = next(iter(results.values())).points  # their range sets the grey scale of all
    low, high = float(first.min()), float(first.max())
    columns = min(_MAX_COLUMNS, max(len(result) for result in results.values()))
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
    axes = new_figure(6.4, 4.8).subplots()
    coordinates, (across, up) = project_to_plane(results)
    for number, (name, result) in enumerate(results.items()):
        size = 60 * len(result) * result.weights
        axes.scatter(
            coordinates[name][:, 0],
            coordinates[name][:, 1],
            s=size,
            alpha=0.7,
            color=_COLOURS[number % len(_COLOURS)],
            label=_title(name, result),
        )
    axes.set(xlabel=across, ylabel=up)
    axes.set_aspect("equal", adjustable="datalim")  # the distance is Euclidean
    write_chart(axes, path, integer_x=False)


def _title(name: str, result: CoresetResult) -> str:
    is_tight = result.upper - result.lower <= 1e-3 * result.upper
    text = f"{result.value:.4g}" if is_tight else f"{result.lower:.4g} to {result.upper:.4g}"
    return f"{name}: W2 {text}" if name else f"W2 {text}"


def coreset_curves(results: Mapping[str, CoresetResult], path: str | Path) -> None:
    """Draw the loss of each coreset by round, and its certified interval where that is known."""
    axes = new_figure(6.4, 4.2).subplots()
    for number, (name, result) in enumerate(results.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        rounds = [record.number for record in result.history]
        losses = [record.loss for record in result.history]
        axes.plot(rounds, losses, "-", color=colour, label=name or result.method)
        bounds = [
            (record.number, record.lower, record.upper)
            for record in result.history
            if record.lower is not None and record.upper is not None
        ]
        axes.fill_between(
            *np.array(bounds, dtype=float).reshape(-1, 3).T, color=colour, alpha=0.2, linewidth=0
        )
    axes.set(xlabel="round", ylabel="$W_2$", title="Loss of each method")
    write_chart(axes, path)


def feature_names(result: CoresetResult) -> tuple[str, ...]:
    """Names of the features, or numbers for them, counting from 1."""
    return result.features or tuple(f"feature {k + 1}" for k in range(result.points.shape[1]))


def project_to_plane(
    results: Mapping[str, CoresetResult],
) -> tuple[dict[str, Floats], tuple[str, str]]:
    """Coordinates (S, 2) of the points of each coreset on common axes, and the names of the axes.

    One or two features are the axes themselves. With more, the axes are the two principal
    directions of all points, named after their main features.
    """
    first = next(iter(results.values()))
    names = feature_names(first)
    points = np.concatenate([coreset.points for coreset in results.values()])
    n_features = points.shape[1]
    if n_features <= 2:
        coordinates = {
            name: np.column_stack([coreset.points, np.zeros(len(coreset))])[:, :2]
            for name, coreset in results.items()
        }
        return coordinates, (names[0], names[1] if n_features == 2 else "")
    centre = points.mean(axis=0)
    scale = float(np.abs(points - centre).max()) or 1.0  # keeps squares finite
    directions = np.linalg.svd((points - centre) / scale, full_matrices=False)[2][:2].T
    if directions.shape[1] < 2:  # a single point
        directions = np.column_stack([directions, np.zeros(n_features)])
    coordinates = {
        name: scale * (((coreset.points - centre) / scale) @ directions)
        for name, coreset in results.items()
    }
    given_names = names if first.features else ()
    return coordinates, (
        _direction_name("first", directions[:, 0], given_names),
        _direction_name("second", directions[:, 1], given_names),
    )


def _direction_name(which: str, direction: Floats, names: tuple[str, ...]) -> str:
    """`first principal direction, mostly age and dose`, as far as features have large loadings."""
    largest = np.argsort(-np.abs(direction))[:2] if names else ()
    main = [names[k] for k in largest if direction[k] ** 2 > _MIN_LOADING2]
    return f"{which} principal direction" + (f", mostly {' and '.join(main)}" if main else "")
