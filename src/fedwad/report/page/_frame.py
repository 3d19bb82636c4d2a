"""The frame of every page: one file with its style, script, sections and origin."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedwad._files import write_atomically
from fedwad.report.page._colour import colour_css
from fedwad.report.page._text import escape, script_json, tag

__all__ = ["Section", "write_page"]


@dataclass(frozen=True)
class Section:
    """A part of a page: a heading, and HTML in which all texts of users are escaped already.

    On wide screens, neighbouring sections with a `side` form two columns.
    """

    title: str
    html: str
    side: Literal["left", "right"] | None = None


def write_page(
    path: str | Path,
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    data: Any = None,
    command: str | None = None,
    when: datetime | None = None,
) -> None:
    """Write one self-contained HTML file: no network, no fonts, no storage.

    Parameters
    ----------
    title : plain text, escaped here
    lead : HTML under the title: the result in a sentence or two
    data : input of the page's script: numbers, strings and lists
    command : the command that made the page
    when : the date on the page; by default now
    """
    script = _read("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The browser enforces this: nothing is fetched, and only our script runs.
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src 'sha256-{digest}'"
    )
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{_read("style.css")}
{colour_css()}
</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{lead}
</header>
<main>
{_body(sections)}
</main>
<footer>
{_origin(command, when)}
</footer>
<script type="application/json" id="data">{script_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""
    write_atomically(path, page)


def _read(file: str) -> str:
    return Path(__file__).with_name(file).read_text(encoding="utf-8")


def _body(sections: Sequence[Section]) -> str:
    """All sections; neighbours with a side share two columns."""
    parts = []
    for has_side, group in groupby(sections, key=lambda section: section.side is not None):
        members = list(group)
        if not has_side:
            parts += [_section(section) for section in members]
            continue
        columns = [
            [section for section in members if section.side == side] for side in ("left", "right")
        ]
        parts.append(
            tag(
                "div",
                *(tag("div", "\n".join(map(_section, column))) for column in columns),
                class_="columns",
            )
        )
    return "\n".join(parts)


def _section(section: Section) -> str:
    return tag("section", tag("h2", escape(section.title)), "\n", section.html)


def _origin(command: str | None, when: datetime | None) -> str:
    from fedwad import __version__

    date = f"{datetime.now(UTC) if when is None else when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    versions = f"fedwad {__version__}, numpy {np.__version__}, Python {platform.python_version()}"
    origin = tag("p", f"Made on {escape(date)} by {escape(versions)}.")
    return origin + (tag("p", "The command: ", tag("code", escape(command))) if command else "")
