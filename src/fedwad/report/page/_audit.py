"""The page of an audit: what each attack got, and reconstructed records beside the originals."""

from __future__ import annotations

import base64
import io
import math
from datetime import datetime
from pathlib import Path

import numpy as np

from fedwad._audit import AuditResult, Row
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.page._frame import Section, write_page
from fedwad.report.page._pairs import table
from fedwad.report.page._sent import facts
from fedwad.report.page._text import counted, escape, tag

__all__ = ["write_audit"]

_SMALLEST_IMAGE = 36  # pixels; four features are four features, not an image
_SIDE = 64
_NUMBERS = 6


def write_audit(
    result: AuditResult,
    path: str | Path,
    *,
    command: str | None = None,
    title: str | None = None,
    when: datetime | None = None,
) -> None:
    """Write what an audit found into one HTML file that needs nothing else.

    The page shows a few records and what was reconstructed of them, so it belongs where the data
    are. A result that was loaded from a file has none to show.
    """
    if not isinstance(result, AuditResult):
        raise InputError(
            f"The result is a {type(result).__name__}; give the answer of fedwad.audit."
        )
    sections = [Section("The verdict", _verdicts(result)), Section("The attacks", _attacks(result))]
    if result.samples is not None:
        sections.append(Section("Records, and what came back", _beside(result)))
    sections += [
        Section("How it was made", _made(result), "left"),
        Section("How to read it", _reading(), "right"),
    ]
    heading = title or "What could a curious server reconstruct?"
    write_page(path, heading, sections, lead=_lead(result), command=command, when=when)


def _lead(result: AuditResult) -> str:
    if not result.leaks:
        said = (
            f"No attack got more of {counted(result.count, 'record')} than a fresh draw would give."
        )
    elif result.recovered:
        said = f"{result.recovered:,} of {counted(result.count, 'record')} came back exactly."
    else:
        said = f"Some of {counted(result.count, 'record')} came back nearly."
    return tag("p", escape(f"Under {result.policy}: {said}"), class_="lead")


def _verdicts(result: AuditResult) -> str:
    warning = "warning"
    parts = [
        tag(
            "p",
            escape(result.verdict(method)),
            class_=warning if _is_broken(result, method) else None,
        )
        for method in result.methods
    ]
    return "".join(parts)


def _is_broken(result: AuditResult, method: str) -> bool:
    return any(row.leaks for row in result.rows if row.method == method)


def _attacks(result: AuditResult) -> str:
    head = ["attack", "on", "asks", "verdict", "answers", "exactly", "within 10%", "closest"]
    rows = [
        [
            escape(row.attack),
            escape(row.method),
            escape(row.asks),
            escape(row.verdict(result.count)),
            str(row.answered),
            *_numbers(row),
        ]
        for row in result.rows
    ]
    base = result.baseline
    fresh = [
        "a fresh draw, for comparison",
        "",
        "",
        "",
        "",
        str(base.exact),
        str(base.near),
        _share(base.closest),
    ]
    return tag(
        "div", table(head, [*rows, fresh], "What each attack got", names=4), class_="scroller"
    )


def _numbers(row: Row) -> list[str]:
    known = math.isfinite(row.score.closest)
    return (
        [str(row.score.exact), str(row.score.near), _share(row.score.closest)]
        if known
        else ["", "", ""]
    )


def _share(closest: float) -> str:
    return f"{closest:.2f}" if math.isfinite(closest) else ""


def _beside(result: AuditResult) -> str:
    samples = result.samples
    assert samples is not None  # noqa: S101
    lines: list[tuple[str, Floats]] = [("your records", samples.records)]
    for row in result.rows:
        guesses = samples.guesses.get((row.method, row.attack))
        if guesses is not None:
            lines.append((f"{row.method}: {row.attack}", guesses))
    side = math.isqrt(result.features)
    is_image = side * side == result.features >= _SMALLEST_IMAGE and bool(
        (samples.records >= 0).all()
    )
    if is_image:
        low, high = float(samples.records.min()), float(samples.records.max())
        drawn = [[_image(one, side, low, high) for one in points] for _, points in lines]
    else:
        drawn = [[escape(_in_numbers(one)) for one in points] for _, points in lines]
    body = [[escape(name), *cells] for (name, _), cells in zip(lines, drawn, strict=True)]
    head = ["", *(f"record {k + 1}" for k in range(len(samples.records)))]
    warning = tag("p", "This page shows records: keep it where the data are.", class_="warning")
    return warning + tag(
        "div", table(head, body, "The closest guess to each record"), class_="scroller"
    )


def _image(pixels: Floats, side: int, low: float, high: float) -> str:
    """One record as a small picture, dark on light."""
    from PIL import Image

    shade = np.clip((pixels.reshape(side, side) - low) / (high - low or 1.0), 0, 1)
    picture = Image.fromarray((255 - np.rint(255 * shade)).astype(np.uint8))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return f'<img src="{source}" width="{_SIDE}" height="{_SIDE}" alt="" style="image-rendering: pixelated">'


def _in_numbers(record: Floats) -> str:
    told = ", ".join(f"{number:.4g}" for number in record[:_NUMBERS])
    return told + (", ..." if len(record) > _NUMBERS else "")


def _made(result: AuditResult) -> str:
    part = counted(result.count, "record")
    if result.count < result.of:
        part += f", drawn from {result.of:,}"
    return facts(
        [
            ("records", escape(part)),
            ("features", escape(f"{result.features:,}")),
            ("policy", escape(result.policy)),
            ("seed", escape(result.seed)),
            ("sent", "nothing; all of it ran on one machine"),
        ]
    )


def _reading() -> str:
    rows = [
        (
            "Exactly",
            "within a millionth of the typical distance between a record and its nearest neighbour.",
        ),
        ("Closest", "the median distance from a record to the closest guess, in such distances."),
        (
            "A fresh draw",
            "is what other records of the same kind tell about each of yours. A leak is more than that.",
        ),
        (
            "No proof",
            "follows from attacks that fail. Differential privacy is the promise that holds against all.",
        ),
    ]
    return tag("div", *(tag("p", tag("b", term), " ", said) for term, said in rows))
