"""Why sites differ: bars for the chosen pair, and a map of who stands out by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedwad._distance.result import DistanceResult
from fedwad._explain.explanation import Explanation
from fedwad._explain.text import percent
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.report.page._colour import level_of
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import cleaned, escape, name, tag
from fedwad.report.why import mean_in_words, number_in_words

__all__ = ["Reasons", "reasons_of", "standing_out", "why_data", "why_distance", "why_pair"]

_MOST_SITES = 60  # whose pairs a page explains
_MOST_BARS = 8
_MOST_COLUMNS = 14  # of the map of sites and columns
_MOST_FEATURES = 400  # columns that a page can explain


@dataclass(frozen=True, eq=False)
class Reasons:
    """The explanations of all pairs of a page."""

    subject: Subject
    pairs: Mapping[tuple[str, str], Explanation]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return next(iter(self.pairs.values())).names

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
        parts, sure = np.zeros((size, count)), np.zeros((size, count))
        for i, j in zip(*map(np.ndarray.tolist, self.subject.pairs), strict=True):
            if not self.may_differ(i, j):
                continue
            found = self.of(i, j)
            squared = float(self.subject.placed[i, j]) ** 2
            for site in (i, j):
                parts[site] += np.maximum(found.excess, 0.0) * squared / (size - 1)
                sure[site] = np.maximum(sure[site], found.significant)
        return parts, sure


def reasons_of(subject: Subject) -> Reasons | None:
    """Explanations of all pairs; None if they are unknown, or too many for a page."""
    if not 1 < subject.size <= _MOST_SITES:
        return None
    try:
        pairs = subject.matrix.explain()
    except InputError:
        return None
    found = Reasons(subject, pairs)
    return found if 1 < len(found.columns) <= _MOST_FEATURES else None


def _bars(found: Explanation) -> list[int]:
    """The columns of the bars: those with the largest excess, at least one."""
    order = [k for k in found.order if found.excess[k] > 0]
    return order[:_MOST_BARS]


def why_data(reasons: Reasons) -> dict[str, Any]:
    """What the script needs: for each pair its bars, and what each site says of those columns."""
    first, second = (side.tolist() for side in reasons.subject.pairs)
    pairs, used = [], set()
    for i, j in zip(first, second, strict=True):
        found = reasons.of(i, j)
        bars = _bars(found) if reasons.may_differ(i, j) else []
        used |= set(bars)
        pairs.append(
            [[k, round(1000 * float(found.excess[k])), int(found.significant[k])] for k in bars]
        )
    kept = sorted(used)
    at = {column: place for place, column in enumerate(kept)}
    return {
        "columns": [cleaned(reasons.columns[k]) for k in kept],
        "pairs": [[[at[k], *rest] for k, *rest in bars] for bars in pairs],
        "sites": [[_at_site(reasons, site, k) for k in kept] for site in _sites(reasons)],
    }


def _sites(reasons: Reasons) -> range:
    return range(reasons.subject.size)


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
    return _figure(reasons.of(i, j), reasons.may_differ(i, j), hint)


def why_distance(result: DistanceResult) -> str:
    """The bars of one distance; empty if its reasons are unknown."""
    try:
        found = result.explain()
    except InputError:
        return ""
    is_page = 1 < len(found) <= _MOST_FEATURES
    return _figure(found, result.differs is not False) if is_page else ""


def _figure(found: Explanation, may_differ: bool, hint: str = "") -> str:
    items = "".join(_item(found, k) for k in _bars(found)) if may_differ else ""
    first, second = (name(cleaned(site)) for site in found.sites)
    none = tag(
        "p",
        "No column of these two sites differs by more than chance explains.",
        id="why-none",
        hidden="hidden" if items else None,
    )
    caption = (
        "Part of each column in the squared distance between the two populations, and the column at"
        f" both sites. Grey columns are within chance.{hint}"
    )
    return tag(
        "figure",
        tag("p", f"{first} &ndash; {second}", class_="pair", id="why-pair"),
        tag("ol", items, class_="causes", id="causes", aria_live="polite"),
        none,
        _dependence(found) if may_differ else "",
        tag("figcaption", caption),
    )


def _dependence(found: Explanation) -> str:
    """A note where the columns agree and only their dependence differs."""
    if not found.only_dependence:
        return ""
    return tag("p", escape(found.text), class_="note")


def _item(found: Explanation, k: int) -> str:
    excess = float(found.excess[k])
    sides = zip(found.sites, (found.here[k], found.there[k]), strict=True)
    return tag(
        "li",
        tag("span", name(cleaned(found.names[k])), class_="column"),
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


def standing_out(reasons: Reasons) -> str:
    """The map of sites and columns, as a table whose cells are shaded."""
    subject = reasons.subject
    if subject.size < 3:
        return ""
    parts, sure = reasons.by_site
    whole = parts.sum(axis=1, keepdims=True)
    shares = np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0)
    columns = [k for k in np.argsort(-parts.sum(axis=0), kind="stable") if sure[:, k].any()]
    columns = columns[:_MOST_COLUMNS]
    if not columns:
        return tag("p", "No column differs by more than chance explains.")
    largest = float(parts[:, columns].max()) or 1.0
    # The darkest shade is the largest part here, the opposite of distances.
    levels = level_of(largest - parts, 0.0, largest)
    head = "".join(tag("th", tag("span", name(reasons.columns[k])), scope="col") for k in columns)
    rows = "".join(
        tag(
            "tr",
            tag("th", name(subject.names[site]), scope="row"),
            *(_cell(shares[site, k], bool(sure[site, k]), int(levels[site, k])) for k in columns),
        )
        for site in map(int, subject.tree.order)
    )
    caption = (
        "Part of each column in a site's mean squared distance to the others. A strong colour says:"
        " this site stands out by this column. Cells within chance are empty."
    )
    table = tag(
        "table", tag("thead", tag("tr", tag("td"), head)), tag("tbody", rows), class_="standing"
    )
    return tag("figure", tag("div", table, class_="scroller"), tag("figcaption", escape(caption)))


def _cell(share: float, significant: bool, level: int) -> str:
    if not significant or share <= 0:
        return tag("td")
    return tag("td", escape(percent(share)), class_=f"s{level}")
