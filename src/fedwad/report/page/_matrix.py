"""The page of a distance matrix: which sites are similar."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedwad._words import pluralize
from fedwad.clusters import suggest
from fedwad.report.next_steps import newcomer_next_steps, next_steps
from fedwad.report.page._curve import Curve, Mark, chart
from fedwad.report.page._figures import marker_path
from fedwad.report.page._frame import Section
from fedwad.report.page._health import health_figure
from fedwad.report.page._heat import heat_data, heat_map
from fedwad.report.page._map import site_map
from fedwad.report.page._opening import bold_name, opening, paragraph
from fedwad.report.page._pairs import folded, table_of_pairs
from fedwad.report.page._sent import facts, how_to_read, missing_sites, what_was_sent
from fedwad.report.page._standing import standing_out
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import cleaned, escape, name, tag
from fedwad.report.page._tree import tree_figure
from fedwad.report.page._why import Reasons, why_data, why_pair
from fedwad.report.sentences import compared_matrix, matrix_answer
from fedwad.report.why import why_sentences

__all__ = ["matrix_data", "matrix_lead", "matrix_sections", "matrix_title"]

_METHODS = {
    "summary": "one summary from each site",
    "hub": "a support shared by all",
    "pairs": "the paper's rounds, pair by pair",
}


def matrix_title(subject: Subject) -> str:
    """The heading of the page."""
    if subject.newcomer is not None:
        return f"Is {cleaned(subject.newcomer)} like the others?"
    sites = f"{subject.size} sites" if subject.size > 1 else "the sites"
    return f"How similar are {sites}?"


def matrix_data(subject: Subject, reasons: Reasons | None) -> Any:
    """The numbers that the script of the page reads."""
    if subject.size < 2:
        return None
    return heat_data(subject) | ({} if reasons is None else {"why": why_data(reasons)})


def matrix_lead(subject: Subject) -> str:
    """The answer in a few sentences."""
    verdict, *rest = matrix_answer(subject.matrix, bold_name)
    if subject.newcomer is not None:
        found = subject.matrix.placement(subject.newcomer)
        answer = paragraph([escape(cleaned(found.sentence))], "lead")
        explained = paragraph([escape(cleaned(str(found.explanation)))])
        return answer + explained + paragraph([verdict, *rest])
    why = why_sentences(subject.matrix, bold_name, escape)
    return paragraph([verdict, *why], "lead") + (paragraph(rest) if rest else "")


def matrix_sections(subject: Subject, reasons: Reasons | None) -> list[Section]:
    """All sections of the page, in order."""
    sections = opening(
        compared_matrix(subject.matrix, subject.schema, bold_name),
        _steps(subject),
        subject.warnings,
    )
    if subject.matrix.failed:
        sections.append(Section("Missing sites", missing_sites(subject.matrix.failed)))
    if subject.size > 1:
        if subject.matrix.health is not None:
            sections.append(Section("Heterogeneity of the sites", health_figure(subject)))
        sections += _pictures(subject, reasons)
    return sections + _details(subject)


def _steps(subject: Subject) -> list[str]:
    """What to do next, in HTML."""
    if subject.newcomer is not None:
        found = subject.matrix.placement(subject.newcomer)
        return [escape(cleaned(step)) for step in newcomer_next_steps(found)]
    if subject.size < 2:
        return []
    clusters = 0 if subject.clusters is None else len(set(map(int, subject.clusters)))
    return next_steps(subject.matrix, subject.schema, clusters, _code)


def _code(command: str) -> str:
    return tag("code", escape(command))


def _pictures(subject: Subject, reasons: Reasons | None) -> list[Section]:
    sections = [Section("Every pair", heat_map(subject)), *_why(reasons)]
    sections += [
        Section("The map", site_map(subject), "left"),
        Section("The tree", tree_figure(subject), "right"),
    ]
    if subject.clusters is not None:
        sections.append(Section("The clusters", _clusters(subject), "right"))
    return sections


def _why(reasons: Reasons | None) -> list[Section]:
    """Why the chosen pair differs, and who stands out by what; nothing if that is unknown."""
    if reasons is None:
        return []
    sections = [Section("Why this pair differs", why_pair(reasons))]
    standing = standing_out(reasons)
    return [*sections, Section("Who stands out by what", standing)] if standing else sections


def _details(subject: Subject) -> list[Section]:
    """How it was made, what was sent, how to read it, and all numbers."""
    matrix = subject.matrix
    asked = subject.size if subject.newcomer is None else 1
    sent = what_was_sent(
        matrix.traffic, asked, matrix.min_cell_size, tuple(matrix.covariance_types)
    )
    sections = [
        Section("How to read it", _how_to_read(subject)),
        Section("What was sent", sent, "left"),
        Section("How it was made", _made(subject), "right"),
    ]
    if subject.size > 1:
        sections.append(Section("The numbers", table_of_pairs(subject)))
    more = _eigenvalues(subject) if _has_gaps(subject) else ""
    more += _rounds(subject)
    if more:
        sections.append(Section("More", more))
    return sections


def _how_to_read(subject: Subject) -> str:
    matrix = subject.matrix
    return how_to_read(_is_labelled(matrix), matrix.p, matrix.privacy, subject.of_populations)


def _rounds(subject: Subject) -> str:
    """How far the supports moved, behind a switch; empty if there were no rounds."""
    points = [
        (int(record.number), float(record.shift))
        for record in subject.matrix.history
        if record.shift is not None and math.isfinite(record.shift)
    ]
    if not points:
        return ""
    curve = Curve("how far the supports moved", points, "ours")
    caption = "How far the supports moved in each round. Flat and low means converged."
    return folded("shift", "Show the rounds", chart([curve], caption, zero=True))


def _is_labelled(matrix: Any) -> bool:
    return matrix.class_covariance is not None


def _has_gaps(subject: Subject) -> bool:
    return subject.size > 3 and bool(np.isfinite(subject.placed).all())


def _eigenvalues(subject: Subject) -> str:
    """The Laplacian eigenvalues, whose largest gap suggests the number of clusters."""
    # The unit does not matter; in this one squares stay finite.
    unit = float(subject.placed.max()) or 1.0
    found = suggest(subject.placed / unit, subject.matrix.resolution / unit / unit)
    number = found.k if subject.matrix.may_have_groups else 1
    points = [
        (k + 1, max(float(eigenvalue), 0.0)) for k, eigenvalue in enumerate(found.eigenvalues)
    ]
    caption = (
        "Eigenvalues of the similarity graph's Laplacian. Well separated clusters give one small"
        f" eigenvalue each, then a gap. The largest gap suggests {pluralize(found.k, 'cluster')}"
        + ("." if number == found.k else ", but no difference between sites is more than chance.")
    )
    curve = Curve("eigenvalue", points, "ours")
    figure = chart([curve, Mark(number + 0.5)], caption, "eigenvalue number", zero=True)
    return folded("eigenvalues", "Show the eigenvalues behind the number of clusters", figure)


def _made(subject: Subject) -> str:
    matrix = subject.matrix
    labelled = _is_labelled(matrix)
    rows = [
        ("distance", "dataset distance, with labels" if labelled else f"{matrix.p:g}-Wasserstein"),
        ("method", escape(f"{matrix.method}: {_METHODS.get(matrix.method, '')}".rstrip(": "))),
    ]
    for option, noun in (("cells", "cell"), ("support", "point")):
        if option in matrix.options:
            rows.append((option, pluralize(int(matrix.options[option]), noun)))
    if len(matrix.history):
        seconds = sum(float(record.seconds) for record in matrix.history)
        rows.append(("rounds", f"{len(matrix.history)} in {seconds:.3g} s"))
    if labelled:
        full = matrix.class_covariance == "full"
        spread = "root covariance" if full else "standard deviations"
        rows.append(("classes by", f"mean and {spread}"))
    rows.append(("seed", escape(matrix.seed)))
    return facts([*rows, *_width(subject), *_against_exact(subject)])


def _width(subject: Subject) -> Iterator[tuple[str, str]]:
    """How wide the bounds are, if they are known."""
    lower, upper = (end[subject.pairs] for end in subject.sample_bounds)
    values = subject.sample[subject.pairs]
    usable = np.isfinite(upper) & np.isfinite(lower) & (values > 0)
    if usable.any():
        below, above = (
            float(np.median(np.abs(bound[usable] / values[usable] - 1))) for bound in (lower, upper)
        )
        yield (
            subject.sample_interval_name,
            f"{below:.0%} below to {above:.0%} above the value (medians)",
        )


def _against_exact(subject: Subject) -> list[tuple[str, str]]:
    """How our estimates and the paper's compare with the exact distances, if these are known."""
    if subject.exact is None or subject.size < 2:
        return []
    exact = subject.exact[subject.pairs]
    rows = []
    estimates = [("ours against exact", subject.sample)]
    if subject.matrix.fedwad is not None:
        estimates.append(
            ("the paper's against exact", np.asarray(subject.matrix.fedwad, dtype=float))
        )
    for label, numbers in estimates:
        found = numbers[subject.pairs]
        usable = np.isfinite(found) & np.isfinite(exact) & (exact > 0)
        if not usable.any():
            continue
        text = f"{float(np.mean(found[usable] / exact[usable] - 1)):+.1%} on average"
        if usable.sum() > 2 and np.ptp(found[usable]) > 0 and np.ptp(exact[usable]) > 0:
            from scipy.stats import spearmanr

            text += (
                f", rank correlation {float(spearmanr(found[usable], exact[usable]).statistic):.3f}"
            )
        rows.append((label, text))
    return rows


