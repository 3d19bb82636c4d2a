"""The beginning of a page: what was compared, what to do next, warnings, and missing sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedwad._words import pluralize
from fedwad.report.page._elements import bold_name, paragraph
from fedwad.report.page._frame import Section
from fedwad.report.page._text import escape, tag

__all__ = ["missing_sites", "opening"]


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


def missing_sites(failed: Mapping[str, str]) -> str:
    """The sites that did not answer or were left out, and why."""
    items = "".join(
        tag("li", bold_name(site), ": ", escape(reason)) for site, reason in failed.items()
    )
    verbs = ("was", "is") if len(failed) == 1 else ("were", "are")
    sentence = (
        f"{pluralize(len(failed), 'site')} did not answer or {verbs[0]} left out, and {verbs[1]}"
        " missing above."
    )
    return tag("p", escape(sentence), class_="warning") + tag("ul", items, class_="lost")
