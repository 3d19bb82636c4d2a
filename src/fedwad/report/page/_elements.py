"""Parts that several pages have: tables, lists of facts, and paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedwad.report.page._text import escape, escape_name, tag

__all__ = [
    "bold_name",
    "code",
    "collapsible",
    "facts",
    "paragraph",
    "scrolling",
    "table",
    "term_paragraphs",
]


def bold_name(site: str) -> str:
    """The name of a site within a sentence."""
    return tag("b", escape_name(site))


def code(command: str) -> str:
    """A command within a sentence."""
    return tag("code", escape(command))


def paragraph(sentences: Sequence[str], class_: str | None = None) -> str:
    """Sentences in one paragraph; they are HTML."""
    return tag("p", " ".join(sentences), class_=class_)


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A list of terms and descriptions; both are HTML."""
    items = (tag("div", tag("dt", term), tag("dd", text)) for term, text in rows)
    return tag("dl", *items, class_="facts")


def term_paragraphs(rows: Iterable[tuple[str, str]], class_: str | None = "three") -> str:
    """A paragraph for each term, side by side on wide screens; both texts are HTML."""
    return tag("div", *(tag("p", tag("b", term), " ", text) for term, text in rows), class_=class_)


def table(head: list[str], rows: list[list[str]], caption: str, text_columns: int = 1) -> str:
    """A table; rows are HTML already. The first `text_columns` hold words, the others numbers."""
    header = tag("tr", *(tag("th", escape(text), scope="col") for text in head))
    body = "".join(
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(
                tag("td", cell, class_=None if k < text_columns else "n")
                for k, cell in enumerate(row[1:], 1)
            ),
        )
        for row in rows
    )
    return tag("table", tag("caption", escape(caption)), tag("thead", header), tag("tbody", body))


def scrolling(content: str, class_: str = "") -> str:
    """Content that scrolls sideways where it is wider than the screen."""
    return tag("div", content, class_=f"scroller {class_}".rstrip())


def collapsible(key: str, title: str, content: str) -> str:
    """Content behind a switch that needs no script; in print it always shows."""
    switch = f'<input type="checkbox" id="fold-{escape(key)}">'
    label = tag("label", escape(title), for_=f"fold-{key}")
    return tag("div", switch, label, tag("div", content, class_="content"), class_=f"fold {key}")
