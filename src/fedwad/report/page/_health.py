"""Health: how different the sites are on the whole, and how far each is from the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwad._matrix.health import Eccentricity
from fedwad.report.page._digits import Digits
from fedwad.report.page._figures import both_widths, round_ticks
from fedwad.report.page._opening import bold_name, paragraph
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, shortened, tag, text_width
from fedwad.report.sentences import health_sentences

__all__ = ["health_figure"]

_HEAD, _PITCH, _FONT = 26.0, 22.0, 12.5
_MAX_SITES = 40  # sites that are drawn, those farthest from the rest first


def health_figure(subject: Subject) -> str:
    """Sentences, and a line for each site: its mean squared distance to the others."""
    words = paragraph(health_sentences(subject.matrix, bold_name))
    if subject.size < 3:
        return words
    found = subject.matrix.eccentricity
    order = np.argsort(-found.value, kind="stable")[:_MAX_SITES]
    caption = (
        "Mean squared distance between the population of a site and those of the others, with two"
        " standard errors. The dashed line is the mean over all sites."
    )
    if len(found.sites) > _MAX_SITES:
        caption += f" The {_MAX_SITES} sites that are farthest from the rest are shown."
    figure = both_widths(lambda width: _draw(subject, found, order.tolist(), width))
    return words + tag("figure", figure, tag("figcaption", escape(caption)), class_="health")


@dataclass(frozen=True)
class _Layout:
    width: int
    left: float
    low: float
    high: float

    def across(self, number: float) -> float:
        share = (number - self.low) / ((self.high - self.low) or 1.0)
        return self.left + (self.width - self.left - 16) * min(max(share, 0.0), 1.0)

    def down(self, line: int) -> float:
        return _HEAD + _PITCH * (line + 0.5)


def _draw(subject: Subject, found: Eccentricity, order: list[int], width: int) -> str:
    texts = [shortened(subject.names[site], 22 if width > 400 else 15) for site in order]
    left = min(max(text_width(text, _FONT) for text in texts) + 20, 0.45 * width)
    low, high = found.value - 2 * found.error, found.value + 2 * found.error
    layout = _Layout(width, left, min(0.0, float(low.min())), float(high.max()))
    bottom = layout.down(len(order)) - _PITCH / 2
    mean = layout.across(float(found.value.mean()))
    lines = [tag("path", d=f"M{mean:.1f} {_HEAD:.0f}V{bottom:.0f}", class_="mark")]
    odd = set(found.odd)
    for line, site in enumerate(order):
        y = layout.down(line)
        style = "paper" if found.sites[site] in odd else "ours"
        ends = (
            f"M{layout.across(float(low[site])):.1f} {y:.1f}H{layout.across(float(high[site])):.1f}"
        )
        dot = f"M{layout.across(float(found.value[site])):.1f} {y:.1f}h0"
        lines.append(
            tag("text", escape(texts[line]), x=left - 12, y=y, dy="0.35em", text_anchor="end")
            + tag("path", d=ends, class_=f"whisker {style}")
            + tag("path", d=dot, class_=f"dots large {style}")
        )
    return tag(
        "svg",
        tag("g", *_axis(layout, bottom), class_="axis"),
        tag("g", *lines),
        viewBox=f"0 0 {width} {bottom + 6:.0f}",
        role="img",
        aria_label=f"How far each of {len(order)} sites is from the rest",
    )


def _axis(layout: _Layout, bottom: float) -> list[str]:
    ticks = round_ticks(layout.low, layout.high, 6 if layout.width > 400 else 4)
    texts = Digits.fitting([*ticks, ticks[-1] - ticks[0]], 2).texts(ticks)
    return [
        tag("path", d=f"M{layout.across(tick):.1f} {_HEAD:.0f}V{bottom:.0f}")
        + tag("text", escape(text), x=layout.across(tick), y=_HEAD - 8, text_anchor="middle")
        for tick, text in zip(ticks, texts, strict=True)
    ]
