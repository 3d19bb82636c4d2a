"""Records of an audit beside what the attacks got: as images, or column by column."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Mapping

import numpy as np

from fedwad._audit import Samples
from fedwad._words import format_day
from fedwad.ot import Floats
from fedwad.report.page._pairs import table
from fedwad.report.page._text import escape, name, tag

__all__ = ["records_and_guesses"]

_SMALLEST_IMAGE = 36  # pixels; records with fewer features are not images
_SIDE = 64
_MOST_COLUMNS = 20  # of a record that is shown in numbers
_MOST_RECORDS = 3  # that are shown in numbers

Line = tuple[str, Floats]


def records_and_guesses(samples: Samples) -> str:
    """A few records, and the closest guess of each attack to each of them."""
    lines: list[Line] = [("your record", samples.records)]
    lines += [(f"{method}: {attack}", found) for (method, attack), found in samples.guesses.items()]
    warning = tag("p", "This page shows records: keep it with the data.", class_="warning")
    side = _image_side(samples)
    return warning + (_images(lines, side) if side else _numbers(samples, lines))


def _image_side(samples: Samples) -> int:
    """The side of square images without a negative pixel; 0 if the records are none."""
    records = samples.records
    features = records.shape[1]
    side = math.isqrt(features)
    is_image = side * side == features >= _SMALLEST_IMAGE and not (records < 0).any()
    return side if is_image and samples.features is None else 0


def _images(lines: list[Line], side: int) -> str:
    records = lines[0][1]
    low, high = float(records.min()), float(records.max())
    body = [
        [escape(title), *(_image(record, side, low, high) for record in points)]
        for title, points in lines
    ]
    head = ["", *(f"record {k + 1}" for k in range(len(records)))]
    return tag("div", table(head, body, "The closest guess to each record"), class_="scroller")


def _image(pixels: Floats, side: int, low: float, high: float) -> str:
    """One record as a small picture, dark on light."""
    from PIL import Image

    shade = np.clip((pixels.reshape(side, side) - low) / (high - low or 1.0), 0, 1)
    picture = Image.fromarray((255 - np.rint(255 * shade)).astype(np.uint8))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    size = f'width="{_SIDE}" height="{_SIDE}"'
    return f'<img src="{source}" {size} alt="" style="image-rendering: pixelated">'


def _numbers(samples: Samples, lines: list[Line]) -> str:
    """One table for each record: a row for each column, and a column for each attack."""
    shown = _shown(samples)
    parts = []
    for k in range(min(_MOST_RECORDS, len(samples.records))):
        cells = [shown(points[k]) for _, points in lines]
        names = list(cells[0])[:_MOST_COLUMNS]
        body = [[name(column), *(escape(one[column]) for one in cells)] for column in names]
        caption = f"Record {k + 1}, and the closest guess of each attack"
        if len(cells[0]) > _MOST_COLUMNS:
            caption += f" (the first {_MOST_COLUMNS} of {len(cells[0])} columns)"
        head = ["column", *(title for title, _ in lines)]
        parts.append(tag("div", table(head, body, caption), class_="scroller records"))
    return "".join(parts)


def _shown(samples: Samples) -> Callable[[Floats], dict[str, str]]:
    """How the columns of a record are written, by name."""
    schema = samples.schema
    if schema is not None:
        return lambda record: {
            column: _in_units(values, schema[column].kind)
            for column, values in schema.describe(record).items()
        }
    names = samples.features or tuple(f"column {k + 1}" for k in range(samples.records.shape[1]))
    return lambda record: {
        column: f"{number:.4g}" for column, number in zip(names, record, strict=True)
    }


def _in_units(values: Mapping[str, float], kind: str) -> str:
    """A column in its own units: a number, a day, `missing`, or the most likely level."""
    if "mean" in values:
        if values.get("missing", 0.0) > 0.5 or values["mean"] != values["mean"]:
            return "missing"
        day = format_day(values["mean"]) if kind == "date" else None
        return day or f"{values['mean']:.4g}"
    level, share = max(values.items(), key=lambda item: item[1])
    return level if share > 0.99 else f"{level} ({share:.0%})"
