"""Pictures of coresets, as sheets of images or points in two directions, and of drift."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fedwad._files import new_figure
from fedwad.compare.plots import COLOUR, written
from fedwad.coresets.result import CoresetResult
from fedwad.errors import InputError
from fedwad.transport import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def image_shape(features: int, shape: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
    """The given shape of an image, or that of a square with so many pixels.

    None if no shape is given and the features cannot be a square image of at least 16 pixels.
    """
    if shape is not None:
        if (
            math.prod(shape) != features
            or len(shape) not in (2, 3)
            or (len(shape) == 3 and shape[2] != 3)
        ):
            raise InputError(
                f"shape is {shape}; give (rows, columns) or (rows, columns, 3) of {features}"
                " numbers.",
                "wrong-shape",
            )
        return shape
    side = math.isqrt(features)
    return (side, side) if side * side == features >= 16 else None


def coreset_picture(
    result: CoresetResult, path: Any = None, *, shape: tuple[int, ...] | None = None
) -> Figure:
    """Draw a coreset, and write the figure if there is a .png, .svg or .pdf file for it.

    Points that are images become rows of images, the heaviest first. Other points are drawn in
    their two principal directions, or as they are if they have one or two features; heavier points
    are larger.
    """
    tight = result.upper - result.lower <= 1e-3 * result.upper
    value = f"{result.value:.4g}" if tight else f"{result.lower:.4g} to {result.upper:.4g}"
    image = image_shape(result.points.shape[1], shape)
    if image is None:
        axes = new_figure(6.4, 4.8).subplots()
        points, (across, up) = project_to_plane(result)
        sizes = 60 * len(result) * result.weights
        look: dict[str, Any] = {"alpha": 0.7, "color": COLOUR, "label": f"W2 {value}"}
        axes.scatter(points[:, 0], points[:, 1], s=sizes, **look)
        axes.set(xlabel=across, ylabel=up)
        axes.set_aspect("equal", adjustable="datalim")  # the distance is Euclidean
        axes.legend(fontsize=8, frameon=False)
        return written(cast("Figure", axes.figure), path)
    low, high = float(result.points.min()), float(result.points.max())
    columns = min(20, len(result))
    height = 0.55 * -(-len(result) // columns) * image[0] / image[1]
    axes = new_figure(0.55 * columns + 0.2, height + 0.3).subplots()
    order = np.argsort(-result.weights, kind="stable")
    picture = sheet(result.points[order], image, columns, low, high)
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(f"W2 {value}", fontsize=8, loc="left")
    axes.set_axis_off()
    return written(cast("Figure", axes.figure), path)


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


def feature_names(result: CoresetResult) -> tuple[str, ...]:
    """Names of the features, or numbers for them, counting from 1."""
    return result.features or tuple(f"feature {k + 1}" for k in range(result.points.shape[1]))


def project_to_plane(result: CoresetResult) -> tuple[Floats, tuple[str, str]]:
    """Coordinates (S, 2) of the points, and the names of the axes.

    One or two features are the axes themselves. With more, the axes are the two principal
    directions of all points, named after their main features.
    """
    names, points = feature_names(result), result.points
    n_features = points.shape[1]
    if n_features <= 2:
        flat = np.column_stack([points, np.zeros(len(points))])[:, :2]
        return flat, (names[0], names[1] if n_features == 2 else "")
    centre = points.mean(axis=0)
    scale = float(np.abs(points - centre).max()) or 1.0  # keeps squares finite
    directions = np.linalg.svd((points - centre) / scale, full_matrices=False)[2][:2].T
    if directions.shape[1] < 2:  # a single point
        directions = np.column_stack([directions, np.zeros(n_features)])
    coordinates = scale * (((points - centre) / scale) @ directions)
    given = names if result.features else ()
    first, second = directions.T
    axes = _direction_name("first", first, given), _direction_name("second", second, given)
    return coordinates, axes


def _direction_name(which: str, direction: Floats, names: tuple[str, ...]) -> str:
    """`first principal direction, mostly age and dose`, as far as features have large loadings."""
    largest = np.argsort(-np.abs(direction))[:2] if names else ()
    main = [names[k] for k in largest if direction[k] ** 2 > 0.2]
    return f"{which} principal direction" + (f", mostly {' and '.join(main)}" if main else "")
