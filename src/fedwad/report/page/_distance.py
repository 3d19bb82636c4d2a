"""The page of one distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedwad._distance.result import DistanceResult
from fedwad._words import pluralize
from fedwad.report.next_steps import distance_next_steps
from fedwad.report.page._curve import Band, Curve, Level, Part, chart
from fedwad.report.page._digits import Digits
from fedwad.report.page._figures import both_widths, round_ticks
from fedwad.report.page._frame import Section
from fedwad.report.page._opening import bold_name, opening, paragraph
from fedwad.report.page._pairs import folded, table
from fedwad.report.page._sent import facts, how_to_read, what_was_sent
from fedwad.report.page._text import escape, tag
from fedwad.report.page._why import why_distance
from fedwad.report.sentences import compared_distance, distance_answer
from fedwad.report.why import distance_why
from fedwad.tables import Schema

__all__ = ["distance_lead", "distance_sections", "distance_title"]

_METHODS = {"summary": "one summary from each site", "fedwad": "the paper's rounds"}
_AXIS_HEIGHT = 30.0  # pixels above the lines, for the numbers of the axis


def distance_title(result: DistanceResult) -> str:
    """The heading of the page."""
    return f"How far apart are {result.sites[0]} and {result.sites[1]}?"


def distance_lead(result: DistanceResult) -> str:
    """The answer in a few sentences."""
    verdict, *rest = distance_answer(result, bold_name)
    why = distance_why(result, bold_name, escape)
    return paragraph([verdict, *why], "lead") + paragraph(rest)


def _digits(result: DistanceResult) -> Digits:
    return Digits.fitting(
        [number for number in (result.value, result.upper) if math.isfinite(number)], 4
    )


def distance_sections(
    result: DistanceResult,
    exact: float | None,
    schema: Schema | None = None,
    warnings: Sequence[str] = (),
    shape: tuple[int, ...] | None = None,
) -> list[Section]:
    """All sections of the page, in order."""
    sections = opening(
        compared_distance(result, schema, bold_name),
        distance_next_steps(result, schema, _code),
        warnings,
    )
    sections.append(Section("The answer", _answer(result, exact)))
    why = why_distance(result, shape)
    if why:
        sections.append(Section("Why they differ", why))
    if result.history:
        sections.append(Section("The rounds", _rounds(result, exact), "left"))
    made = Section("How it was made", _made(result), "right")
    sent = what_was_sent(result.traffic, 2, result.min_cell_size, result.covariance_types)
    sections += [made, Section("What was sent", sent, "right" if result.history else "left")]
    sections.append(
        Section(
            "How to read it",
            how_to_read(_is_labelled(result), result.p, result.privacy, result.calibrated),
        )
    )
    if result.history:
        sections.append(Section("The numbers", _table(result)))
    return sections


def _code(command: str) -> str:
    return tag("code", escape(command))


def _is_labelled(result: DistanceResult) -> bool:
    return result.class_covariance is not None


def _made(result: DistanceResult) -> str:
    rows = [
        (
            "distance",
            "dataset distance, with labels"
            if _is_labelled(result)
            else f"{result.p:g}-Wasserstein",
        ),
        ("method", escape(f"{result.method}: {_METHODS.get(result.method, '')}".rstrip(": "))),
    ]
    if result.support is not None:
        rows.append(("support", pluralize(len(result.support), "point")))
    if result.history:
        seconds = sum(record.seconds for record in result.history)
        rows.append(("rounds", f"{len(result.history)} in {seconds:.3g} s"))
    return facts([*rows, ("seed", escape(result.seed))])


def _answer(result: DistanceResult, exact: float | None) -> str:
    """One line per number: populations, noise, samples, the paper's, and the exact distance."""
    lines: list[tuple[str, str, float]] = []
    if result.population is not None and result.noise is not None:
        lines.append(("the populations", "population", result.population))
        lines.append(("chance alone", "chance", result.noise))
    lines.append(("these samples" if lines else "our estimate", "ours", result.value))
    if result.fedwad is not None:
        lines.append(("the paper's estimate", "paper", result.fedwad))
    if exact is not None:
        lines.append(("exact, data pooled", "exact", float(exact)))
    return tag(
        "figure",
        both_widths(lambda width: _draw_answer(result, lines, 2 * width if width > 400 else width)),
    )


