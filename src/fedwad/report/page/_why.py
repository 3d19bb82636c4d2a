"""Why sites differ: bars for the chosen pair, its classes, and where in the image."""

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
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import cleaned, escape, name, tag
from fedwad.report.page._where import Shape, pixel_shape, strengths, where_figure, where_numbers
from fedwad.report.why import mean_in_words, number_in_words

__all__ = ["Reasons", "reasons_of", "why_data", "why_distance", "why_pair"]

_MOST_SITES = 60  # whose pairs a page explains
_MOST_BARS, _MOST_PIXEL_BARS = 8, 4
_MOST_COLUMNS = 14  # of the map of sites and columns
_MOST_FEATURES = 400  # columns that a page can explain
_MOST_PIXELS = 4096  # the same for images
_MOST_NUMBERS = 200_000  # pixels, or classes, of all pairs of a page
_NOTHING = "No column of these two sites differs by more than chance explains."


@dataclass(frozen=True, eq=False)
class Reasons:
    """The explanations of all pairs of a page; `image` is the shape of columns that are pixels."""

    subject: Subject
    pairs: Mapping[tuple[str, str], Explanation]
    image: tuple[int, int] | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What the page calls the columns."""
        return _labels(next(iter(self.pairs.values())), self.image)

    def of(self, i: int, j: int) -> Explanation:
        """The explanation of two sites, i < j."""
        sites = self.subject.matrix.sites
        return self.pairs[sites[i], sites[j]]

    def may_differ(self, i: int, j: int) -> bool:
        """Whether two sites differ by more than chance, or that is unknown."""
        subject = self.subject
        unknown = subject.differs is None or bool(np.isnan(subject.value[i, j]))
        return unknown or bool(subject.differs[i, j])  # type: ignore[index]

    @cached_property
    def by_site(self) -> tuple[Floats, Floats]:
        """Part of each column in each site's mean squared distance, and whether it is significant
        in any pair; both (sites, columns)."""
        size, count = self.subject.size, len(self.columns)
        parts, significant = np.zeros((size, count)), np.zeros((size, count))
        for i, j in zip(*map(np.ndarray.tolist, self.subject.pairs), strict=True):
            if not self.may_differ(i, j):
                continue
            found = self.of(i, j)
            squared = float(self.subject.placed[i, j]) ** 2
            for site in (i, j):
                parts[site] += np.maximum(found.excess, 0.0) * squared / (size - 1)
                significant[site] = np.maximum(significant[site], found.significant)
        return parts, significant

    @cached_property
    def standing(self) -> list[int]:
        """The columns by which some site stands out, the largest part first."""
        parts, significant = self.by_site
        order = np.argsort(-parts.sum(axis=0), kind="stable").tolist()
        return [k for k in order if significant[:, k].any()][:_MOST_COLUMNS]


def reasons_of(subject: Subject, shape: Shape | None = None) -> Reasons | None:
    """Explanations of all pairs; None if they are unknown, or too many for a page.

    `shape` is that of the images whose pixels the columns are.
    """
    if not 1 < subject.size <= _MOST_SITES:
        return None
    try:
        pairs = subject.matrix.explain()
    except InputError:
        return None
    first = next(iter(pairs.values()))
    image = _image_of(first, shape)
    return Reasons(subject, pairs, image) if _fits(first, image) else None


def _fits(found: Explanation, image: tuple[int, int] | None) -> bool:
    """Whether a page can explain so many columns."""
    return 1 < len(found) <= (_MOST_FEATURES if image is None else _MOST_PIXELS)


def _image_of(found: Explanation, shape: Shape | None) -> tuple[int, int] | None:
    if shape is None and any(kind != "number" for kind in found.kinds):
        return None
    means = np.array([[one["mean"] for one in side] for side in (found.here, found.there)])
    return pixel_shape(found.names, np.nan_to_num(means).mean(axis=0), shape)


def _labels(found: Explanation, image: tuple[int, int] | None) -> tuple[str, ...]:
    if image is None:
        return tuple(map(cleaned, found.names))
    channels = len(found) // (image[0] * image[1])
    pixels = (divmod(k // channels, image[1]) for k in range(len(found)))
    return tuple(f"row {row + 1}, column {column + 1}" for row, column in pixels)


def _bars(found: Explanation, image: tuple[int, int] | None, may_differ: bool) -> list[int]:
    """The columns of the bars: those with the largest excess; none if the sites cannot differ."""
    if not may_differ:
        return []
    order = [k for k in found.order if found.excess[k] > 0]
    return order[: _MOST_BARS if image is None else _MOST_PIXEL_BARS]


def why_data(reasons: Reasons) -> dict[str, Any]:
    """What the script needs: for each pair its bars, and what each site says of those columns."""
    pairs = np.stack(reasons.subject.pairs, axis=1).tolist()
    found = [reasons.of(i, j) for i, j in pairs]
    differ = [reasons.may_differ(i, j) for i, j in pairs]
    bars = [_bars(e, reasons.image, may) for e, may in zip(found, differ, strict=True)]
    kept = sorted(set(chain(*bars, reasons.standing, _class_columns(found))))
    at = {column: index for index, column in enumerate(kept)}
    content: dict[str, Any] = {
        "columns": [reasons.columns[k] for k in kept],
        "pairs": [_bar_numbers(e, some, at) for e, some in zip(found, bars, strict=True)],
        "sites": [
            [_at_site(reasons, site, k) for k in kept] for site in range(reasons.subject.size)
        ],
        "standing": [at[k] for k in reasons.standing],
        "notes": _notes(reasons, found, differ),
    }
    return content | _classes_data(found, at) | _where_data(reasons, found)


def _shows_classes(found: Sequence[Explanation]) -> bool:
    return len(found) * len(found[0].classes) <= _MOST_NUMBERS


def _class_columns(found: Sequence[Explanation]) -> set[int]:
    """The columns that the lines about classes name."""
    names = found[0].names
    some = found if _shows_classes(found) else ()
    return {names.index(one) for e in some for one in class_columns(e)}


def _bar_numbers(e: Explanation, bars: Sequence[int], at: Mapping[int, int]) -> list[list[int]]:
    """For each bar its column, its thousandths of the excess, and whether it is significant."""
    return [[at[k], round(1000 * float(e.excess[k])), int(e.significant[k])] for k in bars]


def _notes(
    reasons: Reasons, found: Sequence[Explanation], differ: Sequence[bool]
) -> dict[str, str]:
    """The sentences about dependence, by the number of the pair."""
    texts = (
        _dependence(e, reasons.image) if may else "" for e, may in zip(found, differ, strict=True)
    )
    return {str(index): text for index, text in enumerate(texts) if text}


def _classes_data(found: Sequence[Explanation], at: Mapping[int, int]) -> dict[str, Any]:
    """What carries each class, for all pairs, if there are classes and not too many."""
    if not _shows_classes(found) or not any(e.classes for e in found):
        return {}
    by_name = {found[0].names[k]: index for k, index in at.items()}
    return {"classes": [class_data(e, by_name) for e in found]}


def _where_data(reasons: Reasons, listed: Sequence[Explanation]) -> dict[str, Any]:
    """The pictures of all pairs, if they are images and not too many."""
    image = reasons.image
    if image is None or len(listed) * image[0] * image[1] > _MOST_NUMBERS:
        return {}
    return {
        "image": list(image),
        "strengths": [strengths(found.excess, image) for found in listed],
        "where": [where_numbers(found.excess, image) for found in listed],
    }


def _at_site(reasons: Reasons, site: int, k: int) -> str:
    other = 1 if site == 0 else 0
    found = reasons.of(min(site, other), max(site, other))
    values = found.here[k] if site < other else found.there[k]
    return described(values, found.kinds[k])


def described(values: Mapping[str, float], kind: str) -> str:
    """A column at one site: `247 ± 52, 3% missing`, `yes 41%`, or its most frequent levels."""
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


def why_pair(reasons: Reasons) -> str:
    """The bars of the first pair; the script replaces them when another is chosen."""
    i, j = sorted(reasons.subject.first_pair)
    hint = " Choose another pair in the map above."
    return _figure(reasons.of(i, j), reasons.may_differ(i, j), reasons.image, hint)


def why_distance(result: DistanceResult, shape: Shape | None = None) -> str:
    """The bars of one distance; empty if its reasons are unknown."""
    try:
        found = result.explain()
    except InputError:
        return ""
    image = _image_of(found, shape)
    return _figure(found, result.differs is not False, image) if _fits(found, image) else ""


def _figure(
    found: Explanation, may_differ: bool, image: tuple[int, int] | None, hint: str = ""
) -> str:
    labels = _labels(found, image)
    bars = _bars(found, image, may_differ)
    first, second = (name(cleaned(site)) for site in found.sites)
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
        tag("p", _NOTHING, id="why-none", hidden="hidden" if bars else None),
        tag("p", escape(note), id="why-note", hidden=None if note else "hidden"),
        tag("figcaption", caption),
        class_figure(shown, not bars),
    )


def _renamed(found: Explanation, labels: Sequence[str]) -> Iterator[ClassShare]:
    """The classes, whose columns have the page's names."""
    for one in found.classes:
        yield replace(one, column=labels[found.names.index(one.column)])


def _dependence(found: Explanation, image: tuple[int, int] | None) -> str:
    """A note where the columns agree and only their dependence differs."""
    return cleaned(found.text) if found.only_dependence and image is None else ""


def _item(found: Explanation, k: int, label: str) -> str:
    excess = float(found.excess[k])
    sides = zip(found.sites, (found.here[k], found.there[k]), strict=True)
    return tag(
        "li",
        tag("span", name(label), class_="column"),
        tag("b", escape(percent(excess)), class_="part"),
        tag("span", tag("i", style=f"width:{100 * min(excess, 1.0):.1f}%"), class_="bar-of"),
        *(
            tag(
                "span",
                name(site),
                f" {escape(described(values, found.kinds[k]))}",
                class_="at-site",
            )
            for site, values in sides
        ),
        class_=None if found.significant[k] else "within",
    )
