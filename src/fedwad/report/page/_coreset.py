"""The page of a coreset: its points, their distance to the data, and the loss by round."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad._words import format_bytes, pluralize
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.coresets import image_shape, sheet
from fedwad.report.page._closing import method_text, rounds_text, what_was_sent
from fedwad.report.page._curve import Band, Curve, Part, chart
from fedwad.report.page._digits import Digits, Rounding
from fedwad.report.page._elements import collapsible, facts, scrolling, table, term_paragraphs
from fedwad.report.page._frame import Section
from fedwad.report.page._opening import missing_sites
from fedwad.report.page._scatter import points_table, scatter
from fedwad.report.page._text import escape, tag

__all__ = ["coreset_lead", "coreset_sections", "coreset_title"]

_METHODS = {
    "union": "power cells of the union of all sites",
    "summary": "from one summary of each site",
    "fedwad": "the paper's, FedWaD with a few random sites at a time",
    "direct": "the coreset itself is sent to a few random sites at a time",
}
_STYLES = ("ours", "paper", "running", "exact")  # classes of the style sheet, for the curves
_MAX_COLUMNS = 10  # images in a row


def coreset_title(result: CoresetResult) -> str:
    """The heading of the page."""
    verb = "represents" if len(result) == 1 else "represent"
    return f"{pluralize(len(result), 'point')} that {verb} the data"


def coreset_lead(result: CoresetResult) -> str:
    """The answer in a sentence, with the distance in large type."""
    digits = _digits(result)
    return tag(
        "p",
        f"From the data of {pluralize(len(result.sites), 'site')}: ",
        tag("b", escape(digits.text(result.value)), class_="number"),
        escape(
            ", the 2-Wasserstein distance to all data, certified"
            f" {digits.interval(result.lower, result.upper)}."
        ),
        class_="lead answer",
    )


def _digits(result: CoresetResult) -> Digits:
    return Digits.for_numbers([result.value, result.upper], 4)


def coreset_sections(
    result: CoresetResult, others: Mapping[str, CoresetResult], shape: tuple[int, ...] | None
) -> list[Section]:
    """All sections of the page, in order."""
    features = result.points.shape[1]
    if any(other.points.shape[1] != features for other in others.values()):
        raise InputError(
            "The coresets have different numbers of features; compare coresets of one dataset."
        )
    if result.method in others:
        raise InputError(
            f"others has the name '{result.method}', by which the page shows the result itself;"
            " choose another name."
        )
    coresets = {result.method: result} | dict(others)
    image = image_shape(features, shape)
    points = scatter(coresets) if image is None else _images(coresets, image)
    sections = [Section("The points", points)]
    numbers = points_table(result) if image is None else ""
    if numbers:
        sections.append(Section("The points in numbers", numbers))
    if others:
        sections.append(Section("Method against method", _comparison(coresets)))
    curves = _curves(coresets)
    if curves:
        sections.append(Section("The rounds", curves, "left"))
    if result.failed:
        sections.append(Section("Missing sites", missing_sites(result.failed), "right"))
    sent = what_was_sent(result.traffic, len(result.sites), result.min_cell_size, ())
    sections += [
        Section("How it was made", _method(result), "right"),
        Section("What was sent", sent, "right"),
        Section("How to read it", term_paragraphs(_HOW_TO_READ)),
    ]
    if result.history:
        sections.append(Section("The numbers", _table(result)))
    return sections


def _images(coresets: Mapping[str, CoresetResult], shape: tuple[int, ...]) -> str:
    first = next(iter(coresets.values())).points  # their range sets the grey scale of all
    low, high = float(first.min()), float(first.max())
    figures = []
    for name, coreset in coresets.items():
        order = np.argsort(-coreset.weights, kind="stable")
        columns = min(_MAX_COLUMNS, len(coreset))
        picture = sheet(coreset.points[order], shape, columns, low, high)
        width = min(100.0, 100.0 * columns / _MAX_COLUMNS)
        style = f"display:block;width:{width:.0f}%;image-rendering:pixelated"
        alt = f"{name}: {pluralize(len(coreset), 'point')}, the heaviest first, as images"
        image = f'<img src="{_png(picture)}" alt="{escape(alt)}" style="{style}">'
        caption = "" if len(coresets) == 1 else tag("figcaption", escape(name))
        figures.append(tag("figure", image, caption, style="margin-bottom:1.2rem"))
    return "".join(figures)


def _png(picture: Floats) -> str:
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


def _comparison(coresets: Mapping[str, CoresetResult]) -> str:
    rows = []
    for name, coreset in coresets.items():
        digits = _digits(coreset)
        rows.append(
            [
                escape(name),
                escape(digits.text(coreset.value)),
                escape(digits.interval(coreset.lower, coreset.upper)),
                str(len(coreset.history)),
                f"{sum(record.seconds for record in coreset.history):.3g}",
                escape(format_bytes(coreset.traffic.up)),
                escape(format_bytes(coreset.traffic.down)),
            ]
        )
    head = ["method", "W2 to the data", "certified", "rounds", "seconds"]
    head += ["sent by sites", "sent to them"]
    return scrolling(table(head, rows, "Coresets of the same data"))


def _curves(coresets: Mapping[str, CoresetResult]) -> str:
    parts: list[Part] = []
    for number, (name, coreset) in enumerate(coresets.items()):
        points = [
            (record.number, record.loss) for record in coreset.history if math.isfinite(record.loss)
        ]
        if points:
            parts.append(Curve(f"{name}: its loss", points, _STYLES[number % len(_STYLES)]))
    if not parts:
        return ""
    first = next(iter(coresets.values()))
    parts.append(Band("certified interval at the end", first.lower, first.upper, "ours"))
    caption = (
        "The loss of each method. The loss of 'union' is the certified upper bound; the losses of"
        " the others are about single sites."
    )
    return chart(parts, caption)


def _method(result: CoresetResult) -> str:
    equal = result.options.get("weights", "equal") == "equal"
    return facts(
        [
            ("method", method_text(result.method, _METHODS)),
            ("weights", "equal" if equal else "the fraction of the data in each point's cell"),
            ("rounds", rounds_text(result.history)),
            ("tolerance", "met" if result.converged else "not met"),
            ("seed", escape(result.seed)),
        ]
    )


_HOW_TO_READ = (
    (
        "The points",
        "are means of many samples from all sites, not samples. With their weights they are as"
        " close to all data as the method could bring so few points.",
    ),
    (
        "The certified interval",
        "always holds, not 95% of the time, if the sites were honest. It follows from what they"
        " sent.",
    ),
    (
        "No privacy guarantee",
        "is given. Only sums over cells left the sites, which is a precaution only: sums over"
        " few samples, or differences of sums between rounds, can reveal single samples.",
    ),
)


def _table(result: CoresetResult) -> str:
    digits = _digits(result)

    def number_or_empty(number: float | None, rounding: Rounding = "nearest") -> str:
        return "" if number is None else escape(digits.text(number, rounding))

    rows = [
        [
            str(record.number),
            number_or_empty(record.loss),
            number_or_empty(record.lower, "down"),
            number_or_empty(record.upper, "up"),
            f"{record.shift:.3g}",
            str(record.sites),
            f"{record.seconds:.3f}",
        ]
        for record in result.history
    ]
    head = ["round", "loss", "certified lower", "certified upper", "atoms moved by"]
    head += ["sites", "seconds"]
    return collapsible(
        "rounds", f"Show {pluralize(len(rows), 'round')}", table(head, rows, "Round by round")
    )
