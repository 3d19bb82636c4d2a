"""Which sites stand out by which columns: a shaded table, or one picture of each site."""

from __future__ import annotations

import numpy as np

from fedwad._explain.text import percent
from fedwad.report.page._colour import shade_index
from fedwad.report.page._text import escape, escape_name, tag
from fedwad.report.page._where import image, where_numbers, where_sentence
from fedwad.report.page._why import PairExplanations

__all__ = ["distinctive_figure"]

_MAX_IMAGES = 24


def distinctive_figure(reasons: PairExplanations) -> str:
    """The shaded table of sites and columns, or pictures if the columns are pixels.

    Empty with fewer than three sites.
    """
    if reasons.view.size < 3:
        return ""
    if not reasons.distinctive_columns:
        return tag("p", "No column differs by more than chance explains.")
    return _table(reasons) if reasons.image is None else _images(reasons, reasons.image)


def _table(reasons: PairExplanations) -> str:
    view, columns = reasons.view, reasons.distinctive_columns
    contributions, significant = reasons.by_site
    total = contributions.sum(axis=1, keepdims=True)
    fractions = np.divide(contributions, total, out=np.zeros_like(contributions), where=total > 0)
    largest = float(contributions[:, columns].max()) or 1.0
    # The largest contribution has the shade of the smallest distances, the strongest.
    shades = shade_index(largest - contributions, 0.0, largest)
    head = "".join(
        tag("th", tag("span", escape_name(reasons.columns[k])), scope="col") for k in columns
    )
    rows = "".join(
        tag(
            "tr",
            tag("th", escape_name(view.names[site]), scope="row"),
            *(
                _cell(fractions[site, k], bool(significant[site, k]), int(shades[site, k]))
                for k in columns
            ),
        )
        for site in map(int, view.tree.order)
    )
    caption = (
        "Part of each column in a site's mean squared distance to the others. A strong colour means"
        " that the site stands out by the column. Cells within chance are empty."
    )
    table = tag(
        "table",
        tag("thead", tag("tr", tag("td"), head)),
        tag("tbody", rows),
        class_="standing",
        id="standing",
        aria_label="Part of each column in each site's mean squared distance",
    )
    return tag(
        "figure",
        tag("div", table, class_="scroller"),
        tag("p", "", id="standing-said", class_="said", role="status"),
        tag("figcaption", escape(caption)),
    )


def _cell(fraction: float, significant: bool, shade: int) -> str:
    if not significant or fraction <= 0:
        return tag("td")
    return tag("td", escape(percent(fraction)), class_=f"s{shade}")


def _images(reasons: PairExplanations, shape: tuple[int, int]) -> str:
    """One picture of each site, those that are farthest from the others first."""
    contributions, _ = reasons.by_site
    order = np.argsort(-contributions.sum(axis=1), kind="stable").tolist()
    shown = [site for site in order if contributions[site].any()][:_MAX_IMAGES]
    items = []
    for site in shown:
        sentence = where_sentence(where_numbers(contributions[site], shape), shape[0] * shape[1])
        alternative_text = f"{reasons.view.names[site]}. {sentence}"
        items.append(
            tag(
                "li",
                image(contributions[site], shape, alternative_text),
                tag("span", escape_name(reasons.view.names[site])),
            )
        )
    caption = (
        "Where each site's images differ from those of the others: the stronger a pixel, the larger"
        " its part in the site's mean squared distance. Each picture has its own scale."
    )
    return tag("figure", tag("ul", *items, class_="where-each"), tag("figcaption", escape(caption)))
