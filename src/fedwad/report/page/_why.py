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
from fedwad.report.why import mean_in_words, number_in_words

__all__ = ["PairExplanations", "explain_pairs", "why_data", "why_distance", "why_pair"]

_MOST_SITES = 60  # if there are more, a page explains no pairs
_MOST_BARS, _MOST_PIXEL_BARS = 8, 4
_MOST_COLUMNS = 14  # in the table of the columns by which sites stand out
_MOST_FEATURES = 400  # columns that a page can explain
_MOST_PIXELS = 4096  # columns that a page can explain if they are pixels
_MOST_NUMBERS = 200_000  # if all pairs have more pixels, or classes, a page leaves these out
_NO_DIFFERENCE = "No column of these two sites differs by more than chance explains."


@dataclass(frozen=True, eq=False)
class PairExplanations:
    """The explanations of all pairs of a page.

    If the columns are pixels, `image` has the numbers of rows and columns of the image.
    """

    view: MatrixView
    pairs: Mapping[tuple[str, str], Explanation]
    image: tuple[int, int] | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns on the page."""
        return _labels(next(iter(self.pairs.values())), self.image)

    def of(self, i: int, j: int) -> Explanation:
        """The explanation of two sites, i < j."""
        sites = self.view.matrix.sites
        return self.pairs[sites[i], sites[j]]

    def may_differ(self, i: int, j: int) -> bool:
        """Whether two sites differ by more than chance, or that is unknown."""
        view = self.view
        unknown = view.differs is None or bool(np.isnan(view.value[i, j]))
        return unknown or bool(view.differs[i, j])  # type: ignore[index]

    @cached_property
    def by_site(self) -> tuple[Floats, Floats]:
        """How much each column contributes at each site, and whether it is significant there.

        Both are arrays (sites, columns). Contributions are those to the mean squared distance of
        the site from the others. A column is significant at a site if it is so in any of its pairs.
        """
        size, count = self.view.size, len(self.columns)
        parts, significant = np.zeros((size, count)), np.zeros((size, count))
        for i, j in zip(*map(np.ndarray.tolist, self.view.pairs), strict=True):
            if not self.may_differ(i, j):
                continue
            explanation = self.of(i, j)
            squared = float(self.view.imputed[i, j]) ** 2
            for site in (i, j):
                parts[site] += np.maximum(explanation.excess, 0.0) * squared / (size - 1)
                significant[site] = np.maximum(significant[site], explanation.significant)
        return parts, significant

    @cached_property
    def standing(self) -> list[int]:
        """The columns by which some site stands out, the largest part first."""
        parts, significant = self.by_site
        order = np.argsort(-parts.sum(axis=0), kind="stable").tolist()
        return [k for k in order if significant[:, k].any()][:_MOST_COLUMNS]


def explain_pairs(view: MatrixView, shape: Shape | None = None) -> PairExplanations | None:
    """Explanations of all pairs; None if they are unknown, or too many for a page.

    `shape` is that of the images whose pixels the columns are.
    """
    if not 1 < view.size <= _MOST_SITES:
        return None
    try:
        pairs = view.matrix.explain()
    except InputError:
        return None
    first = next(iter(pairs.values()))
    image = _image_of(first, shape)
    return PairExplanations(view, pairs, image) if _can_explain(first, image) else None


def _can_explain(found: Explanation, image: tuple[int, int] | None) -> bool:
    """Whether there are at least two columns, and not too many for a page."""
    return 1 < len(found) <= (_MOST_FEATURES if image is None else _MOST_PIXELS)


def _image_of(found: Explanation, shape: Shape | None) -> tuple[int, int] | None:
    """Rows and columns of the image if the columns are pixels, otherwise None."""
    means = np.zeros(len(found))
    if shape is None:  # only then do means decide; categories have none
        if any(kind != "number" for kind in found.kinds):
            return None
        both = np.array([[one["mean"] for one in side] for side in (found.here, found.there)])
        means = np.nan_to_num(both).mean(axis=0)
    return pixel_shape(found.names, means, shape)


def _labels(found: Explanation, image: tuple[int, int] | None) -> tuple[str, ...]:
    """Names of columns for the page; a pixel is named by its place in the image."""
    if image is None:
        return tuple(map(clean, found.names))
    channels = len(found) // (image[0] * image[1])
    pixels = (divmod(k // channels, image[1]) for k in range(len(found)))
    return tuple(f"row {row + 1}, column {column + 1}" for row, column in pixels)


def _bars(found: Explanation, image: tuple[int, int] | None, may_differ: bool) -> list[int]:
    """The columns with the largest excess, which get bars; none if the sites do not differ."""
    if not may_differ:
        return []
    order = [k for k in found.order if found.excess[k] > 0]
    return order[: _MOST_BARS if image is None else _MOST_PIXEL_BARS]


def why_data(reasons: PairExplanations) -> dict[str, Any]:
    """What the script of the page needs: the bars of each pair, and their columns at each site.

    Numbers of columns are positions in the list "columns", which has only those that are shown.
    """
    pairs = np.stack(reasons.view.pairs, axis=1).tolist()
    found = [reasons.of(i, j) for i, j in pairs]
    differ = [reasons.may_differ(i, j) for i, j in pairs]
    bars = [_bars(one, reasons.image, may) for one, may in zip(found, differ, strict=True)]
    shown = sorted(set(chain(*bars, reasons.standing, _class_columns(found))))
    place = {column: index for index, column in enumerate(shown)}
    content: dict[str, Any] = {
        "columns": [reasons.columns[k] for k in shown],
        "pairs": [_bar_numbers(one, own, place) for one, own in zip(found, bars, strict=True)],
        "sites": [[_at_site(reasons, site, k) for k in shown] for site in range(reasons.view.size)],
        "standing": [place[k] for k in reasons.standing],
        "notes": _notes(reasons, found, differ),
    }
    return content | _classes_data(found, place) | _where_data(reasons, found)


def _shows_classes(found: Sequence[Explanation]) -> bool:
    """Whether the classes of all pairs are few enough for a page."""
    return len(found) * len(found[0].classes) <= _MOST_NUMBERS


def _class_columns(found: Sequence[Explanation]) -> set[int]:
    """The columns that the lists of classes name; none if the page shows no classes."""
    names = found[0].names
    shown = found if _shows_classes(found) else ()
    return {names.index(column) for pair in shown for column in class_columns(pair)}


def _bar_numbers(
    found: Explanation, bars: Sequence[int], place: Mapping[int, int]
) -> list[list[int]]:
    """For each bar: the place of its column, its excess in thousandths, and 1 if significant."""
    return [
        [place[k], round(1000 * float(found.excess[k])), int(found.significant[k])] for k in bars
    ]


def _notes(
    reasons: PairExplanations, found: Sequence[Explanation], differ: Sequence[bool]
) -> dict[str, str]:
    """The sentences about dependence, by the number of the pair."""
    texts = (
        _dependence(one, reasons.image) if may else ""
        for one, may in zip(found, differ, strict=True)
    )
    return {str(index): text for index, text in enumerate(texts) if text}


def _classes_data(found: Sequence[Explanation], place: Mapping[int, int]) -> dict[str, Any]:
    """The classes that contribute most, for all pairs; empty if there are none or too many."""
    if not _shows_classes(found) or not any(one.classes for one in found):
        return {}
    place_by_name = {found[0].names[k]: index for k, index in place.items()}
    return {"classes": [class_data(one, place_by_name) for one in found]}


def _where_data(reasons: PairExplanations, found: Sequence[Explanation]) -> dict[str, Any]:
    """Where in the image each pair differs; empty if columns are no pixels, or too many."""
    image = reasons.image
    if image is None or len(found) * image[0] * image[1] > _MOST_NUMBERS:
        return {}
    return {
        "image": list(image),
        "strengths": [strengths(one.excess, image) for one in found],
        "where": [where_numbers(one.excess, image) for one in found],
    }


def _at_site(reasons: PairExplanations, site: int, k: int) -> str:
    """Column k at one site, in words."""
    other = 1 if site == 0 else 0  # any pair with this site has the same words
    found = reasons.of(min(site, other), max(site, other))
    values = found.here[k] if site < other else found.there[k]
    return describe_column(values, found.kinds[k])


def describe_column(values: Mapping[str, float], kind: str) -> str:
    """A column at one site: `247 ± 52, 3% missing`, `true: 41%`, or its most frequent levels."""
    if kind == "category":
        top = sorted(values.items(), key=lambda item: -item[1])[:3]
        return ", ".join(f"{level}: {percent(share)}" for level, share in top if share > 0)
    if kind == "boolean":
        return f"true: {percent(values['mean'])}"
    text = mean_in_words(values["mean"], kind)
    if kind == "date" and values.get("std", 0.0) > 0:
        text += f" ± {number_in_words(values['std'])} days"
    elif values.get("std", 0.0) > 0:
        text += f" ± {number_in_words(values['std'])}"
    missing = values.get("missing", 0.0)
    return text + (f", {percent(missing)} missing" if missing > 0 else "")


def why_pair(reasons: PairExplanations) -> str:
    """The bars of the first pair; the script replaces them when another is chosen."""
    i, j = sorted(reasons.view.farthest_pair)
    hint = " Choose another pair in the map above."
    return _figure(reasons.of(i, j), reasons.may_differ(i, j), reasons.image, hint)


def why_distance(result: DistanceResult, shape: Shape | None = None) -> str:
    """The bars of one distance; empty if its reasons are unknown."""
    try:
        found = result.explain()
    except InputError:
        return ""
    image = _image_of(found, shape)
    return _figure(found, result.differs is not False, image) if _can_explain(found, image) else ""


def _figure(
    found: Explanation, may_differ: bool, image: tuple[int, int] | None, hint: str = ""
) -> str:
    labels = _labels(found, image)
    bars = _bars(found, image, may_differ)
    first, second = (escape_name(clean(site)) for site in found.sites)
    note = _dependence(found, image) if may_differ else ""
    caption = (
        "Part of each column in the squared distance between the two populations, and the column at"
        f" both sites. Grey columns are within chance.{hint}"
    )
    shown = replace(found, classes=tuple(_renamed(found, labels)))
    items = "".join(_item(found, k, labels[k]) for k in bars)
    where = where_figure(found.excess, image, not bars) if image else ""
    return tag(
        "figure",
        tag("p", f"{first} &ndash; {second}", class_="pair", id="why-pair"),
        tag("div", class_="walk", id="walk"),
        tag("div", where, tag("ol", items, class_="causes", id="causes"), class_="reasons"),
        tag("p", _NO_DIFFERENCE, id="why-none", hidden="hidden" if bars else None),
        tag("p", escape(note), id="why-note", hidden=None if note else "hidden"),
        tag("figcaption", caption),
        class_figure(shown, not bars),
    )


def _renamed(found: Explanation, labels: Sequence[str]) -> Iterator[ClassShare]:
    """The classes, with the page's names for their columns."""
    for one in found.classes:
        yield replace(one, column=labels[found.names.index(one.column)])


def _dependence(found: Explanation, image: tuple[int, int] | None) -> str:
    """A note if each column agrees and only the dependence between columns differs, else empty."""
    return clean(found.text) if found.only_dependence and image is None else ""


def _item(found: Explanation, k: int, label: str) -> str:
    """The bar of column k, with the column at both sites."""
    excess = float(found.excess[k])
    sides = zip(found.sites, (found.here[k], found.there[k]), strict=True)
    return tag(
        "li",
        tag("span", escape_name(label), class_="column"),
        tag("b", escape(percent(excess)), class_="part"),
        tag("span", tag("i", style=f"width:{100 * min(excess, 1.0):.1f}%"), class_="bar-of"),
        *(
            tag(
                "span",
                escape_name(site),
                f" {escape(describe_column(values, found.kinds[k]))}",
                class_="at-site",
            )
            for site, values in sides
        ),
        class_=None if found.significant[k] else "within",
    )
