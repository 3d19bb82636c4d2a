"""The page of a coreset: its points, how far they are from the data, and how the loss fell."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.coresets import image_shape, sheet
from fedwad.report.page._curve import Band, Curve, Part, chart
from fedwad.report.page._digits import Digits
from fedwad.report.page._frame import Section
from fedwad.report.page._pairs import folded, table
from fedwad.report.page._scatter import points_table, scatter
from fedwad.report.page._sent import facts, lost_clients, what_was_sent
from fedwad.report.page._text import bytes_in_words, counted, escape, tag

__all__ = ["coreset_lead", "coreset_sections", "coreset_title"]

_METHODS = {
    "union": "power cells of the union of all clients",
    "summary": "from one summary of each client",
    "fedwad": "the paper's, FedWaD with a few random clients at a time",
    "direct": "the coreset itself travels to a few random clients at a time",
}
_STYLES = ("ours", "paper", "running", "exact")
_COLUMNS = 10


def coreset_title(result: CoresetResult) -> str:
    return f"{counted(len(result), 'point')} that {'stands' if len(result) == 1 else 'stand'} for the data"


def coreset_lead(result: CoresetResult) -> str:
    """The answer in a sentence, its number large."""
    digits = _digits(result)
    return tag(
        "p",
        f"From the data of {counted(len(result.sites), 'client')}: ",
        tag("b", escape(digits.text(result.value)), class_="number"),
        escape(
            f", the 2-Wasserstein distance, certified {digits.interval(result.lower, result.upper)}."
        ),
        class_="lead answer",
    )


def _digits(result: CoresetResult) -> Digits:
    return Digits.fitting(
        [number for number in (result.value, result.upper) if math.isfinite(number)], 4
    )


def coreset_sections(
    result: CoresetResult, others: Mapping[str, CoresetResult], shape: tuple[int, ...] | None
) -> list[Section]:
    """All sections, in the order in which a reader asks."""
    features = result.points.shape[1]
    if any(other.points.shape[1] != features for other in others.values()):
        raise InputError(
            "The coresets have different numbers of features; compare those of one data set."
        )
    everyone = {result.method: result} | dict(others)
    covariance_type = image_shape(features, shape)
    drawn = scatter(everyone) if covariance_type is None else _images(everyone, covariance_type)
    sections = [Section("The points", drawn)]
    numbers = points_table(result) if covariance_type is None else ""
    if numbers:
        sections.append(Section("The points in numbers", numbers))
    if others:
        sections.append(Section("Method against method", _comparison(everyone)))
    curves = _curves(everyone)
    if curves:
        sections.append(Section("The rounds", curves, "left"))
    if result.failed:
        sections.append(Section("Who is missing", lost_clients(result.failed), "right"))
    sections.append(Section("How it was made", _made(result), "right"))
    sent = what_was_sent(result.traffic, len(result.sites), result.min_cell_size, ())
    sections += [Section("What was sent", sent, "right"), Section("How to read it", _how_to_read())]
    if result.history:
        sections.append(Section("The numbers", _table(result)))
    return sections


def _images(everyone: Mapping[str, CoresetResult], shape: tuple[int, ...]) -> str:
    first = next(
        iter(everyone.values())
    ).points  # sets the grey levels; what lies outside is black or white
    low, high = float(first.min()), float(first.max())
    figures = []
    for name, one in everyone.items():
        order = np.argsort(-one.weights, kind="stable")
        columns = min(_COLUMNS, len(one))
        picture = sheet(one.points[order], shape, columns, low, high)
        width = min(100.0, 100.0 * columns / _COLUMNS)
        style = f"display:block;width:{width:.0f}%;image-rendering:pixelated"
        told = f"{name}: {counted(len(one), 'point')}, the heaviest first, as images"
        image = f'<img src="{_png(picture)}" alt="{escape(told)}" style="{style}">'
        caption = "" if len(everyone) == 1 else tag("figcaption", escape(name))
        figures.append(tag("figure", image, caption, style="margin-bottom:1.2rem"))
    return "".join(figures)


def _png(picture: Floats) -> str:
    """Grey or coloured pixels from 0 to 1 as a data address."""
    pixels = np.rint(255 * np.clip(picture, 0, 1)).astype(np.uint8)
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode("ascii")


def _comparison(everyone: Mapping[str, CoresetResult]) -> str:
    rows = []
    for name, one in everyone.items():
        digits = _digits(one)
        rows.append(
            [
                escape(name),
                escape(digits.text(one.value)),
                escape(digits.interval(one.lower, one.upper)),
                str(len(one.history)),
                f"{sum(record.seconds for record in one.history):.3g}",
                escape(bytes_in_words(one.traffic.up)),
                escape(bytes_in_words(one.traffic.down)),
            ]
        )
    head = [
        "method",
        "W2 to the data",
        "certified",
        "rounds",
        "seconds",
        "sent by clients",
        "sent to them",
    ]
    return tag("div", table(head, rows, "Coresets of the same data"), class_="scroller")


def _curves(everyone: Mapping[str, CoresetResult]) -> str:
    parts: list[Part] = []
    for number, (name, one) in enumerate(everyone.items()):
        points = [
            (record.number, record.loss) for record in one.history if math.isfinite(record.loss)
        ]
        if points:
            parts.append(
                Curve(f"{name}: what it makes small", points, _STYLES[number % len(_STYLES)])
            )
    if not parts:
        return ""
    first = next(iter(everyone.values()))
    parts.append(Band("certified interval at the end", first.lower, first.upper, "ours"))
    caption = "The loss of each method. That of 'union' is the certified upper bound; those of the others are about"
    return chart(parts, f"{caption} single clients.")


def _made(result: CoresetResult) -> str:
    rows = [
        ("method", escape(f"{result.method}: {_METHODS.get(result.method, '')}".rstrip(": "))),
        (
            "weights",
            "equal"
            if result.options.get("weights", "equal") == "equal"
            else "each point's share of the data",
        ),
        (
            "rounds",
            f"{len(result.history)} in {sum(record.seconds for record in result.history):.3g} s",
        ),
        ("tol", "met" if result.converged else "not met"),
        ("seed", escape(result.seed)),
    ]
    return facts(rows)


def _how_to_read() -> str:
    rows = [
        (
            "The points",
            "are means of many samples from all clients, not samples. Together, with their weights, they are as close"
            " to all data as so few points could be brought.",
        ),
        (
            "The certified interval",
            "holds always, not 95% of the time: it follows from what the clients sent, if they were honest.",
        ),
        (
            "No privacy guarantee",
            "is given. Only sums over cells left the clients, which is hygiene: sums over few samples, or the"
            " differences of sums from round to round, can tell single samples.",
        ),
    ]
    return tag("div", *(tag("p", tag("b", term), " ", said) for term, said in rows), class_="three")


def _table(result: CoresetResult) -> str:
    digits = _digits(result)

    def cell(number: float | None) -> str:
        return "" if number is None else escape(digits.text(number))

    rows = [
        [
            str(record.number),
            cell(record.loss),
            cell(record.lower),
            cell(record.upper),
            f"{record.shift:.3g}",
            str(record.sites),
            f"{record.seconds:.3f}",
        ]
        for record in result.history
    ]
    head = [
        "round",
        "loss",
        "certified lower",
        "certified upper",
        "atoms moved by",
        "clients",
        "seconds",
    ]
    return folded(
        "rounds", f"Show {counted(len(rows), 'round')}", table(head, rows, "Round by round")
    )
