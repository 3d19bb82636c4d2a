"""Text and tags. All user text passes through `escape` before it becomes part of a page."""

from __future__ import annotations

import html
import json
import re
from typing import Any

__all__ = ["clean", "escape", "escape_name", "script_json", "shorten", "tag", "text_width"]

# Besides control characters: line ends, and marks that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")


def clean(text: object) -> str:
    """The text on one line, without control characters and unpaired surrogates."""
    return _CONTROL.sub(" ", str(text).encode("utf-8", "replace").decode("utf-8"))


def escape(text: object) -> str:
    """The text, safe between tags and inside quoted attributes."""
    return html.escape(clean(text), quote=True)


def escape_name(text: object) -> str:
    """A user's name: escaped, and isolated so that right-to-left text does not reorder others."""
    return f"<bdi>{escape(text) or '&nbsp;'}</bdi>"


def script_json(content: Any) -> str:
    """JSON for a data block inside a page, without `<`, `>` and `&`, which could end the block."""
    plain = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def tag(element: str, *content: str, **attributes: object) -> str:
    """One element. Attributes are escaped here; content is HTML already.

    An attribute that is None is left out. `class_` becomes class, and `aria_label` aria-label.

    >>> tag("p", escape("a < b"), class_="note", title='"')
    '<p class="note" title="&quot;">a &lt; b</p>'
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_round_coordinate(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{element}{attribute_text}>{''.join(content)}</{element}>"


def _round_coordinate(value: object) -> object:
    """A float rounded to a hundredth of a pixel; other values as they are."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def shorten(text: object, max_length: int) -> str:
    """At most `max_length` characters, ending in an ellipsis if some are missing; not escaped."""
    plain = clean(text)
    return plain if len(plain) <= max_length else plain[: max(1, max_length - 1)] + "…"


def text_width(text: str, size: float) -> float:
    """Approximate width of a line of sans-serif text in pixels; wide scripts count double."""
    import unicodedata

    return size * sum(
        1.0 if unicodedata.east_asian_width(character) in "WF" else 0.56 for character in text
    )
