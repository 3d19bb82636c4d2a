"""Results in notebooks: data frames, and small pieces of HTML without style sheets or scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from fedwad.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """Return the HTML of a title and a table with a name and a text in each row.

    The title may be a repr; its angle brackets are dropped.

    >>> html_table("<distance 1>", {"noise": "0.5"})[:29]
    '<p><b>distance 1</b></p><tabl'
    """
    heading = f"<p><b>{escape(title.removeprefix('<').removesuffix('>'))}</b></p>"
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return heading + (f"<table>{lines}</table>" if lines else "")


def html_rows(text: str, titles: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return the HTML of a paragraph and a table with these titles; each row has a style."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr{style}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for style, cells in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p>{escape(text)}</p>{table}"


def data_frame(content: Any, **options: Any) -> pd.DataFrame:
    """Return a pandas DataFrame; InputError, which says how to get pandas, without it."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError(
            "to_frame needs pandas; run: pip install pandas.", "missing-package"
        ) from None
    return pd.DataFrame(content, **options)
