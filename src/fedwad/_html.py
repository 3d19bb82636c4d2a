"""Results in notebooks: small pieces of HTML without style sheets or scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["card", "grid"]

_CELL = "padding:2px 8px;text-align:right"


def card(title: str, rows: Mapping[str, str]) -> str:
    """A result in a sentence, and its numbers by name.

    >>> card("<distance 1>", {"noise": "0.5"})[:29]
    '<p><b>distance 1</b></p><tabl'
    """
    head = f"<p><b>{escape(title.removeprefix('<').removesuffix('>'))}</b></p>"
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='{_CELL}'>{escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return head + (f"<table>{cells}</table>" if cells else "")


def grid(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A square table with names of rows and columns."""
    top = "".join(f"<th style='{_CELL}'>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        + "".join(f"<td style='{_CELL}'>{escape(text)}</td>" for text in row)
        + "</tr>"
        for name, row in zip(names, rows, strict=True)
    )
    return card(title, {}) + f"<table><tr><th></th>{top}</tr>{body}</table>"
