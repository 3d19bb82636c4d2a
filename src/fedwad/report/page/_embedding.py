"""The page of an embedding: a map of thousands of sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._embedding.groups import describe
from fedwad._embedding.plot import plane
from fedwad._embedding.result import EmbeddingResult
from fedwad._words import pluralize
from fedwad.ot import Floats
from fedwad.report.page._colour import CLUSTERS
from fedwad.report.page._figures import both_widths, round_ticks
from fedwad.report.page._frame import Section
from fedwad.report.page._labels import place_labels
from fedwad.report.page._opening import opening
from fedwad.report.page._pairs import table
from fedwad.report.page._sent import facts, missing_sites, what_was_sent
from fedwad.report.page._text import escape, name, shortened, tag, text_width

__all__ = ["embedding_lead", "embedding_sections", "embedding_title"]

_MARGIN, _FOOT, _FONT = 16.0, 30.0, 12.5
_NAMED = 40  # sites up to which names are written
_MOST_MISSING = 50
_READING = (
    (
        "A point",
        "stands for a site. Sites whose points are near each other have similar data. The unit of"
        " distances between points is that of the data.",
    ),
    (
        "The plane",
        "shows the two directions in which sites differ most. Sites that differ in others may lie"
        " on top of each other here, and still be in different clusters.",
    ),
    (
        "Not the last digit",
        "Distances between points resemble those between sites, and find candidates. For a pair"
        " that matters ask for its distance, which comes with a certified interval.",
    ),
)


def embedding_title(result: EmbeddingResult) -> str:
    """The heading of the page."""
    return f"Which of {len(result)} sites have similar data?"


def embedding_lead(result: EmbeddingResult, clusters: Any) -> str:
    """The answer in a sentence or two."""
    labels = result.check_clusters(clusters)
    groups = describe(result.embedding, labels, result.sites)
    if clusters is None:
        sentence = f"{len(result)} sites as points: near means similar."
    elif len(groups) == 1:
        sentence = f"All {len(result)} sites are in one cluster."
    else:
        sentence = (
            f"{len(result)} sites in {len(groups)} clusters; the largest has {groups[0].size} sites"
            f" and the smallest {groups[-1].size}."
        )
    return tag("p", escape(sentence), class_="lead")


def embedding_sections(
    result: EmbeddingResult, clusters: Any, warnings: Sequence[str]
) -> list[Section]:
    """All sections of the page, in order."""
    labels = result.check_clusters(clusters)
    sections = opening([], [], tuple(warnings))
    if result.failed:
        sections.append(Section("Missing sites", _missing(result)))
    sections.append(Section("The map", _map(result, labels)))
    if clusters is not None:
        sections.append(Section("The clusters", _clusters(result, labels)))
    reading = tag(
        "div", *(tag("p", tag("b", term), " ", text) for term, text in _READING), class_="three"
    )
    sent = what_was_sent(result.traffic, len(result), result.min_cell_size, result.covariance_types)
    return [
        *sections,
        Section("How to read it", reading),
        Section("What was sent", sent, "left"),
        Section("How it was made", _made(result), "right"),
    ]


def _missing(result: EmbeddingResult) -> str:
    first = dict(list(result.failed.items())[:_MOST_MISSING])
    more = len(result.failed) - len(first)
    rest = tag("p", escape(f"{pluralize(more, 'site')} more did not answer.")) if more else ""
    return missing_sites(first) + rest


def _map(result: EmbeddingResult, labels: NDArray[np.int64]) -> str:
    points = plane(result)
    caption = (
        f"Each point is a site. The plane holds {result.on_two_axes:.0%} of the variance between"
        " sites, and a distance in it is at most that of the points."
    )
    figure = both_widths(lambda width: _draw(result, points, labels, width, caption))
    return tag("figure", figure, tag("figcaption", escape(caption)), class_="chart")


def _draw(
    result: EmbeddingResult, points: Floats, labels: NDArray[np.int64], width: int, caption: str
) -> str:
    low, high = points.min(axis=0), points.max(axis=0)
    extents = high - low
    across = width - 2 * _MARGIN
    up = float(
        np.clip(across * extents[1] / extents[0] if extents[0] else 0, 0.3 * width, 0.8 * width)
    )
    scale = min(
        (r / one for r, one in zip((across, up), extents, strict=True) if one > 0), default=0
    )
    dots = (points - (low + high) / 2) * [scale, -scale] + [width / 2, _MARGIN + up / 2]
    height = up + 2 * _MARGIN + _FOOT
    size = float(np.clip(150 / np.sqrt(len(dots)), 1.5, 9))
    paths = [
        tag(
            "path",
            d="".join(f"M{x:.1f} {y:.1f}h0" for x, y in dots[labels == label]),
            class_=f"c{k % len(CLUSTERS)}",
            style=f"stroke:var(--c);stroke-width:{size:.1f};stroke-linecap:round;fill:none",
        )
        for k, label in enumerate(np.unique(labels).tolist())
    ]
    return tag(
        "svg",
        *paths,
        _names(result, dots, (float(width), height - _FOOT)) if len(result) <= _NAMED else "",
        _scale_bar(scale, height) if scale else "",
        viewBox=f"0 0 {width} {height:.0f}",
        role="img",
        aria_label=caption,
    )


def _names(result: EmbeddingResult, dots: Floats, room: tuple[float, float]) -> str:
    """The names that fit without overlaps."""
    shown = [shortened(site, 22) for site in result.sites]
    widths = [text_width(text, _FONT) for text in shown]
    written = [
        tag("text", escape(text), x=at.x, y=at.y, dy="0.35em", text_anchor=at.anchor)
        for text, at in zip(shown, place_labels(dots, widths, _FONT + 2, room), strict=True)
        if at is not None
    ]
    return tag("g", *written, class_="axis")


def _scale_bar(scale: float, height: float) -> str:
    length = round_ticks(0.0, 130 / scale, 3)[1]
    line = f"M{_MARGIN:.0f} {height - 14:.0f}v5h{length * scale:.1f}v-5"
    text = tag("text", f"{length:g}", x=_MARGIN + length * scale + 8, y=height - 8)
    return tag("g", tag("path", d=line), text, class_="scale")


def _clusters(result: EmbeddingResult, labels: NDArray[np.int64]) -> str:
    groups = describe(result.embedding, labels, result.sites)
    numbers = {label: k for k, label in enumerate(np.unique(labels).tolist())}
    rows = [
        [
            tag(
                "b",
                str(one.label + 1),
                class_=f"c{numbers[one.label] % len(CLUSTERS)}",
                style="color:var(--c)",
            ),
            str(one.size),
            name(one.central),
            f"{one.radius:.4g}",
            "" if one.nearest is None else str(one.nearest + 1),
            "" if one.nearest is None else f"{one.distance:.4g}",
        ]
        for one in groups
    ]
    head = ["cluster", "sites", "most central site", "radius", "nearest cluster", "distance"]
    return tag("div", table(head, rows, "Clusters, the largest first"), class_="scroller")


def _made(result: EmbeddingResult) -> str:
    options = result.options
    rows = [
        ("support", pluralize(int(options["support"]), "point")),
        ("rounds", str(options["rounds"])),
        ("sites that shaped it", str(options["clients_per_round"])),
        ("coordinates", str(result.embedding.shape[1])),
        ("seed", str(result.seed)),
    ]
    return facts([(term, escape(text)) for term, text in rows])
