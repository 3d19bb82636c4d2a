"""The part of a page that says why two sites differ.

It shows a bar for each column that contributes, the classes that contribute most and, if the
columns are pixels, where in the image the sites differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._explain.explanation import ClassShare, Explanation
from fedwad._explain.text import percent
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.page._class_shares import class_columns, class_data, class_figure
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import clean, escape, escape_name, tag
from fedwad.report.page._where import Shape, pixel_shape, strengths, where_figure, where_numbers
from fedwad.report.why import format_mean, format_number

__all__ = ["PairExplanations", "explain_pairs", "why_data", "why_distance", "why_pair"]

_MAX_SITES = 60  # of a page that explains pairs
_MAX_BARS, _MAX_PIXEL_BARS = 8, 4
_MAX_DISTINCTIVE = 14  # columns in the table of the columns by which sites stand out
_MAX_COLUMNS = 400  # that a page can explain
_MAX_PIXELS = 4096  # columns that a page can explain if they are pixels
_MAX_NUMBERS = 200_000  # if all pairs together have more pixels, or classes, a page shows none
_NO_DIFFERENCE = "No column of these two sites differs by more than chance explains."


@dataclass(frozen=True, eq=False)
class PairExplanations:
    """The explanations of all pairs of a page, by the names of both sites.

    If the columns are pixels, `image` has the numbers of rows and columns of the image.
    """

    view: MatrixView
    pairs: Mapping[tuple[str, str], Explanation]
    image: tuple[int, int] | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns on the page."""
        return _column_names(next(iter(self.pairs.values())), self.image)

    def of(self, i: int, j: int) -> Explanation:
        """The explanation of two sites, i < j."""
        sites = self.view.matrix.sites
        return self.pairs[sites[i], sites[j]]

    def may_differ(self, i: int, j: int) -> bool:
        """Whether two sites differ by more than chance, or that is unknown."""
        differs = self.view.differs
        return differs is None or bool(differs[i, j] or not self.view.can_be_judged[i, j])

    @cached_property
    def by_site(self) -> tuple[Floats, Floats]:
        """How much each column contributes at each site, and whether it is significant there.

        Both are arrays (sites, columns). Contributions are those to the mean squared distance of
        the site from the others. A column is significant at a site if it is so in any of its pairs.
        """
        size, count = self.view.size, len(self.columns)
        contributions, significant = np.zeros((size, count)), np.zeros((size, count))
        for i, j in zip(*map(np.ndarray.tolist, self.view.pairs), strict=True):
            if not self.may_differ(i, j):
                continue
            explanation = self.of(i, j)
            squared = float(self.view.imputed[i, j]) ** 2
            for site in (i, j):
                contributions[site] += np.maximum(explanation.excess, 0.0) * squared / (size - 1)
                significant[site] = np.maximum(significant[site], explanation.significant)
        return contributions, significant

    @cached_property
    def distinctive_columns(self) -> list[int]:
        """The columns by which some site stands out, the largest contribution first."""
        contributions, significant = self.by_site
        order = np.argsort(-contributions.sum(axis=0), kind="stable").tolist()
        return [k for k in order if significant[:, k].any()][:_MAX_DISTINCTIVE]


def explain_pairs(view: MatrixView, shape: Shape | None = None) -> PairExplanations | None:
    """Explanations of all pairs; None if they are unknown, or too many for a page.

    `shape` is the shape of images, if the columns are their pixels.
    """
    if not 1 < view.size <= _MAX_SITES:
        return None
    try:
        pairs = view.matrix.explain()
    except InputError:
        return None
    first = next(iter(pairs.values()))
    image = _image_of(first, shape)
    return PairExplanations(view, pairs, image) if _can_explain(first, image) else None


def _can_explain(explanation: Explanation, image: tuple[int, int] | None) -> bool:
    """Whether there are at least two columns, and not too many for a page."""
    return 1 < len(explanation) <= (_MAX_COLUMNS if image is None else _MAX_PIXELS)


def _image_of(explanation: Explanation, shape: Shape | None) -> tuple[int, int] | None:
    """Rows and columns of the image if the columns are pixels, otherwise None."""
    means = np.zeros(len(explanation))
    if shape is None:  # only then do means decide; categories have none
        if any(kind != "number" for kind in explanation.kinds):
            return None
        sides = explanation.here, explanation.there
        both = np.array([[values["mean"] for values in side] for side in sides])
        means = np.nan_to_num(both).mean(axis=0)
    return pixel_shape(explanation.names, means, shape)


