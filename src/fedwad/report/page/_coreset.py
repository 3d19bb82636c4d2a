"""The page of a coreset: its points, their distance to the data, and the loss by round."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np
from markupsafe import Markup

from fedwad._words import pluralize
from fedwad.compare.digits import Digits
from fedwad.coresets.result import CoresetResult
from fedwad.report.page._figures import Part, PointMap, chart, draw_both_widths
from fedwad.report.page._text import drawing, escape, picture, shorten, tag
from fedwad.report.pictures import feature_names, image_shape, project_to_plane, sheet
from fedwad.transport import Floats


def coreset_page(result: CoresetResult, shape: tuple[int, ...] | None) -> dict[str, Any]:
    """What the template of a coreset shows."""
    image = image_shape(result.points.shape[1], shape)
    verb = "represents" if len(result) == 1 else "represent"
    return {
        "title": f"{pluralize(len(result), 'point')} that {verb} the data",
        "digits": Digits.for_numbers([result.value, result.upper], 4),
        "picture": scatter(result) if image is None else _images(result, image),
        "points": points_table(result) if image is None else None,
        "curves": _curves(result),
    }


def _images(result: CoresetResult, shape: tuple[int, ...], columns: int = 10) -> Markup:
    """The points as images, so many in a row; their range is the grey scale."""
    low, high = float(result.points.min()), float(result.points.max())
    order = np.argsort(-result.weights, kind="stable")
    here = min(columns, len(result))
    drawn = sheet(result.points[order], shape, here, low, high)
    alt = f"{result.method}: {pluralize(len(result), 'point')}, the heaviest first, as images"
    style = f"display:block;width:{100 * here / columns:.0f}%"
    return tag("figure", picture(png(drawn), alt, style=style), style="margin-bottom:1.2rem")


def png(picture: Floats) -> str:
    """Grey or colour pixels from 0 to 1 as a data URL of a PNG."""
    pixels = np.rint(255 * np.clip(picture, 0, 1)).astype(np.uint8)
    height, width = pixels.shape[:2]
    colour_type = 2 if pixels.ndim == 3 else 0  # RGB or grey
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: the rows are not filtered
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode("ascii")


def _curves(result: CoresetResult) -> Markup | None:
    points = [(one.number, one.loss) for one in result.history if math.isfinite(one.loss)]
    if len(points) < 2:
        return None
    parts = [
        Part("curve", f"{result.method}: its loss", points, "ours"),
        Part.constant("certified interval at the end", result.lower, result.upper, style="ours"),
    ]
    caption = (
        "The loss of each method. The loss of 'union' is the certified upper bound; the losses of"
        " the others are about single sites."
    )
    return chart(parts, caption)


def scatter(result: CoresetResult) -> Markup:
    """All points on two axes with equal scales; heavier points are larger."""
    points, (across, up) = project_to_plane(result)
    axes = across + (f"; up: {up}" if up else "")
    caption = f"The points, across: {axes}. The scale is the same in all directions."
    sizes = 5.0 * np.sqrt(result.weights * len(result))

    def draw(width: int) -> Markup:
        point_map = PointMap.of(points, width, 20.0, 0.3, 0.7)
        dots = [
            tag("circle", cx=x, cy=y, r=size, style="fill:var(--ours);fill-opacity:.75")
            for size, (x, y) in zip(sizes.tolist(), point_map.dots.tolist(), strict=True)
        ]
        return drawing(width, point_map.height, caption, *dots, point_map.scale_bar)

    figure = draw_both_widths(draw)
    return tag("figure", figure, tag("figcaption", escape(caption)), style="max-width:44rem")


def points_table(result: CoresetResult) -> dict[str, Any] | None:
    """The points as rows of the sites' tables, or in numbers; None if they are too many to read."""
    names, many = feature_names(result), len(result) > 50
    order = np.argsort(-result.weights, kind="stable").tolist()
    count = pluralize(len(result), "point")
    if result.schema is not None and not many:
        mean = result.decode(result.weights @ result.points)
        points = [result.rows[k] for k in order]
        return {
            "head": ["column", *(f"{result.weights[k]:.0%}" for k in order), "weighted mean"],
            "rows": [[name, *(row[name] for row in points), mean[name]] for name in mean],
            "caption": f"{count} by their weights, the heaviest first,"
            " in the columns' own units and levels",
        }
    if many or len(names) > 30:
        return None
    rows = [
        [str(k + 1), f"{result.weights[k]:.1%}", *(f"{number:.4g}" for number in result.points[k])]
        for k in order
    ]
    head = ["point", "weight", *(shorten(name, 24) for name in names)]
    return {"head": head, "rows": rows, "caption": f"{count}, the heaviest first"}
