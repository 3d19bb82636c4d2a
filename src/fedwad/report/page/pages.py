"""The page of each kind of result: what its template shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from fedwad._words import format_bytes, format_value, pluralize
from fedwad.audit import AuditResult, Samples, Score
from fedwad.compare import (
    DistanceResult,
    DriftResult,
    EmbeddingResult,
    MatrixResult,
    PermutationTestResult,
    describe_clusters,
    groups_in_words,
    plane,
)
from fedwad.compare.digits import Digits
from fedwad.compare.table_one import ABOUT, ABOUT_IN_WORDS, WITHHELD, Bars, ColumnsResult, TableRow
from fedwad.coresets.result import CoresetResult
from fedwad.errors import InputError
from fedwad.learning import TrainingResult
from fedwad.report.page._colour import CLUSTER_COLOURS
from fedwad.report.page._coreset import coreset_page
from fedwad.report.page._figures import HorizontalAxis, Part, PointMap, chart, draw_both_widths
from fedwad.report.page._matrix import matrix_page
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import drawing, escape, tag
from fedwad.report.page._why import columns_of
from fedwad.report.page.render import write_page
from fedwad.site.store import Entry
from fedwad.tables import Schema
from fedwad.transport import Floats

Content = dict[str, Any]

_PLAN_TITLE = "Is differential privacy feasible at this size?"


def write_report(
    result: Any,
    path: str | Path,
    *,
    command: str | None = None,
    title: str | None = None,
    when: datetime | None = None,
    clusters: Any = None,
    shape: tuple[int, ...] | None = None,
    schema: Schema | None = None,
    warnings: Sequence[str] = (),
    newcomer: str | None = None,
    columns: ColumnsResult | None = None,
    ledgers: Mapping[str, Sequence[Entry]] | None = None,
    policies: Mapping[str, str] | None = None,
    entries: Sequence[Mapping[str, Any]] = (),
    sentence: str = "",
) -> None:
    """Write the page of a result as one HTML file.

    The page of an audit shows a few records and their reconstructions, so keep it with the data.

    Parameters
    ----------
    result : the result of `fedwad.distance`, `matrix`, `permutation_test`, `columns`, `embed`,
        `coreset`, `audit` or `Reference.compare`; a list of those of `fedwad.privacy.plan`; or
        trainings of the same sites by name, such as "all together" and "in clusters"
    path : the file; it is written completely or not at all
    command : the command that made the result
    title : the heading; by default a question
    when : the date on the page; by default now
    clusters : for a matrix or an embedding, an integer label for each site
    shape : for a coreset whose points are images, their shape, (28, 28) or (32, 32, 3); by default
        a square
    schema : the schema that encoded the sites' tables; the page says which columns were compared
    warnings : sentences to show near the top, such as conflicts between the sites' tables
    newcomer : for a matrix, a site that has just joined; the page begins with where it belongs
    columns : Table 1 of the same sites, from `fedwad.columns`, which the page shows first
    ledgers : what each site recorded as sent, where the sites are in this process
    policies : the name of the policy under which each site answered
    entries : for a drift, all comparisons with the reference, from `Reference.history`; the page
        shows them over time if there are several
    sentence : for plans, what the page begins with
    """
    if clusters is not None and not isinstance(result, MatrixResult | EmbeddingResult):
        raise InputError("clusters belong to a matrix or an embedding.", "conflicting-options")
    if shape is not None and not isinstance(result, CoresetResult):
        raise InputError("shape belongs to a coreset.", "conflicting-options")
    if isinstance(result, DistanceResult):
        template, content = "distance", _distance_page(result, schema)
    elif isinstance(result, MatrixResult):
        view = MatrixView.of(result, clusters, schema, newcomer)
        template, content = "matrix", matrix_page(view)
    elif isinstance(result, PermutationTestResult):
        template, content = "test", _test_page(result)
    elif isinstance(result, ColumnsResult):
        template, content = "columns", _columns_page(result)
    elif isinstance(result, EmbeddingResult):
        template, content = "embedding", _embedding_page(result, clusters)
    elif isinstance(result, CoresetResult):
        template, content = "coreset", coreset_page(result, shape)
    elif isinstance(result, DriftResult):
        template, content = "drift", _drift_page(result, entries or [result.line()])
    elif isinstance(result, AuditResult):
        template, content = "audit", audit_page(result)
    elif isinstance(result, Mapping):
        template, content = "training", _training_page(result)
    elif isinstance(result, list):
        template = "plan"
        content = {"title": _PLAN_TITLE, "sentence": sentence}
    else:
        raise InputError(
            f"The result is a {type(result).__name__}; give one of fedwad.distance, matrix,"
            " permutation_test, columns, embed, coreset, audit or a comparison with a reference.",
            "bad-option",
        )
    if columns is not None:  # of very many columns and sites only what fits on a page
        content["columns"] = _table_one(columns, 2000 // len(columns.sites))
    shared = {
        "result": result,
        "sentence": getattr(result, "sentence", ""),
        "failed": getattr(result, "failed", {}),
        "columns": None,
        "warnings": warnings,
        "ledgers": _sent(ledgers or {}, policies or {}),
    }
    given = {} if title is None else {"title": title}
    write_page(path, template, command=command, when=when, **(shared | content | given))


def _sent(ledgers: Mapping[str, Sequence[Entry]], policies: Mapping[str, str]) -> list[list[str]]:
    """A row for each site and kind of reply: how many, policy, numbers, bytes, smallest cell."""
    rows = []
    for site, entries in ledgers.items():
        sent = [one for one in entries if one.is_query and one.outcome == "answered"]
        for kind in dict.fromkeys(one.kind for one in sent):
            same = [one for one in sent if one.kind == kind]
            cells = [one.min_cell_size for one in same if one.min_cell_size]
            numbers, size = sum(one.values for one in same), sum(one.bytes for one in same)
            texts = [f"{len(same):,}", f"{numbers:,}", format_bytes(size)]
            least = str(min(cells)) if cells else ""
            rows.append([site, kind, policies.get(site, ""), *texts, least])
    return rows


# --- Table 1

_MAX_OPEN = 20  # columns that show at once; the others are behind a switch
_MAX_LEVELS = 12  # bars of levels in a small picture; all are among the numbers


def _columns_page(result: ColumnsResult) -> Content:
    rows, seen = [], set()
    for row in result.table():
        rows.append(["" if row.column in seen else row.column, row.statistic, *row.texts])
        seen.add(row.column)
    return {
        "title": "Which columns differ between the sites?",
        "columns": _table_one(result),
        "numbers": {"head": ["column", "", *result.sites], "rows": rows},
    }


def _table_one(t: ColumnsResult, most: int | None = None) -> Content:
    """Each column with a small picture at each site; grey where a site has too few rows to tell.

    With `most`, there are at most so many columns, the first ones.
    """
    order = t.order[:most]
    few = [t.differs is None or site not in t.tested for site in t.sites]
    named = (t.rows and any(few) and t.test is not None) or t.enough
    sites = [
        {"name": name, "rows": rows, "few": bool(named) and is_few}
        for name, rows, is_few in zip(t.sites, t.rows, few, strict=True)
    ]
    texts: dict[str, list[TableRow]] = {}
    for row in t.table():
        texts.setdefault(row.column, []).append(row)
    rows = [
        _table_one_row(t, k, place >= _MAX_OPEN, texts.get(t.names[k], []), sites)
        for place, k in enumerate(order)
    ]
    grey = any(cell["few"] for row in rows for cell in row["cells"])
    smooth = any(line.statistic.startswith(ABOUT) for lines in texts.values() for line in lines)
    return {
        "sites": sites,
        "rows": rows,
        "more": max(len(rows) - _MAX_OPEN, 0),
        "left": len(t.names) - len(rows),
        "caption": "n is the number of rows with a value"
        + (", in grey where they are too few to tell" if grey else "")
        + (f"; {ABOUT_IN_WORDS}" if smooth else ""),
    }


def _table_one_row(
    t: ColumnsResult, k: int, late: bool, lines: Sequence[Any], sites: Sequence[Content]
) -> Content:
    numbers = (t.pvalue[k], t.smd[k], t.missing_smd[k])
    texts = ("" if math.isnan(number) else f"{number:.2g}" for number in numbers)
    pvalue, smd, missing = (text.replace("inf", "∞") for text in texts)
    bars, is_number = t.columns[k].bars(), t.kinds[k] in ("number", "date")
    reason = t.reasons[k].removeprefix("not compared")
    about = (
        t.kinds[k] + (", not compared" if t.reasons[k] else "") + (f": {reason}" if reason else "")
    )
    if t.missing_smd[k] > 0:
        about += "" if smd or not pvalue else "; too few values for an SMD"
        about += f"; missing: SMD {missing}"
    shown = [line for line in lines if is_number or line.statistic in ("missing", "label")]
    cells = []
    for place, site in enumerate(t.sites):
        one, fractions = t.columns[k][place], None if bars is None else bars.fractions[place]
        picture, levels = Markup(), []
        if bars is not None and fractions is None and one is not None and one.count != 0:
            picture = tag("div", WITHHELD, class_="kind")
        elif bars is not None and fractions is not None and is_number:
            picture = _histogram(bars, fractions, f"{t.names[k]} at {site}")
        elif bars is not None and fractions is not None:
            levels = list(zip(bars.labels, fractions.tolist(), strict=True))[:_MAX_LEVELS]
        count = [] if one is None or one.count is None else [f"n = {one.count:,}"]
        numbers_here = [
            f"{line.statistic}: {line.texts[place]}"
            for line in shown
            if line.statistic != "missing" or one is None or one.missing != 0
        ]
        few = bool(sites[place]["few"]) or (one is not None and 0 < (one.count or 0) < 10)
        cells.append(
            {"picture": picture, "levels": levels, "lines": [*count, *numbers_here], "few": few}
        )
    more = 0 if bars is None or is_number else max(len(bars.labels) - _MAX_LEVELS, 0)
    return {
        "name": t.names[k],
        "about": about,
        "pvalue": pvalue,
        "smd": smd,
        "cause": t.names[k] in t.causes,
        "late": late,
        "cells": cells,
        "other_levels": more,
    }


def _histogram(
    bars: Bars, fractions: Floats, label: str, width: float = 112.0, height: float = 34.0
) -> Markup:
    """Heights are relative to the highest bar at any site."""
    top = max(float(np.max(one)) for one in bars.fractions if one is not None) or 1.0
    step = width / len(fractions)
    path = "".join(
        f"M{k * step:.1f} {height:.0f}v{-part / top * height:.1f}h{step - 0.8:.1f}V{height:.0f}z"
        for k, part in enumerate(fractions.tolist())
        if part > 0
    )
    title = f"Histogram of {label}, from {bars.labels[0]} to {bars.labels[-1]}"
    picture = drawing(width, height + 1, title, tag("path", d=path), class_="hist")
    ends = (tag("span", escape(end)) for end in (bars.labels[0], bars.labels[-1]))
    return picture + tag("div", *ends, class_="ends")


# --- a test of two sites


def _test_page(result: PermutationTestResult) -> Content:
    return {
        "title": f"Do {result.sites[0]} and {result.sites[1]} differ?",
        "pair": None if result.evidence is None else columns_of(result.explain, result.sizes),
    }


# --- a distance


def _distance_page(result: DistanceResult, schema: Schema | None) -> Content:
    return {
        "title": f"How far apart are {result.sites[0]} and {result.sites[1]}?",
        "schema": schema,
        "estimates": _estimates(result),
        "pair": columns_of(result.explain, result.rows),
        "curves": _rounds(result) if result.history else None,
        "shows_populations": result.population_interval is not None,
        "tested": result.pvalue is not None and not math.isnan(result.pvalue),
        "digits": _digits(result),
    }


def _digits(result: DistanceResult) -> Digits:
    return Digits.for_numbers([result.value, result.upper], 4)


def _estimates(result: DistanceResult) -> Markup:
    """A line for each number: populations, noise, samples, and the paper's."""
    lines: list[tuple[str, str, float]] = []  # label, class of the style sheet, number
    intervals = {"ours": (result.lower, result.upper)}
    if result.population_interval is not None:
        intervals["population"] = result.population_interval
        lines.append(("the populations", "population", result.population))
    if result.certified or not lines:
        lines.append(("these samples" if lines else "our estimate", "ours", result.value))
    others = (
        ("chance alone", "chance", result.noise),
        ("the paper's estimate", "paper", result.fedwad),
    )
    lines += [(label, style, float(one)) for label, style, one in others if one is not None]
    numbers = [
        *(number for _, _, number in lines),
        *(end for two in intervals.values() for end in two),
    ]
    finite = [number for number in numbers if math.isfinite(number)]
    low, high = min(finite), max(finite)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    digits, top = _digits(result), 30.0  # pixels for the numbers of the axis
    interval = digits.interval(result.lower, result.upper)
    certainty = "certified" if result.certified else "likely range"
    whole = f"Our estimate {digits.text(result.value)}, {certainty} {interval}"

    def draw(width: int) -> Markup:
        """The lines as dots on one axis; labels are beside them, or above in a narrow figure."""
        is_wide = width > 400
        width = 2 * width if is_wide else width
        left, row_height = (236.0, 40.0) if is_wide else (14.0, 54.0)
        axis = HorizontalAxis(left, width - left - 20, max(low - margin, 0.0), high + margin)
        bottom = top + row_height * len(lines)
        rows = []
        for k, (label, style, number) in enumerate(lines):
            y = top + row_height * k + (20 if is_wide else 36)
            x, y_text, anchor = (left - 20, y, "end") if is_wide else (left, y - 20, "start")
            shown = digits.text(number)
            if style == "population" and not math.isfinite(number):
                shown = f"at most {digits.text(intervals[style][1])} (95%)"
            text = escape(f"{label} · {shown}")
            rows.append(tag("text", text, dy="0.35em", x=x, y=y_text, text_anchor=anchor))
            if style in intervals:
                lower, upper = intervals[style]
                end = axis.x(upper if math.isfinite(upper) else axis.high)
                line = f"M{axis.x(lower):.1f} {y:.1f}H{end:.1f}"
                rows.append(tag("path", d=line, class_=f"interval {style}"))
            if math.isfinite(number):
                dot = f"M{axis.x(number):.1f} {y:.1f}h0"
                rows.append(tag("path", d=dot, class_=f"dots large {style}"))
        grid = axis.grid(top - 6, bottom, 8 if is_wide else 4)
        return drawing(width, bottom, whole, grid, tag("g", *rows, class_="estimates"))

    return draw_both_widths(draw)