def _clusters(subject: Subject) -> str:
    """Each cluster with its members, the most central first, and its distance to the others."""
    assert subject.clusters is not None  # noqa: S101
    items = []
    for cluster, label in enumerate(subject.cluster_names):
        members, number = np.flatnonzero(subject.clusters == label), subject.numbers[label]
        inside = subject.placed[np.ix_(members, members)]
        central = members[np.argsort(np.nan_to_num(inside, posinf=0).sum(axis=1), kind="stable")]
        marker = tag(
            "svg", tag("path", d=marker_path(cluster)), viewBox="-7 -7 14 14", aria_hidden="true"
        )
        names = ", ".join(name(subject.names[int(site)]) for site in central)
        items.append(
            tag(
                "li",
                tag(
                    "p",
                    marker,
                    tag("b", f"Cluster {number}" if number else "A single site"),
                    f" · {escape(_extent(subject, members))}",
                ),
                tag("p", names, class_="members"),
                class_=subject.paint_of(int(members[0])),
            )
        )
    return tag("ul", *items, class_="clusters")


def _extent(subject: Subject, members: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    """Size of a cluster, mean distance inside, and distance to the nearest site outside.

    A single site has only the last of them.
    """
    digits, value = subject.digits, subject.placed
    rest = np.setdiff1d(np.arange(subject.size), members)
    words = []
    if len(members) > 1:
        words.append(pluralize(len(members), "site"))
        first, second = np.triu_indices(len(members), 1)
        words.append(
            f"{digits.text(float(np.mean(value[members[first], members[second]])))} apart inside"
        )
    if len(rest):
        words.append(
            f"{digits.text(float(np.min(value[np.ix_(members, rest)])))} to the nearest outside"
        )
    return ", ".join(words)
