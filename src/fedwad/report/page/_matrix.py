"""The page of a distance matrix: which sites are similar."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedwad._words import counted
from fedwad.clusters import suggest
from fedwad.report.page._curve import Curve, Mark, chart
from fedwad.report.page._figures import mark_path
from fedwad.report.page._frame import Section
from fedwad.report.page._heat import heat_data, heat_map
from fedwad.report.page._map import site_map
from fedwad.report.page._pairs import table_of_pairs
from fedwad.report.page._sent import facts, how_to_read, missing_sites, what_was_sent
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, name, tag
from fedwad.report.page._tree import tree_figure

__all__ = ["matrix_data", "matrix_lead", "matrix_sections", "matrix_title"]

_METHODS = {
    "summary": "one summary from each site",
    "hub": "a support shared by all",
    "pairs": "the paper's rounds, pair by pair",
}


def matrix_title(subject: Subject) -> str:
    """The heading of the page."""
    datasets = f"{subject.size} datasets" if subject.size > 1 else "the datasets"
    return f"How similar are {datasets}?"


def matrix_data(subject: Subject) -> Any:
    """The numbers that the script of the page reads."""
    return heat_data(subject) if subject.size > 1 else None


def matrix_lead(subject: Subject) -> str:
    """The answer in a few sentences."""
    if subject.size < 2:
        return tag(
            "p",
            f"There is {counted(subject.size, 'site')}, and nothing to compare.",
            class_="lead",
        )
    digits, names = subject.digits, subject.names
    first, second = subject.pairs
    known = [
        int(pair)
        for pair in subject.ranked
        if math.isfinite(subject.value[first[pair], second[pair]])
    ]

    def described(pair: int) -> str:
        i, j = int(first[pair]), int(second[pair])
        number = escape(digits.text(float(subject.value[i, j])))
        return f"{tag('b', name(names[i]))} and {tag('b', name(names[j]))} ({number})"

    sentences = [f"{counted(subject.size, 'site')}{_in_clusters(subject)}."]
    if len(known) > 1:
        sentences.append(
            f"The closest are {described(known[0])}, the farthest {described(known[-1])}."
        )
    elif known:
        sentences.append(
            f"Between {described(known[0])[:-1]}, {subject.sure} {_interval(subject, known[0])})."
        )
    return tag("p", " ".join(sentences), class_="lead")


def _in_clusters(subject: Subject) -> str:
    return (
        "" if subject.clusters is None else f" in {counted(len(subject.cluster_names), 'cluster')}"
    )


def _interval(subject: Subject, pair: int) -> str:
    i, j = (int(side[pair]) for side in subject.pairs)
    return escape(
        subject.digits.interval(
            float(subject.matrix.lower[i, j]), float(subject.matrix.upper[i, j])
        )
    )


def matrix_sections(subject: Subject) -> list[Section]:
    """All sections of the page, in order."""
    matrix = subject.matrix
    sections = []
    if subject.size > 1:
        sections += [
            Section("Every pair", heat_map(subject)),
            Section("The map", site_map(subject), "left"),
            Section("The tree", tree_figure(subject), "right"),
        ]
        if subject.clusters is not None:
            sections.append(Section("The clusters", _clusters(subject), "left"))
    if _has_gaps(subject):
        sections.append(Section("How many clusters?", _eigenvalues(subject), "left"))
    points = [
        (int(record.number), float(record.shift))
        for record in matrix.history
        if _is_known(record.shift)
    ]
    if points:
        curve = Curve("how far the supports moved", points, "ours")
        caption = "How far the supports moved in each round. Flat and low means converged."
        sections.append(Section("The rounds", chart([curve], caption, zero=True), "right"))
    if matrix.failed:
        sections.append(Section("Missing sites", missing_sites(matrix.failed), "right"))
    sections.append(Section("How it was made", _made(subject), "right"))
    sent = what_was_sent(
        matrix.traffic, subject.size, matrix.min_cell_size, tuple(matrix.covariance_types)
    )
    sections.append(Section("What was sent", sent, "right"))
    sections.append(
        Section("How to read it", how_to_read(_is_labelled(matrix), matrix.p, matrix.privacy))
    )
    if subject.size > 1:
        sections.append(Section("The numbers", table_of_pairs(subject)))
    return sections


def _is_labelled(matrix: Any) -> bool:
    return matrix.class_covariance is not None


def _is_known(number: Any) -> bool:
    return number is not None and math.isfinite(number)


def _has_gaps(subject: Subject) -> bool:
    return subject.size > 3 and bool(np.isfinite(subject.value).all())


def _eigenvalues(subject: Subject) -> str:
    """The Laplacian eigenvalues, whose largest gap suggests the number of clusters."""
    # The unit does not matter; in this one squares stay finite.
    found = suggest(subject.value / (subject.value.max() or 1.0))
    points = [
        (k + 1, max(float(eigenvalue), 0.0)) for k, eigenvalue in enumerate(found.eigenvalues)
    ]
    caption = (
        "Eigenvalues of the similarity graph's Laplacian. Well separated clusters give one small"
        f" eigenvalue each, then a gap. The largest gap suggests {counted(found.k, 'cluster')}."
    )
    curve = Curve("eigenvalue", points, "ours")
    return chart([curve, Mark(found.k + 0.5)], caption, "eigenvalue number", zero=True)


def _made(subject: Subject) -> str:
    matrix = subject.matrix
    rows = [
        (
            "distance",
            "dataset distance, with labels"
            if _is_labelled(matrix)
            else f"{matrix.p:g}-Wasserstein",
        ),
        ("method", escape(f"{matrix.method}: {_METHODS.get(matrix.method, '')}".rstrip(": "))),
    ]
    for option, noun in (("cells", "cell"), ("support", "point")):
        if option in matrix.options:
            rows.append((option, counted(int(matrix.options[option]), noun)))
    if len(matrix.history):
        seconds = sum(float(record.seconds) for record in matrix.history)
        rows.append(("rounds", f"{len(matrix.history)} in {seconds:.3g} s"))
    if _is_labelled(matrix):
        rows.append(
            (
                "classes by",
                "mean and root covariance"
                if matrix.class_covariance == "full"
                else "mean and standard deviations",
            )
        )
    rows.append(("seed", escape(matrix.seed)))
    lower, upper = (
        np.asarray(part, dtype=float)[subject.pairs] for part in (matrix.lower, matrix.upper)
    )
    values = subject.value[subject.pairs]
    usable = np.isfinite(upper) & np.isfinite(lower) & (values > 0)
    if usable.any():
        below, above = (
            float(np.median(np.abs(bound[usable] / values[usable] - 1))) for bound in (lower, upper)
        )
        rows.append((subject.sure, f"{below:.0%} below to {above:.0%} above the value (medians)"))
    rows += _against_exact(subject)
    return facts(rows)


def _against_exact(subject: Subject) -> list[tuple[str, str]]:
    """How our estimates and the paper's compare with the exact distances, if these are known."""
    if subject.exact is None or subject.size < 2:
        return []
    exact = subject.exact[subject.pairs]
    rows = []
    estimates = [("ours against exact", subject.value)]
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
    for number, label in enumerate(subject.cluster_names):
        members = np.flatnonzero(subject.clusters == label)
        inside = subject.value[np.ix_(members, members)]
        central = members[np.argsort(np.nan_to_num(inside, posinf=0).sum(axis=1), kind="stable")]
        mark = tag(
            "svg", tag("path", d=mark_path(number)), viewBox="-7 -7 14 14", aria_hidden="true"
        )
        names = ", ".join(name(subject.names[int(site)]) for site in central)
        items.append(
            tag(
                "li",
                tag(
                    "p",
                    mark,
                    tag("b", f"Cluster {label}"),
                    f" · {escape(_extent(subject, members))}",
                ),
                tag("p", names, class_="members"),
                class_=subject.paint_of(int(members[0])),
            )
        )
    return tag("ul", *items, class_="clusters")


def _extent(subject: Subject, members: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    """Size of a cluster, mean distance inside, and distance to the nearest site outside."""
    digits, value = subject.digits, subject.value
    rest = np.setdiff1d(np.arange(subject.size), members)
    words = [counted(len(members), "site")]
    if len(members) > 1:
        first, second = np.triu_indices(len(members), 1)
        words.append(
            f"{digits.text(float(np.mean(value[members[first], members[second]])))} apart inside"
        )
    if len(rest):
        words.append(
            f"{digits.text(float(np.min(value[np.ix_(members, rest)])))} to the nearest outside"
        )
    return ", ".join(words)