def _rounds(result: DistanceResult) -> Markup:
    names = {
        "fedwad": ("the paper's estimate", "paper"),
        "upper": ("certified upper bound", "ours"),
        "running": ("the server's running estimate", "running"),
    }
    parts: list[Part] = []
    for attribute, (label, style) in names.items():
        numbers = [(one.number, getattr(one, attribute)) for one in result.history]
        points = [(k, float(y)) for k, y in numbers if y is not None and math.isfinite(y)]
        if points:
            parts.append(Part("curve", label, points, style))
    if not parts:
        return tag("p", "No round has a number to show.")
    if math.isfinite(result.upper):
        ends = result.lower, result.upper
        parts.append(Part.constant("certified interval at the end", *ends, style="ours"))
    parts.append(Part.constant("our estimate", result.value, style="ours"))
    return chart(parts, "What the server knew after each round.")


# --- an embedding


def _embedding_page(result: EmbeddingResult, clusters: Any) -> Content:
    labels = result.check_clusters(clusters)
    groups = describe_clusters(result.embedding, labels, result.sites)
    sentence = f"{len(result)} sites as points: near means similar."
    if clusters is not None:
        sentence = f"{groups_in_words(len(result), len(groups))}."
    caption = (
        f"Each point is a site. The plane shows {result.on_two_axes:.0%} of the variance between"
        " sites. A distance in the plane is at most the distance between the points themselves."
    )
    points = plane(result)
    found = np.unique(labels).tolist()
    size = float(np.clip(150 / np.sqrt(len(points)), 1.5, 9))

    def draw(width: int) -> Markup:
        point_map = PointMap.of(points, width, 16.0, 0.3, 0.8)
        paths = [
            tag(
                "path",
                d="".join(f"M{x:.1f} {y:.1f}h0" for x, y in point_map.dots[labels == label]),
                class_=f"c{k % len(CLUSTER_COLOURS)}",
                style=f"stroke:var(--c);stroke-width:{size:.1f};stroke-linecap:round;fill:none",
            )
            for k, label in enumerate(found)
        ]
        names = point_map.names(result.sites) if len(result) <= 40 else ()  # more are unreadable
        named = tag("g", *names, class_="axis") if names else ""
        return drawing(width, point_map.height, caption, *paths, named, point_map.scale_bar)

    return {
        "title": f"Which of {len(result)} sites have similar data?",
        "sentence": sentence,
        "caption": caption,
        "map": draw_both_widths(draw),
        "groups": [] if clusters is None else groups,
        "found": found,
    }


