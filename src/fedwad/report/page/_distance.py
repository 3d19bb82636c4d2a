"""The page of one distance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedwad._distance.result import DistanceResult
from fedwad._words import pluralize
from fedwad.report.next_steps import distance_next_steps
from fedwad.report.page._closing import distance_facts, how_to_read, rounds_text, what_was_sent
from fedwad.report.page._curve import Band, Curve, Level, Part, chart
from fedwad.report.page._digits import Digits, Rounding
from fedwad.report.page._elements import bold_name, code, collapsible, facts, paragraph, table
from fedwad.report.page._figures import HorizontalAxis, draw_both_widths
from fedwad.report.page._frame import Section
from fedwad.report.page._opening import opening
from fedwad.report.page._text import escape, tag
from fedwad.report.page._why import why_distance
from fedwad.report.sentences import distance_answer, what_was_compared
from fedwad.report.why import distance_why
from fedwad.tables import Schema

__all__ = ["distance_lead", "distance_sections", "distance_title"]

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
    return Digits.for_numbers([result.value, result.upper], 4)


def distance_sections(
    result: DistanceResult,
    exact: float | None,
    schema: Schema | None = None,
    warnings: Sequence[str] = (),
    shape: tuple[int, ...] | None = None,
) -> list[Section]:
    """All sections of the page, in order."""
    sections = opening(
        what_was_compared(result, schema, bold_name),
        distance_next_steps(result, schema, code),
        warnings,
    )
    sections.append(Section("The answer", _estimates(result, exact)))
    why = why_distance(result, shape)
    if why:
        sections.append(Section("Why they differ", why))
    if result.history:
        sections.append(Section("The rounds", _rounds(result, exact), "left"))
    sent = what_was_sent(result.traffic, 2, result.min_cell_size, result.covariance_types)
    sections += [
        Section("How it was made", _method(result), "right"),
        Section("What was sent", sent, "right" if result.history else "left"),
        Section("How to read it", how_to_read(result, result.calibrated)),
    ]
    if result.history:
        sections.append(Section("The numbers", _table(result)))
    return sections


def _method(result: DistanceResult) -> str:
    rows = distance_facts(result)
    if result.support is not None:
        rows.append(("support", pluralize(len(result.support), "point")))
    if result.history:
        rows.append(("rounds", rounds_text(result.history)))
    return facts([*rows, ("seed", escape(result.seed))])


def _estimates(result: DistanceResult, exact: float | None) -> str:
    """A line for each number: populations, noise, samples, the paper's, and the exact distance."""
    lines: list[tuple[str, str, float]] = []  # label, class of the style sheet, number
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
        draw_both_widths(
            lambda width: _draw_estimates(result, lines, 2 * width if width > 400 else width)
        ),
    )


def _draw_estimates(result: DistanceResult, lines: list[tuple[str, str, float]], width: int) -> str:
    """The lines as dots on one axis; labels are beside them, or above in a narrow figure."""
    digits, is_wide = _digits(result), width > 400
    intervals = {"ours": (result.lower, result.upper)}
    if result.population_interval is not None:
        intervals["population"] = result.population_interval
    ends = [end for pair in intervals.values() for end in pair]
    left = 236.0 if is_wide else 14.0
    low, high = _limits([*(number for _, _, number in lines), *ends])
    axis = HorizontalAxis(left, width - left - 20, low, high)
    row_height = 40.0 if is_wide else 54.0
    bottom = _AXIS_HEIGHT + row_height * len(lines)
    rows = []
    for k, (label, style, number) in enumerate(lines):
        y = _AXIS_HEIGHT + row_height * k + (20 if is_wide else 36)
        x, y_text, anchor = (left - 20, y, "end") if is_wide else (left, y - 20, "start")
        text = escape(f"{label} · {digits.text(number)}")
        rows.append(tag("text", text, dy="0.35em", x=x, y=y_text, text_anchor=anchor))
        rows.append(_interval(axis, y, style, intervals.get(style)))
        dot = f"M{axis.x(number):.1f} {y:.1f}h0"
        rows.append(tag("path", d=dot, class_=f"dots large {style}"))
    interval = digits.interval(result.lower, result.upper)
    certainty = "certified" if result.certified else "likely"
    return tag(
        "svg",
        axis.grid(_AXIS_HEIGHT - 6, bottom, 8 if is_wide else 4),
        tag("g", *rows, class_="estimates"),
        viewBox=f"0 0 {width} {bottom:.0f}",
        role="img",
        aria_label=f"Our estimate {digits.text(result.value)}, {certainty} {interval}",
    )


def _interval(axis: HorizontalAxis, y: float, style: str, ends: tuple[float, float] | None) -> str:
    """An interval as a bar, to the end of the axis if it has no upper end; empty for None."""
    if ends is None:
        return ""
    lower, upper = ends
    right = axis.x(upper if math.isfinite(upper) else axis.high)
    line = f"M{axis.x(lower):.1f} {y:.1f}H{right:.1f}"
    return tag("path", d=line, class_=f"interval {style}")


def _limits(numbers: list[float]) -> tuple[float, float]:
    """First and last number of an axis that shows all finite numbers, with a margin."""
    finite = [number for number in numbers if math.isfinite(number)]
    low, high = min(finite), max(finite)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return max(low - margin, 0.0) if low >= 0 else low - margin, high + margin


def _rounds(result: DistanceResult, exact: float | None) -> str:
    def finite_points(attribute: str) -> list[tuple[int, float]]:
        points = [(record.number, getattr(record, attribute)) for record in result.history]
        return [
            (round_number, float(number))
            for round_number, number in points
            if number is not None and math.isfinite(number)
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

    def number_or_empty(number: float | None, rounding: Rounding = "nearest") -> str:
        return "" if number is None else escape(digits.text(float(number), rounding))

    rows = [
        [
            str(record.number),
            number_or_empty(record.running),
            number_or_empty(record.fedwad),
            number_or_empty(record.upper, "up"),
            str(record.support),
            f"{record.seconds:.3f}",
        ]
        for record in result.history
    ]
    head = [
        "round",
        "running estimate",
        "paper's estimate",
        "certified upper",
        "support",
        "seconds",
    ]
    return collapsible(
        "rounds", f"Show {pluralize(len(rows), 'round')}", table(head, rows, "Round by round")
    )