@dataclass(frozen=True)
class _Layout:
    """Where the lines of the answer stand: labels beside them on wide pages, above on narrow."""

    width: int
    low: float
    high: float

    @classmethod
    def of(cls, numbers: list[float], width: int) -> _Layout:
        """A layout whose axis holds all the numbers, with a margin."""
        low, high = min(numbers), max(numbers)
        margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        return cls(width, max(low - margin, 0.0) if low >= 0 else low - margin, high + margin)

    @property
    def is_wide(self) -> bool:
        return self.width > 400

    @property
    def left(self) -> float:
        return 236.0 if self.is_wide else 14.0

    def x(self, number: float) -> float:
        """Where a number is along the axis, in pixels."""
        share = min(max((number - self.low) / (self.high - self.low), 0.0), 1.0)
        return self.left + (self.width - self.left - 20) * share

    def y(self, line: int) -> float:
        """The height of a line, counted from the top, in pixels."""
        return _AXIS_HEIGHT + (40.0 * line + 20 if self.is_wide else 54.0 * line + 36)

    def bottom(self, lines: int) -> float:
        return _AXIS_HEIGHT + (40.0 if self.is_wide else 54.0) * lines

    def label(self, text: str, line: int) -> str:
        y = self.y(line)
        if self.is_wide:
            place: dict[str, object] = {"x": self.left - 20, "y": y, "text_anchor": "end"}
        else:
            place = {"x": self.left, "y": y - 20, "text_anchor": "start"}
        return tag("text", escape(text), dy="0.35em", **place)


def _draw_answer(result: DistanceResult, lines: list[tuple[str, str, float]], width: int) -> str:
    digits = _digits(result)
    intervals = {"ours": (result.lower, result.upper)}
    if result.population_interval is not None:
        intervals["population"] = result.population_interval
    numbers = [number for _, _, number in lines] + [
        end for pair in intervals.values() for end in pair
    ]
    layout = _Layout.of([number for number in numbers if math.isfinite(number)], width)
    bottom = layout.bottom(len(lines))
    rows = []
    for k, (label, style, number) in enumerate(lines):
        rows.append(layout.label(f"{label} · {digits.text(number)}", k))
        y = f"{layout.y(k):.1f}"
        if style in intervals:
            lower, upper = intervals[style]
            upper = upper if math.isfinite(upper) else layout.high
            line = f"M{layout.x(lower):.1f} {y}H{layout.x(upper):.1f}"
            rows.append(tag("path", d=line, class_=f"interval {style}"))
        dot = f"M{layout.x(number):.1f} {y}h0"
        rows.append(tag("path", d=dot, class_=f"dots large {style}"))
    interval = digits.interval(result.lower, result.upper)
    certainty = "certified" if result.certified else "likely"
    return tag(
        "svg",
        tag("g", *_ticks(layout, bottom), class_="axis"),
        tag("g", *rows, class_="estimates"),
        viewBox=f"0 0 {width} {bottom:.0f}",
        role="img",
        aria_label=f"Our estimate {digits.text(result.value)}, {certainty} {interval}",
    )


def _ticks(layout: _Layout, bottom: float) -> list[str]:
    """Vertical lines at round numbers."""
    ticks = round_ticks(layout.low, layout.high, 8 if layout.is_wide else 4)
    texts = Digits.fitting([*ticks, ticks[-1] - ticks[0]], 2).texts(ticks)
    return [
        tag("path", d=f"M{layout.x(tick):.1f} {_AXIS_HEIGHT - 6:.0f}V{bottom:.0f}")
        + tag("text", escape(text), x=layout.x(tick), y=_AXIS_HEIGHT - 14, text_anchor="middle")
        for tick, text in zip(ticks, texts, strict=True)
    ]


def _rounds(result: DistanceResult, exact: float | None) -> str:
    def finite_points(attribute: str) -> list[tuple[int, float]]:
        found = [(record.number, getattr(record, attribute)) for record in result.history]
        return [
            (number, float(height))
            for number, height in found
            if height is not None and math.isfinite(height)
        ]

    curves = [
        Curve("the paper's estimate", finite_points("fedwad"), "paper"),
        Curve("certified upper bound", finite_points("upper"), "ours"),
        Curve("the server's running estimate", finite_points("running"), "running"),
    ]
    parts: list[Part] = [curve for curve in curves if curve.points]
    if not parts:
        return tag("p", "No round has a number to show.")
    if math.isfinite(result.upper):
        parts.append(Band("certified interval at the end", result.lower, result.upper, "ours"))
    parts.append(Level("our estimate", result.value, "ours"))
    if exact is not None:
        parts.append(Level("exact, data pooled", float(exact), "exact"))
    return chart(parts, "What the server knew after each round.")


def _table(result: DistanceResult) -> str:
    digits = _digits(result)

    def cell(number: Any, rounding: Any = "nearest") -> str:
        return "" if number is None else escape(digits.text(float(number), rounding))

    rows = [
        [
            str(record.number),
            cell(record.running),
            cell(record.fedwad),
            cell(record.upper, "up"),
            str(record.support),
            f"{record.seconds:.3f}",
        ]
        for record in result.history
    ]
    head = ["round", "running", "paper's estimate", "certified upper", "support", "seconds"]
    return folded(
        "rounds", f"Show {pluralize(len(rows), 'round')}", table(head, rows, "Round by round")
    )