def _column_names(explanation: Explanation, image: tuple[int, int] | None) -> tuple[str, ...]:
    """Names of columns for the page; a pixel is named by its place in the image."""
    if image is None:
        return tuple(map(clean, explanation.names))
    channels = len(explanation) // (image[0] * image[1])
    pixels = (divmod(k // channels, image[1]) for k in range(len(explanation)))
    return tuple(f"row {row + 1}, column {column + 1}" for row, column in pixels)


def _columns_with_bars(
    explanation: Explanation, image: tuple[int, int] | None, may_differ: bool
) -> list[int]:
    """The columns with the largest excess, which get bars; none if the sites do not differ."""
    if not may_differ:
        return []
    columns = [k for k in explanation.order if explanation.excess[k] > 0]
    return columns[: _MAX_BARS if image is None else _MAX_PIXEL_BARS]


def why_data(reasons: PairExplanations) -> dict[str, Any]:
    """What the script of the page needs: the bars of each pair, and their columns at each site.

    The list "columns" has only the columns that are shown. All other lists refer to a column by its
    position there. "standing" has the distinctive columns.
    """
    pairs = np.stack(reasons.view.pairs, axis=1).tolist()
    explanations = [reasons.of(i, j) for i, j in pairs]
    may_differ = [reasons.may_differ(i, j) for i, j in pairs]
    bars = [
        _columns_with_bars(explanation, reasons.image, may)
        for explanation, may in zip(explanations, may_differ, strict=True)
    ]
    distinctive = reasons.distinctive_columns
    shown = sorted(set(chain(*bars, distinctive, _class_columns(explanations))))
    position = {column: index for index, column in enumerate(shown)}
    content: dict[str, Any] = {
        "columns": [reasons.columns[k] for k in shown],
        "pairs": [
            _bar_numbers(explanation, columns, position)
            for explanation, columns in zip(explanations, bars, strict=True)
        ],
        "sites": [[_at_site(reasons, site, k) for k in shown] for site in range(reasons.view.size)],
        "standing": [position[k] for k in distinctive],
        "notes": _notes(reasons, explanations, may_differ),
    }
    return content | _classes_data(explanations, position) | _where_data(reasons, explanations)


def _shows_classes(explanations: Sequence[Explanation]) -> bool:
    """Whether the classes of all pairs are few enough for a page."""
    return len(explanations) * len(explanations[0].classes) <= _MAX_NUMBERS


def _class_columns(explanations: Sequence[Explanation]) -> set[int]:
    """The columns that the lists of classes name; none if the page shows no classes."""
    names = explanations[0].names
    shown = explanations if _shows_classes(explanations) else ()
    return {names.index(column) for pair in shown for column in class_columns(pair)}


def _bar_numbers(
    explanation: Explanation, columns: Sequence[int], position: Mapping[int, int]
) -> list[list[int]]:
    """For the bar of each column: position, excess in thousandths, and 1 if it is significant."""
    excess, significant = explanation.excess, explanation.significant
    return [[position[k], round(1000 * float(excess[k])), int(significant[k])] for k in columns]


def _notes(
    reasons: PairExplanations, explanations: Sequence[Explanation], may_differ: Sequence[bool]
) -> dict[str, str]:
    """The sentences about dependence, by the index of the pair."""
    texts = (
        _dependence_note(explanation, reasons.image) if may else ""
        for explanation, may in zip(explanations, may_differ, strict=True)
    )
    return {str(index): text for index, text in enumerate(texts) if text}


def _classes_data(
    explanations: Sequence[Explanation], position: Mapping[int, int]
) -> dict[str, Any]:
    """The classes that contribute most, for all pairs; empty if there are none or too many."""
    if not _shows_classes(explanations) or not any(pair.classes for pair in explanations):
        return {}
    names = explanations[0].names
    position_by_name = {names[k]: index for k, index in position.items()}
    return {"classes": [class_data(pair, position_by_name) for pair in explanations]}


def _where_data(reasons: PairExplanations, explanations: Sequence[Explanation]) -> dict[str, Any]:
    """Where in the image each pair differs; empty if columns are no pixels, or too many."""
    image = reasons.image
    if image is None or len(explanations) * image[0] * image[1] > _MAX_NUMBERS:
        return {}
    return {
        "image": list(image),
        "strengths": [strengths(pair.excess, image) for pair in explanations],
        "where": [where_numbers(pair.excess, image) for pair in explanations],
    }


def _at_site(reasons: PairExplanations, site: int, k: int) -> str:
    """Column k at one site, in words."""
    other = 1 if site == 0 else 0  # any pair with this site has the same words
    explanation = reasons.of(min(site, other), max(site, other))
    values = explanation.here[k] if site < other else explanation.there[k]
    return _describe_column(values, explanation.kinds[k])


def _describe_column(values: Mapping[str, float], kind: str) -> str:
    """A column at one site: `247 ± 52, 3% missing`, `true: 41%`, or its most frequent levels."""
    if kind == "category":
        top = sorted(values.items(), key=lambda item: -item[1])[:3]
        return ", ".join(f"{level}: {percent(share)}" for level, share in top if share > 0)
    if kind == "boolean":
        return f"true: {percent(values['mean'])}"
    text = format_mean(values["mean"], kind)
    if kind == "date" and values.get("std", 0.0) > 0:
        text += f" ± {format_number(values['std'])} days"
    elif values.get("std", 0.0) > 0:
        text += f" ± {format_number(values['std'])}"
    missing = values.get("missing", 0.0)
    return text + (f", {percent(missing)} missing" if missing > 0 else "")


def why_pair(reasons: PairExplanations) -> str:
    """The bars of the farthest pair; the script replaces them when another is chosen."""
    i, j = sorted(reasons.view.farthest_pair)
    hint = " Choose another pair in the map above."
    return _figure(reasons.of(i, j), reasons.may_differ(i, j), reasons.image, hint)


def why_distance(result: DistanceResult, shape: Shape | None = None) -> str:
    """The bars of one distance; empty if it cannot be explained."""
    try:
        explanation = result.explain()
    except InputError:
        return ""
    image = _image_of(explanation, shape)
    if not _can_explain(explanation, image):
        return ""
    return _figure(explanation, result.differs is not False, image)


def _figure(
    explanation: Explanation, may_differ: bool, image: tuple[int, int] | None, hint: str = ""
) -> str:
    names = _column_names(explanation, image)
    columns = _columns_with_bars(explanation, image, may_differ)
    first, second = (escape_name(clean(site)) for site in explanation.sites)
    note = _dependence_note(explanation, image) if may_differ else ""
    caption = (
        "Part of each column in the squared distance between the two populations, and the column at"
        f" both sites. Grey columns are within chance.{hint}"
    )
    shown = replace(explanation, classes=tuple(_with_column_names(explanation, names)))
    items = "".join(_item(explanation, k, names[k]) for k in columns)
    where = where_figure(explanation.excess, image, not columns) if image else ""
    return tag(
        "figure",
        tag("p", f"{first} &ndash; {second}", class_="pair", id="why-pair"),
        tag("div", class_="walk", id="walk"),
        tag("div", where, tag("ol", items, class_="causes", id="causes"), class_="reasons"),
        tag("p", _NO_DIFFERENCE, id="why-none", hidden="hidden" if columns else None),
        tag("p", escape(note), id="why-note", hidden=None if note else "hidden"),
        tag("figcaption", caption),
        class_figure(shown, not columns),
    )


def _with_column_names(explanation: Explanation, names: Sequence[str]) -> Iterator[ClassShare]:
    """The classes, with the page's names for their columns."""
    for share in explanation.classes:
        yield replace(share, column=names[explanation.names.index(share.column)])


def _dependence_note(explanation: Explanation, image: tuple[int, int] | None) -> str:
    """A note if only the dependence between columns differs; otherwise, and for pixels, empty."""
    return clean(explanation.text) if explanation.only_dependence and image is None else ""


def _item(explanation: Explanation, k: int, name: str) -> str:
    """The bar of column k, with the column at both sites."""
    excess = float(explanation.excess[k])
    sides = zip(explanation.sites, (explanation.here[k], explanation.there[k]), strict=True)
    return tag(
        "li",
        tag("span", escape_name(name), class_="column"),
        tag("b", escape(percent(excess)), class_="part"),
        tag("span", tag("i", style=f"width:{100 * min(excess, 1.0):.1f}%"), class_="bar-of"),
        *(
            tag(
                "span",
                escape_name(site),
                f" {escape(_describe_column(values, explanation.kinds[k]))}",
                class_="at-site",
            )
            for site, values in sides
        ),
        class_=None if explanation.significant[k] else "within",
    )
