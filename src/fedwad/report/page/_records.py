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
from fedwad.report.page._elements import scrolling, table
from fedwad.report.page._text import escape, escape_name, tag

__all__ = ["records_and_guesses"]

_MIN_PIXELS = 36  # records with fewer features are not images
_IMAGE_SIZE = 64  # pixels on the page
_MAX_COLUMNS = 20  # of a record that is shown in numbers
_MAX_RECORDS = 3  # that are shown in numbers

#: A title, "your record" or the name of an attack, and its points (records, features).
TitledPoints = tuple[str, Floats]


def records_and_guesses(samples: Samples) -> str:
    """A few records, and the closest guess of each attack to each of them."""
    rows: list[TitledPoints] = [("your record", samples.records)]
    for (method, attack), guesses in samples.guesses.items():
        rows.append((f"{method}: {attack}", guesses))
    warning = tag("p", "This page shows records: keep it with the data.", class_="warning")
    side = _image_side(samples)
    return warning + (_images(rows, side) if side else _numbers(samples, rows))


def _image_side(samples: Samples) -> int:
    """The side of the records as square images; 0 if they are no images."""
    records = samples.records
    features = records.shape[1]
    side = math.isqrt(features)
    is_image = side * side == features >= _MIN_PIXELS and not (records < 0).any()
    return side if is_image and samples.features is None else 0


def _images(rows: list[TitledPoints], side: int) -> str:
    records = rows[0][1]
    low, high = float(records.min()), float(records.max())
    body = [
        [escape(title), *(_image(record, side, low, high) for record in points)]
        for title, points in rows
    ]
    head = ["", *(f"record {k + 1}" for k in range(len(records)))]
    return scrolling(table(head, body, "The closest guess to each record"))


def _image(pixels: Floats, side: int, low: float, high: float) -> str:
    """One record as a small picture, dark on light."""
    from PIL import Image

    shade = np.clip((pixels.reshape(side, side) - low) / (high - low or 1.0), 0, 1)
    picture = Image.fromarray((255 - np.rint(255 * shade)).astype(np.uint8))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    size = f'width="{_IMAGE_SIZE}" height="{_IMAGE_SIZE}"'
    return f'<img src="{source}" {size} alt="" style="image-rendering: pixelated">'


def _numbers(samples: Samples, rows: list[TitledPoints]) -> str:
    """One table for each record: a row for each column, and a column for each attack."""
    format_columns = _column_formatter(samples)
    parts = []
    for k in range(min(_MAX_RECORDS, len(samples.records))):
        cells = [format_columns(points[k]) for _, points in rows]
        names = list(cells[0])[:_MAX_COLUMNS]
        body = [[escape_name(column), *(escape(one[column]) for one in cells)] for column in names]
        caption = f"Record {k + 1}, and the closest guess of each attack"
        if len(cells[0]) > _MAX_COLUMNS:
            caption += f" (the first {_MAX_COLUMNS} of {len(cells[0])} columns)"
        head = ["column", *(title for title, _ in rows)]
        parts.append(scrolling(table(head, body, caption), "records"))
    return "".join(parts)


def _column_formatter(samples: Samples) -> Callable[[Floats], dict[str, str]]:
    """A function from a record to the texts of its columns, by name."""
    schema = samples.schema
    if schema is not None:
        return lambda record: {
            column: _format_value(values, schema[column].kind)
            for column, values in schema.describe(record).items()
        }
    names = samples.features or tuple(f"column {k + 1}" for k in range(samples.records.shape[1]))
    return lambda record: {
        column: f"{number:.4g}" for column, number in zip(names, record, strict=True)
    }


def _format_value(values: Mapping[str, float], kind: str) -> str:
    """A value in the units of its column: a number, a day, `missing`, or the most likely level."""
    if "mean" in values:
        if values.get("missing", 0.0) > 0.5 or values["mean"] != values["mean"]:
            return "missing"
        day = format_day(values["mean"]) if kind == "date" else None
        return day or f"{values['mean']:.4g}"
    level, share = max(values.items(), key=lambda item: item[1])
    return level if share > 0.99 else f"{level} ({share:.0%})"
