"""Results in notebooks: data frames, and small pieces of HTML without style sheets or scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from fedwad.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["card", "data_frame", "grid"]

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


def data_frame(content: Any, **options: Any) -> pd.DataFrame:
    """The content as a pandas DataFrame; InputError unless pandas is installed."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("to_frame needs pandas; run: pip install pandas.") from None
    return pd.DataFrame(content, **options)
