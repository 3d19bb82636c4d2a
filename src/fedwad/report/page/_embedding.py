"""The page of an embedding: a map of thousands of sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._embedding.groups import describe_clusters
from fedwad._embedding.plot import plane
from fedwad._embedding.result import EmbeddingResult
from fedwad._words import pluralize
from fedwad.ot import Floats
from fedwad.report.page._closing import what_was_sent
from fedwad.report.page._colour import CLUSTER_COLOURS
from fedwad.report.page._elements import facts, scrolling, table, term_paragraphs
from fedwad.report.page._figures import PointMap, draw_both_widths
from fedwad.report.page._frame import Section
from fedwad.report.page._labels import place_names
from fedwad.report.page._opening import missing_sites, opening
from fedwad.report.page._text import escape, escape_name, tag

__all__ = ["embedding_lead", "embedding_sections", "embedding_title"]

_MARGIN = 16.0
_MAX_NAMED = 40  # sites up to which the map has names
_MAX_MISSING = 50  # missing sites that the page lists
_HOW_TO_READ = (
    (
        "A point",
        "stands for a site. Sites whose points are near each other have similar data. The unit of"
        " distances between points is that of the data.",
    ),
    (
        "The plane",
        "shows the two directions in which sites differ most. Sites that differ in other directions"
        " may lie on top of each other here, and still be in different clusters.",
    ),
    (
        "Distances",
        "between points are approximate; they serve to find similar sites. For a pair that matters,"
        " ask for its distance, which comes with a certified interval.",
    ),
)


def embedding_title(result: EmbeddingResult) -> str:
    """The heading of the page."""
    return f"Which of {len(result)} sites have similar data?"


def embedding_lead(result: EmbeddingResult, clusters: Any) -> str:
    """The answer in a sentence or two."""
    labels = result.check_clusters(clusters)
    groups = describe_clusters(result.embedding, labels, result.sites)
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
    sections = opening([], [], warnings)
    if result.failed:
        sections.append(Section("Missing sites", _missing(result)))
    sections.append(Section("The map", _map(result, labels)))
    if clusters is not None:
        sections.append(Section("The clusters", _clusters(result, labels)))
    sent = what_was_sent(result.traffic, len(result), result.min_cell_size, result.covariance_types)
    return [
        *sections,
        Section("How to read it", term_paragraphs(_HOW_TO_READ)),
        Section("What was sent", sent, "left"),
        Section("How it was made", _method(result), "right"),
    ]


def _missing(result: EmbeddingResult) -> str:
    first = dict(list(result.failed.items())[:_MAX_MISSING])
    more = len(result.failed) - len(first)
    rest = (
        tag("p", escape(f"{pluralize(more, 'site')} more did not answer or had to be left out."))
        if more
        else ""
    )
    return missing_sites(first) + rest


def _map(result: EmbeddingResult, labels: NDArray[np.int64]) -> str:
    points = plane(result)
    caption = (
        f"Each point is a site. The plane shows {result.on_two_axes:.0%} of the variance between"
        " sites. A distance in the plane is at most the distance between the points themselves."
    )
    figure = draw_both_widths(lambda width: _draw(result, points, labels, width, caption))
    return tag("figure", figure, tag("figcaption", escape(caption)), class_="chart")


def _draw(
    result: EmbeddingResult, points: Floats, labels: NDArray[np.int64], width: int, caption: str
) -> str:
    point_map = PointMap.of(points, width, _MARGIN, 0.3, 0.8)
    size = float(np.clip(150 / np.sqrt(len(points)), 1.5, 9))
    paths = [
        tag(
            "path",
            d="".join(f"M{x:.1f} {y:.1f}h0" for x, y in point_map.dots[labels == label]),
            class_=f"c{k % len(CLUSTER_COLOURS)}",
            style=f"stroke:var(--c);stroke-width:{size:.1f};stroke-linecap:round;fill:none",
        )
        for k, label in enumerate(np.unique(labels).tolist())
    ]
    return tag(
        "svg",
        *paths,
        _names(result, point_map) if len(result) <= _MAX_NAMED else "",
        point_map.scale_bar,
        viewBox=f"0 0 {width} {point_map.height:.0f}",
        role="img",
        aria_label=caption,
    )


def _names(result: EmbeddingResult, point_map: PointMap) -> str:
    """The names that fit without overlaps."""
    texts = [
        tag("text", escape(text), x=label.x, y=label.y, dy="0.35em", text_anchor=label.anchor)
        for text, label in place_names(result.sites, point_map.dots, point_map.label_area)
        if label is not None
    ]
    return tag("g", *texts, class_="axis")


def _clusters(result: EmbeddingResult, labels: NDArray[np.int64]) -> str:
    groups = describe_clusters(result.embedding, labels, result.sites)
    colours = {
        label: k % len(CLUSTER_COLOURS) for k, label in enumerate(np.unique(labels).tolist())
    }
    rows = [
        [
            tag(
                "b",
                str(group.label + 1),
                class_=f"c{colours[group.label]}",
                style="color:var(--c)",
            ),
            str(group.size),
            escape_name(group.central),
            f"{group.radius:.4g}",
            "" if group.nearest is None else str(group.nearest + 1),
            "" if group.nearest is None else f"{group.distance:.4g}",
        ]
        for group in groups
    ]
    head = ["cluster", "sites", "most central site", "radius", "nearest cluster", "distance"]
    return scrolling(table(head, rows, "Clusters, the largest first"))


def _method(result: EmbeddingResult) -> str:
    options = result.options
    rows = [
        ("support", pluralize(int(options["support"]), "point")),
        ("rounds", str(options["rounds"])),
        ("sites per round", str(options["clients_per_round"])),
        ("coordinates", str(result.embedding.shape[1])),
        ("seed", str(result.seed)),
    ]
    return facts([(term, escape(text)) for term, text in rows])
