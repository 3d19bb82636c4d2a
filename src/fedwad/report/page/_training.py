"""The page of a training: one model for all against one for each cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from fedwad._words import format_bytes, pluralize
from fedwad.learning import TrainingResult
from fedwad.report.page._curve import Curve, chart
from fedwad.report.page._elements import facts, scrolling
from fedwad.report.page._frame import Section, write_page
from fedwad.report.page._text import escape, escape_name, tag

__all__ = ["write_training"]

_STYLES = ("paper", "ours", "exact")  # classes of the style sheet, for the curves


def write_training(
    results: Mapping[str, TrainingResult],
    path: str | Path,
    *,
    command: str | None = None,
    title: str | None = None,
    when: datetime | None = None,
) -> None:
    """Write learning curves, the accuracy of each site and the traffic to one HTML file.

    Parameters
    ----------
    results : up to three trainings of the same sites by name, such as "all together" and "in
        clusters"
    path : the file; it is written completely or not at all
    command : the command that made the result
    title : the heading; by default a question
    when : the date on the page; by default now
    """
    first = next(iter(results.values()))
    means = [f"{escape(key)} {result.mean:.1%}" for key, result in results.items()]
    means.append(f"always the majority class {first.mean_baseline:.1%}")
    lead = tag(
        "p",
        f"Mean accuracy over {pluralize(len(first.sites), 'site')}, each tested on its own"
        " samples: ",
    ) + tag("p", "; ".join(means) + ".")
    sections = [
        Section("Round by round", _curves(results)),
        Section("Each site", _site_table(results)),
        Section("How it was made", _method(results)),
    ]
    write_page(
        path, title or "Who should learn together?", sections, lead=lead, command=command, when=when
    )


def _curves(results: Mapping[str, TrainingResult]) -> str:
    curves = []
    for (key, result), style in zip(results.items(), _STYLES, strict=False):
        points = [
            (record.number, record.accuracy)
            for record in result.history
            if record.accuracy is not None
        ]
        curves.append(Curve(key, points, style))
    return chart(curves, "Mean accuracy over sites after each round.", from_zero=True)


def _site_table(results: Mapping[str, TrainingResult]) -> str:
    """The accuracy of each site that tested a model of some training, cluster by cluster."""
    finest = max(results.values(), key=lambda result: len(set(result.groups.tolist())))
    groups = dict(zip(finest.sites, finest.groups.tolist(), strict=True))
    accuracies = {
        key: dict(zip(result.sites, result.accuracy.tolist(), strict=True))
        for key, result in results.items()
    }
    majority: dict[str, float] = {}
    for result in results.values():
        majority |= zip(result.sites, result.baseline.tolist(), strict=True)
    titles = ("site", "cluster", *map(escape, results), "majority class")
    head = tag("tr", *(tag("th", title) for title in titles))
    rows = []
    sites = dict.fromkeys([*finest.sites, *majority])
    for site in sorted(sites, key=lambda site: groups.get(site, math.inf)):
        cells = [
            f"{column[site]:.1%}" if site in column else "missing"
            for column in (*accuracies.values(), majority)
        ]
        rows.append(
            tag(
                "tr",
                tag("td", escape_name(site)),
                tag("td", str(groups[site] + 1) if site in groups else "missing"),
                *(tag("td", cell) for cell in cells),
            )
        )
    return scrolling(tag("table", tag("thead", head), tag("tbody", *rows)))


def _method(results: Mapping[str, TrainingResult]) -> str:
    first = next(iter(results.values()))
    rows = [
        ("algorithm", escape(f"{first.algorithm}, {first.rounds} rounds, seed {first.seed}")),
        (
            "model",
            escape(f"{first.model} for {first.features} features and {len(first.classes)} classes"),
        ),
    ]
    for key, result in results.items():
        up, down = format_bytes(result.traffic.up), format_bytes(result.traffic.down)
        missing = f"; without {', '.join(result.failed)}" if result.failed else ""
        rows.append((escape(f"sent, {key}"), escape(f"{up} by sites, {down} to them{missing}")))
    warning = tag(
        "p",
        "Trained weights contain information about the data. There is no privacy guarantee.",
        class_="warning",
    )
    return facts(rows) + warning
