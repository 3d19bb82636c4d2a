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

Line = Mapping[str, Any]


def write_drift(
    result: DriftResult,
    lines: Sequence[Line],
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
    lines : the lines of the history, or that of this comparison alone
    path : the file; it is written completely or not at all
    """
    before, after = result.distance.sites
    sections = []
    if result.drift:
        sections.append(Section("What has changed", scrolling(result.explain()._repr_html_())))
    if len(lines) > 1:
        sections.append(Section("Over time", _over_time(lines)))
    sections += [
        Section("The numbers", _numbers(result), "left"),
        Section("How to read it", _how_to_read(result), "right"),
    ]
    if len(lines) > 1:
        sections.append(Section("All comparisons", _table(lines)))
    write_page(
        path,
        title or f"Has {after} drifted from {before}?",
        sections,
        lead=tag("p", escape(result.sentence), class_="lead"),
        command=command,
        when=when,
    )


def _over_time(lines: Sequence[Line]) -> str:
    points = [(int(line["test"]), float(line["value"])) for line in lines]
    chance = [(int(line["test"]), float(line["noise"])) for line in lines if line["noise"]]
    parts: list[Part] = [Curve("distance from the reference", points, "ours")]
    if chance:
        parts.append(Curve("chance alone", chance, "running"))
    alarms = [point for point, line in zip(points, lines, strict=True) if line["drift"]]
    if alarms:
        parts.append(Curve("drift", alarms, "paper"))
    return chart(parts, "Distances between new data and the reference.", "comparison", zero=True)


def _numbers(result: DriftResult) -> str:
    found = result.distance
    rows = [("distance", f"{found.value:.4g}")]
    if found.noise is not None and found.population is not None:
        rows.append(("chance alone", f"{found.noise:.4g}"))
        low, high = found.population_interval or (found.population, found.population)
        rows.append(("between populations", f"{found.population:.4g} ({low:.4g} to {high:.4g})"))
    rows += [
        ("p-value", f"{result.pvalue:.3g}"),
        ("level", f"{result.level:.3g}"),
        ("comparison", str(result.test)),
        ("blocks of rows", f"{result.blocks[0]} and {result.blocks[1]}"),
        ("sent by the new data", format_bytes(found.traffic.up)),
    ]
    if found.rows:
        rows.insert(0, ("rows", f"{found.rows[0]} and {found.rows[1]}"))
    return facts(rows)


def _how_to_read(result: DriftResult) -> str:
    texts = [
        "Blocks of rows are exchanged at random between the reference and the new data. The p-value"
        " is the share of exchanges after which the two differ at least as much as they do in fact."
        " It is exact if rows are independent, whatever their distribution.",
        f"Drift is called at level {result.level:.2g}. The levels of all comparisons with one"
        f" reference sum to {result.alpha:g}, so false alarms over all of them have probability"
        f" {result.alpha:g} at most.",
    ]
    if result.test == 1:
        texts[1] = f"Drift is called at level {result.level:.2g}."
    return "".join(tag("p", escape(text)) for text in texts)


def _table(lines: Sequence[Line]) -> str:
    rows = [
        [
            escape_name(str(line["site"])),
            escape(str(line["test"])),
            escape(f"{line['value']:.4g}"),
            escape("" if line["noise"] is None else f"{line['noise']:.4g}"),
            escape(f"{line['pvalue']:.2g}"),
            escape(f"{line['level']:.2g}"),
            "drift" if line["drift"] else "",
        ]
        for line in lines
    ]
    head = ["new data", "comparison", "distance", "chance alone", "p", "level", ""]
    return scrolling(table(head, rows, "Comparisons with this reference", names=1))
