"""The page of an audit: the outcome of each attack, and reconstructions beside the records."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path

from fedwad._audit import AuditResult, Score
from fedwad._words import pluralize
from fedwad.errors import InputError
from fedwad.report.page._elements import facts, scrolling, table, term_paragraphs
from fedwad.report.page._frame import Section, write_page
from fedwad.report.page._records import records_and_guesses
from fedwad.report.page._text import escape, tag

__all__ = ["write_audit"]


def write_audit(
    result: AuditResult,
    path: str | Path,
    *,
    command: str | None = None,
    title: str | None = None,
    when: datetime | None = None,
) -> None:
    """Write an audit as one self-contained HTML file.

    The page shows a few records and their reconstructions, so keep it with the data. A result that
    was loaded from a file has none to show.
    """
    if not isinstance(result, AuditResult):
        raise InputError(
            f"The result is a {type(result).__name__}; give the result of fedwad.audit."
        )
    sections = [Section("The verdict", _verdicts(result)), Section("The attacks", _attacks(result))]
    if result.samples is not None:
        sections.append(Section("Records and reconstructions", records_and_guesses(result.samples)))
    sections += [
        Section("How it was made", _method(result), "left"),
        Section("How to read it", term_paragraphs(_HOW_TO_READ, None), "right"),
    ]
    heading = title or "What could a curious server reconstruct?"
    write_page(path, heading, sections, lead=_lead(result), command=command, when=when)


def _lead(result: AuditResult) -> str:
    records = pluralize(result.n_attacked, "record")
    if not result.leaks:
        text = f"No attack got more of {records} than a fresh sample would give."
    elif result.recovered:
        text = f"{result.recovered:,} of {records} reconstructed exactly."
    else:
        text = f"Some of {records} nearly reconstructed."
    return tag("p", escape(f"Under {result.policy}: {text}"), class_="lead")


def _verdicts(result: AuditResult) -> str:
    leaking = {row.method for row in result.rows if row.leaks}
    return "".join(
        tag("p", escape(result.verdict(method)), class_="warning" if method in leaking else None)
        for method in result.methods
    )


def _attacks(result: AuditResult) -> str:
    head = ["attack", "method", "requests", "verdict", "answered"]
    head += ["exactly", "within 10%", "closest"]
    rows = [
        [
            escape(row.attack),
            escape(row.method),
            escape(row.requests),
            escape(row.verdict(result.n_attacked)),
            str(row.answered),
            *_numbers(row.score),
        ]
        for row in result.rows
    ]
    rows.append(["a fresh sample, for comparison", "", "", "", "", *_numbers(result.baseline)])
    return scrolling(table(head, rows, "What each attack got", text_columns=4), "attacks")


def _numbers(score: Score) -> list[str]:
    """Records reconstructed exactly and nearly, and the closest distance; empty without guesses."""
    if not math.isfinite(score.closest):
        return ["", "", ""]
    return [str(score.exact), str(score.near), f"{score.closest:.2f}"]


def _method(result: AuditResult) -> str:
    records = pluralize(result.n_attacked, "record")
    if result.n_attacked < result.n_records:
        records += f", drawn from {result.n_records:,}"
    return facts(
        [
            ("records", escape(records)),
            ("features", escape(f"{result.n_features:,}")),
            ("policy", escape(result.policy)),
            ("seed", escape(result.seed)),
            ("sent", "nothing; everything ran on one machine"),
        ]
    )


_HOW_TO_READ = (
    (
        "Exactly",
        "means within a millionth of the typical distance from a record to its nearest neighbour.",
    ),
    (
        "Closest",
        "is the median distance from a record to the closest guess, divided by the typical distance"
        " from a record to its nearest neighbour.",
    ),
    (
        "A fresh sample",
        "is what other records of the same population reveal about each of yours. A leak is more"
        " than that.",
    ),
    (
        "No proof",
        "follows from failed attacks. Differential privacy is a guarantee against all attacks.",
    ),
)
