"""Which classes contribute most to a distance between labelled data."""

from __future__ import annotations

from fedwad._explain.explanation import ClassShare, Explanation
from fedwad._explain.text import percent
from fedwad.report.page._text import cleaned, escape, name, tag

__all__ = ["class_columns", "class_data", "class_figure"]

_MOST = 4  # classes of a site that are listed


def _listed(found: Explanation, site: str) -> list[ClassShare]:
    return [one for one in found.classes if one.site == site][:_MOST]


def class_data(found: Explanation, at: dict[str, int]) -> list[list[list[int]]]:
    """For both sites: number, thousandths of the rows and of the distance, and the column."""
    return [
        [
            [one.number, round(1000 * one.weight), round(1000 * one.share), at[one.column]]
            for one in _listed(found, site)
        ]
        for site in found.sites
    ]


def class_columns(found: Explanation) -> set[str]:
    """The columns that a list of classes names."""
    return {one.column for site in found.sites for one in _listed(found, site)}


def class_figure(found: Explanation, hidden: bool) -> str:
    """The classes of both sites that contribute most to their distance; empty without labels."""
    if not found.classes:
        return ""
    items = "".join(_item(one) for site in found.sites for one in _listed(found, site))
    return tag(
        "div",
        tag("h3", "Which classes contribute most"),
        tag("ul", items, class_="causes", id="classes-list"),
        tag(
            "p",
            "Names of labels are not sent, and numbers follow no order of names: a site knows its"
            " class by the part of its rows.",
            class_="caption",
        ),
        class_="classes",
        id="classes",
        hidden="hidden" if hidden else None,
    )


def _item(one: ClassShare) -> str:
    rows, column = f"{100 * one.weight:.1f}%", name(cleaned(one.column))
    return tag(
        "li",
        tag("span", name(cleaned(one.site)), f" class {one.number}", class_="column"),
        tag("b", escape(percent(one.share)), class_="part"),
        tag("span", tag("i", style=f"width:{100 * one.share:.1f}%"), class_="bar-of"),
        tag("span", f"{escape(rows)} of its rows, mostly in {column}", class_="at-site"),
    )