# --- drift


def _drift_page(result: DriftResult, entries: Sequence[Mapping[str, Any]]) -> Content:
    """A comparison with a reference, and all of its history."""
    reference, new = result.distance.sites
    return {
        "title": f"Has {new} drifted from {reference}?",
        "pair": columns_of(result.explain, result.distance.rows) if result.drift else None,
        "over_time": _over_time(entries) if len(entries) > 1 else None,
        "entries": entries,
    }


def _over_time(entries: Sequence[Mapping[str, Any]]) -> Markup:
    points = [(int(entry["test"]), float(entry["value"])) for entry in entries]
    chance = [(int(entry["test"]), float(entry["noise"])) for entry in entries if entry["noise"]]
    # The style sheet names its colours after the curves of a distance by round.
    alarms = [point for point, entry in zip(points, entries, strict=True) if entry["drift"]]
    parts = [Part("curve", "distance from the reference", points, "ours")]
    parts += [Part("curve", "chance alone", chance, "running")] if chance else []
    parts += [Part("curve", "drift", alarms, "paper")] if alarms else []
    caption = "Distances between new data and the reference."
    return chart(parts, caption, "comparison number", from_zero=True)


# --- training


def _training_page(results: Mapping[str, TrainingResult]) -> Content:
    """Learning curves, the accuracy of each site and the traffic of up to three trainings."""
    first = max(results.values(), key=lambda result: result.rounds)
    means = [f"{key} {result.mean:.1%}" for key, result in results.items()]
    means.append(f"always the majority class {first.mean_baseline:.1%}")
    parts: list[Part] = []
    styles = iter(("paper", "ours", "running"))
    for key, result in results.items():
        points = [(one.number, one.accuracy) for one in result.history if one.accuracy is not None]
        if len(points) == 1 < first.rounds:
            parts.append(Part.constant(key, points[0][1], style="exact"))
        else:
            parts.append(Part("curve", key, points, next(styles)))
    model = f"{first.model} for {first.features} features and {len(first.classes)} classes"
    rounds = pluralize(first.rounds, "round")
    method = [("algorithm", f"{first.algorithm}, {rounds}, seed {first.seed}"), ("model", model)]
    method += [
        (f"without, {key}", ", ".join(result.failed))
        for key, result in results.items()
        if result.failed
    ]
    sites = pluralize(len(first.sites), "site")
    means_of = f"Mean accuracy over {sites}, each tested on its own samples"
    return {
        "title": "Who should learn together?",
        "sentence": f"{means_of}: {'; '.join(means)}.",
        "curves": chart(parts, "Mean accuracy over sites after each round.", from_zero=True),
        "table": _accuracies(results),
        "method": method,
    }


