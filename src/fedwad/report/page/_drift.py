"""The page of a comparison with a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from fedwad._drift.result import DriftResult
from fedwad._words import format_bytes
from fedwad.report.page._curve import Curve, Part, chart
from fedwad.report.page._elements import facts, scrolling, table
from fedwad.report.page._frame import Section, write_page
from fedwad.report.page._text import escape, escape_name, tag

__all__ = ["write_drift"]

#: One comparison of a history: what `DriftResult.line` returns. Its "test" is the number of the
#: comparison, and its "level" the largest p-value that counts as drift.
Entry = Mapping[str, Any]


def write_drift(
    result: DriftResult,
    entries: Sequence[Entry],
    path: str | Path,
    *,
    command: str | None = None,
    title: str | None = None,
    when: datetime | None = None,
) -> None:
    """Write a comparison and its history to one HTML file.

    Parameters
    ----------
    result : what `Reference.compare` returned
    entries : all comparisons with the reference, which `Reference.history` returns; the page shows
        them over time if there are several
    path : the file; it is written completely or not at all
    command : the command that made the result
    title : the heading; by default a question
    when : the date on the page; by default now
    """
    reference, new = result.distance.sites
    sections = []
    if result.drift:
        sections.append(Section("What has changed", scrolling(result.explain()._repr_html_())))
    if len(entries) > 1:
        sections.append(Section("Over time", _over_time(entries)))
    sections += [
        Section("The numbers", _numbers(result), "left"),
        Section("How to read it", _how_to_read(result), "right"),
    ]
    if len(entries) > 1:
        sections.append(Section("All comparisons", _table(entries)))
    write_page(
        path,
        title or f"Has {new} drifted from {reference}?",
        sections,
        lead=tag("p", escape(result.sentence), class_="lead"),
        command=command,
        when=when,
    )


def _over_time(entries: Sequence[Entry]) -> str:
    points = [(int(entry["test"]), float(entry["value"])) for entry in entries]
    chance = [(int(entry["test"]), float(entry["noise"])) for entry in entries if entry["noise"]]
    # The style sheet names its colours after the curves of a distance by round.
    parts: list[Part] = [Curve("distance from the reference", points, "ours")]
    if chance:
        parts.append(Curve("chance alone", chance, "running"))
    alarms = [point for point, entry in zip(points, entries, strict=True) if entry["drift"]]
    if alarms:
        parts.append(Curve("drift", alarms, "paper"))
    return chart(
        parts, "Distances between new data and the reference.", "comparison number", from_zero=True
    )


def _numbers(result: DriftResult) -> str:
    distance = result.distance
    rows = [("distance", f"{distance.value:.4g}")]
    if distance.noise is not None and distance.population is not None:
        rows.append(("chance alone", f"{distance.noise:.4g}"))
        text = f"{distance.population:.4g}"
        if distance.population_interval is not None:
            low, high = distance.population_interval
            text += f" (95% interval {low:.4g} to {high:.4g})"
        rows.append(("between populations", text))
    rows += [
        ("p-value", f"{result.pvalue:.3g}"),
        ("significance level", f"{result.level:.3g}"),
        ("comparison number", str(result.test)),
        ("blocks of rows", f"{result.blocks[0]} and {result.blocks[1]}"),
        ("sent about the new data", format_bytes(distance.traffic.up)),
    ]
    if distance.rows:
        rows.insert(0, ("rows", f"{distance.rows[0]} and {distance.rows[1]}"))
    return facts(rows)


def _how_to_read(result: DriftResult) -> str:
    test = (
        "The test exchanges blocks of rows between the reference and the new data at random. The"
        " p-value is the fraction of exchanges after which the two differ at least as much as they"
        " do now. It is valid if rows are independent, whatever their distribution."
    )
    level = f"Drift is reported if the p-value is at most {result.level:.2g}."
    if result.level != result.alpha:  # with a history
        level += (
            f" The significance levels of all comparisons with one reference sum to"
            f" {result.alpha:g}. Therefore the probability of any false alarm is at most"
            f" {result.alpha:g}, however many comparisons there are."
        )
    return tag("p", escape(test)) + tag("p", escape(level))


def _table(entries: Sequence[Entry]) -> str:
    rows = [
        [
            escape_name(str(entry["site"])),
            escape(str(entry["test"])),
            escape(f"{entry['value']:.4g}"),
            escape("" if entry["noise"] is None else f"{entry['noise']:.4g}"),
            escape(f"{entry['pvalue']:.2g}"),
            escape(f"{entry['level']:.2g}"),
            "drift" if entry["drift"] else "",
        ]
        for entry in entries
    ]
    head = ["new data", "number", "distance", "chance alone", "p-value", "level", "verdict"]
    return scrolling(table(head, rows, "Comparisons with this reference"))
