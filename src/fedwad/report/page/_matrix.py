"""The page of a distance matrix: which sites are similar."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedwad._words import pluralize
from fedwad.clusters import suggest
from fedwad.report.next_steps import newcomer_next_steps, next_steps
from fedwad.report.page._closing import distance_facts, how_to_read, rounds_text, what_was_sent
from fedwad.report.page._curve import Curve, Mark, chart
from fedwad.report.page._distinctive import distinctive_figure
from fedwad.report.page._elements import bold_name, code, collapsible, facts, paragraph
from fedwad.report.page._figures import marker
from fedwad.report.page._frame import Section
from fedwad.report.page._heat import heat_data, heat_map
from fedwad.report.page._heterogeneity import heterogeneity_figure
from fedwad.report.page._map import site_map
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._opening import missing_sites, opening
from fedwad.report.page._pairs import table_of_pairs
from fedwad.report.page._text import clean, escape, escape_name, tag
from fedwad.report.page._tree import tree_figure
from fedwad.report.page._why import PairExplanations, why_data, why_pair
from fedwad.report.sentences import matrix_answer, what_was_compared
from fedwad.report.why import why_sentences

__all__ = ["matrix_data", "matrix_lead", "matrix_sections", "matrix_title"]


def matrix_title(view: MatrixView) -> str:
    """The heading of the page."""
    if view.newcomer is not None:
        return f"Is {clean(view.newcomer)} like the others?"
    sites = f"{view.size} sites" if view.size > 1 else "the sites"
    return f"How similar are {sites}?"


def matrix_data(view: MatrixView, reasons: PairExplanations | None) -> Any:
    """The numbers that the script of the page reads."""
    if view.size < 2:
        return None
    return heat_data(view) | ({} if reasons is None else {"why": why_data(reasons)})


def matrix_lead(view: MatrixView) -> str:
    """The answer in a few sentences."""
    verdict, *rest = matrix_answer(view.matrix, bold_name)
    if view.newcomer is not None:
        placement = view.matrix.placement(view.newcomer)
        answer = paragraph([escape(clean(placement.sentence))], "lead")
        why = paragraph([escape(clean(str(placement.explanation)))])
        return answer + why + paragraph([verdict, *rest])
    reasons = why_sentences(view.matrix, bold_name, escape)
    return paragraph([verdict, *reasons], "lead") + (paragraph(rest) if rest else "")


def matrix_sections(view: MatrixView, reasons: PairExplanations | None) -> list[Section]:
    """All sections of the page, in order."""
    sections = opening(
        what_was_compared(view.matrix, view.schema, bold_name),
        _steps(view),
        view.warnings,
    )
    if view.matrix.failed:
        sections.append(Section("Missing sites", missing_sites(view.matrix.failed)))
    if view.size > 1:
        if view.matrix.health is not None:
            sections.append(Section("Heterogeneity of the sites", heterogeneity_figure(view)))
        sections += _pictures(view, reasons)
    return sections + _details(view)


def _steps(view: MatrixView) -> list[str]:
    """What to do next, in HTML."""
    if view.newcomer is not None:
        placement = view.matrix.placement(view.newcomer)
        return [escape(clean(step)) for step in newcomer_next_steps(placement)]
    if view.size < 2:
        return []
    n_clusters = None if view.clusters is None else len(view.cluster_labels)
    return next_steps(view.matrix, view.schema, n_clusters, code)


def _pictures(view: MatrixView, reasons: PairExplanations | None) -> list[Section]:
    sections = [Section("Every pair", heat_map(view)), *_why(reasons)]
    sections += [
        Section("The map", site_map(view), "left"),
        Section("The tree", tree_figure(view), "right"),
    ]
    if view.clusters is not None:
        sections.append(Section("The clusters", _clusters(view), "right"))
    return sections


def _why(reasons: PairExplanations | None) -> list[Section]:
    """Why the chosen pair differs, and who stands out by what; nothing if that is unknown."""
    if reasons is None:
        return []
    sections = [Section("Why this pair differs", why_pair(reasons))]
    distinctive = distinctive_figure(reasons)
    return [*sections, Section("Who stands out by what", distinctive)] if distinctive else sections


def _details(view: MatrixView) -> list[Section]:
    """How it was made, what was sent, how to read it, and all numbers."""
    matrix = view.matrix
    n_asked = view.size if view.newcomer is None else 1
    sent = what_was_sent(matrix.traffic, n_asked, matrix.min_cell_size, matrix.covariance_types)
    sections = [
        Section("How to read it", how_to_read(matrix, view.shows_populations)),
        Section("What was sent", sent, "left"),
        Section("How it was made", _method(view), "right"),
    ]
    if view.size > 1:
        sections.append(Section("The numbers", table_of_pairs(view)))
    more = _eigenvalues(view) + _rounds(view)
    return [*sections, Section("More", more)] if more else sections


def _rounds(view: MatrixView) -> str:
    """How far the supports moved, behind a switch; empty if there were no rounds."""
    points = [
        (int(record.number), float(record.shift))
        for record in view.matrix.history
        if record.shift is not None and math.isfinite(record.shift)
    ]
    if not points:
        return ""
    curve = Curve("how far the supports moved", points, "ours")
    caption = "How far the supports moved in each round. Flat and low means converged."
    return collapsible("shift", "Show the rounds", chart([curve], caption, from_zero=True))


def _eigenvalues(view: MatrixView) -> str:
    """The Laplacian eigenvalues, whose largest gap suggests the number of clusters.

    The text is empty with fewer than four sites, or if some distance is unknown.
    """
    if view.size < 4 or not np.isfinite(view.imputed).all():
        return ""
    # The unit does not matter; in this one squares stay finite.
    unit = float(view.imputed.max()) or 1.0
    suggestion = suggest(view.imputed / unit, view.matrix.resolution / unit / unit)
    n_clusters = suggestion.k if view.matrix.may_have_groups else 1
    points = [
        (number, max(float(eigenvalue), 0.0))
        for number, eigenvalue in enumerate(suggestion.eigenvalues, 1)
    ]
    caption = (
        "Eigenvalues of the similarity graph's Laplacian. Well separated clusters give one small"
        " eigenvalue each, then a gap. The largest gap suggests"
        f" {pluralize(suggestion.k, 'cluster')}"
    )
    is_chance = n_clusters != suggestion.k
    caption += ", but no difference between sites is more than chance." if is_chance else "."
    curve = Curve("eigenvalue", points, "ours")
    figure = chart([curve, Mark(n_clusters + 0.5)], caption, "eigenvalue number", from_zero=True)
    return collapsible("eigenvalues", "Show the eigenvalues behind the number of clusters", figure)


def _method(view: MatrixView) -> str:
    matrix = view.matrix
    rows = distance_facts(matrix)
    for option, noun in (("cells", "cell"), ("support", "point")):
        if option in matrix.options:
            rows.append((option, pluralize(int(matrix.options[option]), noun)))
    if len(matrix.history):
        rows.append(("rounds", rounds_text(matrix.history)))
    if matrix.class_covariance is not None:
        is_full = matrix.class_covariance == "full"
        spread = "root covariance" if is_full else "standard deviations"
        rows.append(("classes by", f"mean and {spread}"))
    rows.append(("seed", escape(matrix.seed)))
    return facts([*rows, *_bounds_width(view), *_errors(view)])


def _bounds_width(view: MatrixView) -> list[tuple[str, str]]:
    """How far the bounds are from the value, if they are known."""
    lower, upper = (end[view.pairs] for end in view.sample_bounds)
    values = view.sample_value[view.pairs]
    usable = np.isfinite(upper) & np.isfinite(lower) & (values > 0)
    if not usable.any():
        return []
    below, above = (
        float(np.median(np.abs(bound[usable] / values[usable] - 1))) for bound in (lower, upper)
    )
    text = f"{below:.0%} below to {above:.0%} above the value (medians)"
    return [(view.sample_interval_name, text)]


def _errors(view: MatrixView) -> list[tuple[str, str]]:
    """How our estimates and the paper's compare with the exact distances, if these are known."""
    if view.exact is None or view.size < 2:
        return []
    from scipy.stats import spearmanr

    exact, fedwad = view.exact[view.pairs], view.matrix.fedwad
    estimates = {"ours against exact": view.sample_value}
    if fedwad is not None:
        estimates["the paper's against exact"] = np.asarray(fedwad, dtype=float)
    rows = []
    for label, estimate in estimates.items():
        usable = np.isfinite(estimate[view.pairs]) & np.isfinite(exact) & (exact > 0)
        if not usable.any():
            continue
        estimated, true = estimate[view.pairs][usable], exact[usable]
        text = f"{float(np.mean(estimated / true - 1)):+.1%} on average"
        if len(true) > 2 and np.ptp(estimated) > 0 and np.ptp(true) > 0:
            text += f", rank correlation {float(spearmanr(estimated, true).statistic):.3f}"
        rows.append((label, text))
    return rows


def _clusters(view: MatrixView) -> str:
    """Each cluster with its members, the most central first, and its distance to the others."""
    assert view.clusters is not None  # noqa: S101
    items = []
    for index, label in enumerate(view.cluster_labels):
        members, number = np.flatnonzero(view.clusters == label), view.cluster_number[label]
        inside = view.imputed[np.ix_(members, members)]
        central_first = np.argsort(np.nan_to_num(inside, posinf=0).sum(axis=1), kind="stable")
        names = ", ".join(escape_name(view.names[int(site)]) for site in members[central_first])
        items.append(
            tag(
                "li",
                tag(
                    "p",
                    marker(index, aria_hidden="true"),
                    tag("b", f"Cluster {number}" if number else "A single site"),
                    f" · {escape(_extent(view, members))}",
                ),
                tag("p", names, class_="members"),
                class_=view.css_class(int(members[0])),
            )
        )
    return tag("ul", *items, class_="clusters")


def _extent(view: MatrixView, members: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    """Size of a cluster, mean distance inside, and distance to the nearest site outside.

    For a single site there is only the last.
    """
    digits, value = view.digits, view.imputed
    rest = np.setdiff1d(np.arange(view.size), members)
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
