"""Words and tags. Whatever a user named passes through `escape` before it becomes part of a
page."""

from __future__ import annotations

import html
import json
import re
from typing import Any

__all__ = [
    "bytes_in_words",
    "cleaned",
    "counted",
    "escape",
    "name",
    "script_json",
    "shortened",
    "tag",
    "text_width",
]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def cleaned(text: object) -> str:
    """The text as any page can carry it: no control characters, no halves of characters, one
    line."""
    return _CONTROL.sub(" ", str(text).encode("utf-8", "replace").decode("utf-8"))


def escape(text: object) -> str:
    """The text, harmless between tags and inside quoted attributes."""
    return html.escape(cleaned(text), quote=True)


def name(text: object) -> str:
    """A user's name for something: escaped, and kept from turning its neighbours around when it
    runs right to left."""
    return f"<bdi>{escape(text) or '&nbsp;'}</bdi>"


def script_json(content: Any) -> str:
    """JSON for a data block inside a page: no `<`, `>` or `&` that could end the block or begin a
    tag."""
    plain = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def tag(element: str, *content: str, **attributes: object) -> str:
    """One element. Attributes are escaped here, content is HTML already; `class_` is class,
    `aria_label` aria-label.

    >>> tag("p", escape("a < b"), class_="note", title='"')
    '<p class="note" title="&quot;">a &lt; b</p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{element}{written}>{''.join(content)}</{element}>"


def _number(value: object) -> object:
    """Coordinates to a hundredth: a page need not carry sixteen digits of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def shortened(text: object, most: int) -> str:
    """At most this many characters, the last an ellipsis when some are missing; not escaped."""
    plain = cleaned(text)
    return plain if len(plain) <= most else plain[: max(1, most - 1)] + "…"


def text_width(text: str, size: float) -> float:
    """About how wide a line of sans-serif text is, in pixels; wide scripts count double."""
    import unicodedata

    return size * sum(
        1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.56 for letter in text
    )


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 client`, `12 clients`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def bytes_in_words(count: int) -> str:
    """1234567 -> '1.2 MB'."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
