"""Writing a page: one HTML file with its style, script and origin, from a template.

Templates escape every text. `Markup` is what a figure is made of; its texts are escaped by `tag`.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedwad._files import write_atomically
from fedwad._words import few_samples, format_bytes, pluralize
from fedwad.compare import percent
from fedwad.compare.sentences import takes
from fedwad.report.page._colour import CLUSTER_COLOURS, colour_css
from fedwad.report.page._text import clean, escape, join, script_json, tag

_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16'"
    " rx='3' fill='#0b6585'/><g fill='#f1efc9'><circle cx='5' cy='10' r='2.4'/><circle cx='11.4'"
    " cy='5' r='1.8'/></g><path d='M5 10L11.4 5' stroke='#f1efc9'/></svg>"
)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("fedwad.report.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.globals["colours"] = len(CLUSTER_COLOURS)
    environment.filters |= {
        "bytes": format_bytes,
        "commands": _commands,
        "few_samples": few_samples,
        "percent": percent,
        "plural": pluralize,
        "takes": takes,
    }
    return environment


def _commands(sentence: str) -> Markup:
    """A sentence with what is in backticks, and options in brackets, as code."""
    parts = escape(re.sub(r"\((--[^)]*)\)", r"(`\1`)", sentence)).split("`")
    return join(tag("code", part) if k % 2 else part for k, part in enumerate(parts))


def _read(file: str) -> str:
    return Path(__file__).with_name(file).read_text(encoding="utf-8")


def write_page(
    path: str | Path,
    template: str,
    title: str,
    *,
    data: Any = None,
    command: str | None = None,
    when: datetime | None = None,
    **content: Any,
) -> None:
    """Write one self-contained HTML file: no network, no fonts, no storage.

    Parameters
    ----------
    path : the file; it is written completely or not at all
    template : name of the template, which receives `content`
    title : the heading
    data : input of the page's script: numbers, strings and lists
    command : the command that made the page
    when : the date on the page; by default now
    """
    from fedwad import __version__

    script = _read("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    date = datetime.now(UTC) if when is None else when.astimezone(UTC)
    frame = {
        "title": title,
        # The browser enforces this: nothing is fetched, and only our script runs.
        "policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src 'sha256-{digest}'",
        "icon": "data:image/svg+xml;base64," + base64.b64encode(_ICON.encode()).decode(),
        "style": Markup(f"{_read('style.css')}\n{colour_css()}"),  # noqa: S704
        "script": Markup(script),  # noqa: S704
        "data": script_json(data),
        "date": f"{date:%Y-%m-%d %H:%M}",
        "versions": f"fedwad {__version__}, numpy {np.__version__},"
        f" Python {platform.python_version()}",
        "command": command,
    }
    page = _templates().get_template(f"{template}.html").render(content | frame)
    write_atomically(path, page)
