"""How different the sites are on the whole, and how far each is from the rest."""

from __future__ import annotations

import numpy as np

from fedwad._matrix.health import Eccentricity
from fedwad.report.page._elements import bold_name, paragraph
from fedwad.report.page._figures import HorizontalAxis, draw_both_widths, label_column
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import escape, tag
from fedwad.report.sentences import heterogeneity_sentences

__all__ = ["heterogeneity_figure"]

_AXIS_HEIGHT, _ROW_HEIGHT = 26.0, 22.0
_MAX_SITES = 40  # sites that are drawn, those farthest from the rest first


def heterogeneity_figure(view: MatrixView) -> str:
    """Sentences, and a line for each site: its mean squared distance to the others."""
    sentences = paragraph(heterogeneity_sentences(view.matrix, bold_name))
    if view.size < 3:
        return sentences
    eccentricity = view.matrix.eccentricity
    order = np.argsort(-eccentricity.value, kind="stable")[:_MAX_SITES].tolist()
    caption = (
        "Mean squared distance between the population of a site and those of the others, with two"
        " standard errors. The dashed line is the mean over all sites."
    )
    if len(eccentricity.sites) > _MAX_SITES:
        caption += f" The {_MAX_SITES} sites that are farthest from the rest are shown."
    figure = draw_both_widths(lambda width: _draw(view, eccentricity, order, width))
    return sentences + tag("figure", figure, tag("figcaption", escape(caption)), class_="health")


def _draw(view: MatrixView, eccentricity: Eccentricity, order: list[int], width: int) -> str:
    texts, left = label_column([view.names[site] for site in order], width, 20)
    low, high = (
        eccentricity.value - 2 * eccentricity.error,
        eccentricity.value + 2 * eccentricity.error,
    )
    axis = HorizontalAxis(left, width - left - 16, min(0.0, float(low.min())), float(high.max()))
    bottom = _AXIS_HEIGHT + _ROW_HEIGHT * len(order)
    mean = axis.x(float(eccentricity.value.mean()))
    lines = [tag("path", d=f"M{mean:.1f} {_AXIS_HEIGHT:.0f}V{bottom:.0f}", class_="mark")]
    odd = set(eccentricity.odd)
    for row, site in enumerate(order):
        y = _AXIS_HEIGHT + _ROW_HEIGHT * (row + 0.5)
        style = "paper" if eccentricity.sites[site] in odd else "ours"
        x_low, x, x_high = (axis.x(float(part[site])) for part in (low, eccentricity.value, high))
        lines.append(
            tag("text", escape(texts[row]), x=left - 12, y=y, dy="0.35em", text_anchor="end")
            + tag("path", d=f"M{x_low:.1f} {y:.1f}H{x_high:.1f}", class_=f"whisker {style}")
            + tag("path", d=f"M{x:.1f} {y:.1f}h0", class_=f"dots large {style}")
        )
    return tag(
        "svg",
        axis.grid(_AXIS_HEIGHT, bottom, 6 if width > 400 else 4),
        tag("g", *lines),
        viewBox=f"0 0 {width} {bottom + 6:.0f}",
        role="img",
        aria_label=f"How far each of {len(order)} sites is from the rest",
    )
