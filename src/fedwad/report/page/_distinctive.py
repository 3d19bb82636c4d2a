"""Who stands out by what: a map of sites and columns, or one picture of each site."""

from __future__ import annotations

import numpy as np

from fedwad._explain.text import percent
from fedwad.report.page._colour import shade_index
from fedwad.report.page._text import escape, escape_name, tag
from fedwad.report.page._where import image, where_numbers, where_sentence
from fedwad.report.page._why import PairExplanations

__all__ = ["distinctive_figure"]

_MOST_IMAGES = 24


def distinctive_figure(reasons: PairExplanations) -> str:
    """The map of sites and columns, as a table whose cells are shaded; pictures for images."""
    if reasons.view.size < 3:
        return ""
    if not reasons.standing:
        return tag("p", "No column differs by more than chance explains.")
    return _table(reasons) if reasons.image is None else _images(reasons, reasons.image)


def _table(reasons: PairExplanations) -> str:
    view, columns = reasons.view, reasons.standing
    parts, significant = reasons.by_site
    whole = parts.sum(axis=1, keepdims=True)
    shares = np.divide(parts, whole, out=np.zeros_like(parts), where=whole > 0)
    largest = float(parts[:, columns].max()) or 1.0
    # The darkest shade is the largest part here, the opposite of distances.
    levels = shade_index(largest - parts, 0.0, largest)
    head = "".join(
        tag("th", tag("span", escape_name(reasons.columns[k])), scope="col") for k in columns
    )
    rows = "".join(
        tag(
            "tr",
            tag("th", escape_name(view.names[site]), scope="row"),
            *(
                _cell(shares[site, k], bool(significant[site, k]), int(levels[site, k]))
                for k in columns
            ),
        )
        for site in map(int, view.tree.order)
    )
    caption = (
        "Part of each column in a site's mean squared distance to the others. A strong colour says:"
        " this site stands out by this column. Cells within chance are empty."
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


def _cell(share: float, significant: bool, level: int) -> str:
    if not significant or share <= 0:
        return tag("td")
    return tag("td", escape(percent(share)), class_=f"s{level}")


def _images(reasons: PairExplanations, shape: tuple[int, int]) -> str:
    """One picture of each site, those that are farthest from the others first."""
    parts, _ = reasons.by_site
    order = np.argsort(-parts.sum(axis=1), kind="stable").tolist()
    shown = [site for site in order if parts[site].any()][:_MOST_IMAGES]
    items = []
    for site in shown:
        sentence = where_sentence(where_numbers(parts[site], shape), shape[0] * shape[1])
        said = f"{reasons.view.names[site]}. {sentence}"
        items.append(
            tag(
                "li",
                image(parts[site], shape, said),
                tag("span", escape_name(reasons.view.names[site])),
            )
        )
    caption = (
        "Where each site's images differ from those of the others: the stronger a pixel, the larger"
        " its part in the site's mean squared distance. Each picture has its own scale."
    )
    return tag("figure", tag("ul", *items, class_="where-each"), tag("figcaption", escape(caption)))