def _accuracies(results: Mapping[str, TrainingResult]) -> Content:
    """The accuracy of each site that tested a model of some training, cluster by cluster."""
    shared = [one for key, one in results.items() if key != "local only"]
    finest = max(shared, key=lambda result: len({*result.groups.tolist()}))
    groups = dict(zip(finest.sites, finest.groups.tolist(), strict=True))
    columns = [
        dict(zip(result.sites, result.accuracy.tolist(), strict=True))
        for result in results.values()
    ]
    majority: dict[str, float] = {}
    for result in results.values():
        majority |= zip(result.sites, result.baseline.tolist(), strict=True)
    sites = dict.fromkeys([*finest.sites, *majority])
    return {
        "head": ["site", "cluster", *results, "majority class"],
        "rows": [
            [
                site,
                str(groups[site] + 1) if site in groups else "missing",
                *(f"{one[site]:.1%}" if site in one else "missing" for one in (*columns, majority)),
            ]
            for site in sorted(sites, key=lambda site: groups.get(site, math.inf))
        ],
    }


# --- an audit


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
    """For each of a few records a row for each column, and the closest guess of each attack."""
    rows = [("your record", samples.records)]
    rows += [
        (f"{method}: {attack}", points) for (method, attack), points in samples.guesses.items()
    ]
    count, features = samples.records.shape
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
