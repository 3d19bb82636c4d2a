"""Which classes contribute most to a distance between labelled data."""

from __future__ import annotations

from fedwad._explain.explanation import ClassShare, Explanation
from fedwad._explain.text import percent
from fedwad.report.page._text import clean, escape, escape_name, tag

__all__ = ["class_columns", "class_data", "class_figure"]

_MAX_LISTED = 4  # classes of one site that the page lists


def _listed_classes(explanation: Explanation, site: str) -> list[ClassShare]:
    """The classes of one site that the page lists."""
    return [share for share in explanation.classes if share.site == site][:_MAX_LISTED]


def class_data(explanation: Explanation, column_index: dict[str, int]) -> list[list[list[int]]]:
    """The listed classes of the first site and of the second, as integers for the page's script.

    Each class is [its number, its rows in thousandths of the site's rows, its contribution in
    thousandths of the squared distance, the index of the column that contributes most to that].
    """
    return [
        [
            [
                share.number,
                round(1000 * share.weight),
                round(1000 * share.share),
                column_index[share.column],
            ]
            for share in _listed_classes(explanation, site)
        ]
        for site in explanation.sites
    ]


def class_columns(explanation: Explanation) -> set[str]:
    """The names of the columns in the list of classes."""
    return {
        share.column for site in explanation.sites for share in _listed_classes(explanation, site)
    }


def class_figure(explanation: Explanation, hidden: bool) -> str:
    """The classes of both sites that contribute most to their distance; empty without labels."""
    if not explanation.classes:
        return ""
    items = "".join(
        _item(share) for site in explanation.sites for share in _listed_classes(explanation, site)
    )
    return tag(
        "div",
        tag("h3", "Which classes contribute most"),
        tag("ul", items, class_="causes", id="classes-list"),
        tag(
            "p",
            "Sites do not send the names of classes, and the numbers do not follow the order of the"
            " names. A site recognises a class by the percentage of its rows.",
            class_="caption",
        ),
        class_="classes",
        id="classes",
        hidden="hidden" if hidden else None,
    )


def _item(share: ClassShare) -> str:
    rows, column = f"{100 * share.weight:.1f}%", escape_name(clean(share.column))
    return tag(
        "li",
        tag("span", escape_name(clean(share.site)), f" class {share.number}", class_="column"),
        tag("b", escape(percent(share.share)), class_="part"),
        tag("span", tag("i", style=f"width:{100 * share.share:.1f}%"), class_="bar-of"),
        tag("span", f"{escape(rows)} of its rows, mostly in {column}", class_="at-site"),
    )
