"""The page of an audit: the outcome of each attack, and reconstructions beside the records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from fedwad._words import format_value, pluralize
from fedwad.audit import AuditResult, Samples, Score
from fedwad.report.page._coreset import png
from fedwad.report.page._text import picture
from fedwad.transport import Floats


def audit_page(result: AuditResult) -> dict[str, Any]:
    """What the template of an audit shows: a few records and their reconstructions too.

    A result that was loaded from a file has none to show.
    """
    records = pluralize(result.n_attacked, "record")
    if not any(row.leaks and not row.words for row in result.rows):
        answer = f"No attack got more of {records} than a fresh sample would give."
        if any(row.tells_members for row in result.rows):
            answer = f"No attack reconstructed more of {records} than a fresh sample would give,"
            answer += " but rows of the data are told from others."
    elif result.recovered:
        answer = f"{result.recovered:,} of {records} reconstructed exactly."
    else:
        answer = f"Some of {records} nearly reconstructed."
    leaking = {row.method for row in result.rows if row.leaks}
    drawn = f", drawn from {result.n_records:,}" if result.n_attacked < result.n_records else ""
    return {
        "title": "What could a curious server reconstruct?",
        "sentence": f"Under {result.policy}: {answer}",
        "verdicts": [(result.verdict(method), method in leaking) for method in result.methods],
        "numbers": _numbers,
        "guesses": [] if result.samples is None else records_and_guesses(result.samples),
        "records": records + drawn,
    }


def _numbers(score: Score) -> list[str]:
    """Records reconstructed exactly and nearly, and the closest distance; empty without guesses."""
    if not math.isfinite(score.closest):
        return ["", "", ""]
    return [str(score.exact), str(score.near), f"{score.closest:.2f}"]


def records_and_guesses(samples: Samples) -> list[dict[str, Any]]:
    """Tables of a few records, and the closest guess of each attack to each of them.

    Records are images if they are squares of 36 numbers or more, without names. Else there is a
    table for each record: a row for each column, and a column for each attack.
    """
    rows = [("your record", samples.records)]
    rows += [
        (f"{method}: {attack}", points) for (method, attack), points in samples.guesses.items()
    ]
    count, features = samples.records.shape
    low, high = float(samples.records.min()), float(samples.records.max())
    side = math.isqrt(features)
    if side * side == features >= 36 and low >= 0 and samples.features is None:

        def image(pixels: Floats) -> Markup:  # dark on light
            shade = np.clip((pixels.reshape(side, side) - low) / (high - low or 1.0), 0, 1)
            return picture(png(1 - shade), "", width=64, height=64)

        return [
            {
                "head": ["", *(f"record {k + 1}" for k in range(count))],
                "rows": [[title, *map(image, points)] for title, points in rows],
                "caption": "The closest guess to each record",
            }
        ]
    schema = samples.schema
    names = samples.features or tuple(f"column {k + 1}" for k in range(features))

    def texts(record: Floats) -> dict[str, str]:
        if schema is None:
            return {name: f"{value:.4g}" for name, value in zip(names, record, strict=True)}
        values = schema.describe(record).items()
        return {column: format_value(value, schema[column].kind) for column, value in values}

    tables: list[dict[str, Any]] = []
    for k in range(min(3, count)):
        cells = [texts(points[k]) for _, points in rows]
        shown = list(cells[0])[:20]
        caption = f"Record {k + 1}, and the closest guess of each attack"
        if len(cells[0]) > len(shown):
            caption += f" (the first {len(shown)} of {len(cells[0])} columns)"
        tables.append(
            {
                "head": ["column", *(title for title, _ in rows)],
                "rows": [[column, *(one[column] for one in cells)] for column in shown],
                "caption": caption,
            }
        )
    return tables
