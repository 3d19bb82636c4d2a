"""Results in notebooks: data frames, and small pieces of HTML without style sheets or scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from fedwad.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


_CELL_STYLE = "padding:2px 8px;text-align:right"


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """Return the HTML of a title and a table with a name and a text in each row.

    The title may be a repr; its angle brackets are dropped.

    >>> html_table("<distance 1>", {"noise": "0.5"})[:29]
    '<p><b>distance 1</b></p><tabl'
    """
    heading = f"<p><b>{escape(title.removeprefix('<').removesuffix('>'))}</b></p>"
    lines = "".join(_row(name, [text]) for name, text in rows.items())
    return heading + (f"<table>{lines}</table>" if lines else "")


def _row(name: str, texts: Iterable[str]) -> str:
    cells = "".join(f"<td style='{_CELL_STYLE}'>{escape(text)}</td>" for text in texts)
    return f"<tr><th style='text-align:left'>{escape(name)}</th>{cells}</tr>"


def html_matrix(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the HTML of a square table under a title; `names` head its rows and its columns."""
    column_heads = "".join(f"<th style='{_CELL_STYLE}'>{escape(name)}</th>" for name in names)
    body = "".join(_row(name, row) for name, row in zip(names, rows, strict=True))
    return html_table(title, {}) + f"<table><tr><th></th>{column_heads}</tr>{body}</table>"


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
