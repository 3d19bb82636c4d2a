"""The beginning of a page: what was compared, what to do next, and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from fedwad.report.page._frame import Section
from fedwad.report.page._text import escape, name, tag

__all__ = ["bold_name", "opening", "paragraph"]


def bold_name(site: str) -> str:
    """A name within a sentence."""
    return tag("b", name(site))


def paragraph(sentences: Sequence[str], class_: str | None = None) -> str:
    """Sentences in one paragraph; they are HTML."""
    return tag("p", " ".join(sentences), class_=class_)


def opening(
    compared: Sequence[str], steps: Sequence[str], warnings: Sequence[str]
) -> list[Section]:
    """What was compared beside what to do next, then the warnings, as far as there are some."""
    sections = [Section("What was compared", paragraph(compared), "left")] if compared else []
    if steps:
        items = "".join(tag("li", step) for step in steps)
        sections.append(Section("What to do next", tag("ul", items, class_="next"), "right"))
    if warnings:
        items = "".join(tag("li", escape(text)) for text in warnings)
        sections.append(Section("Warnings", tag("ul", items, class_="warning")))
    return sections
