"""Text and tags of figures. What is no `Markup` is escaped when it becomes part of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup
from markupsafe import escape as escape_text

# Besides control characters: line ends, and marks that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")


def clean(text: object) -> str:
    """The text on one line, without control characters and unpaired surrogates."""
    return _CONTROL.sub(" ", str(text).encode("utf-8", "replace").decode("utf-8"))


def escape(text: object) -> Markup:
    """The text, safe between tags and inside quoted attributes; markup stays as it is."""
    return text if isinstance(text, Markup) else escape_text(clean(text))


def join(parts: Iterable[object]) -> Markup:
    """Texts and markup, one after another."""
    return Markup().join(map(escape, parts))


def script_json(content: Any) -> Markup:
    """JSON for a data block inside a page, without `<`, `>` and `&`, which could end the block."""
    plain = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    safe = plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe)  # noqa: S704


def tag(element: str, *content: object, **attributes: object) -> Markup:
    """One element. Attributes and texts are escaped here.

    An attribute that is None is left out. `class_` becomes class, and `aria_label` aria-label.

    >>> tag("p", "a < b", class_="note", title='"')
    Markup('<p class="note" title="&#34;">a &lt; b</p>')
    """
    return Markup("{}{}</{}>").format(_opening(element, attributes), join(content), element)


def drawing(width: float, height: float, label: str, *content: object, **more: object) -> Markup:
    """A figure of this size in its own units; the label is for readers who do not see it."""
    box = f"0 0 {width:.0f} {height:.0f}"
    return tag("svg", *content, viewBox=box, role="img", aria_label=label, **more)


def picture(source: str, description: str, **attributes: object) -> Markup:
    """An image whose pixels stay squares."""
    style = f"{attributes.pop('style', '')};image-rendering:pixelated".lstrip(";")
    return _opening("img", {"src": source, "alt": description, **attributes, "style": style})


def _opening(element: str, attributes: Mapping[str, object]) -> Markup:
    pairs = (
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), escape(_round_coordinate(value))
        )
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{}{}>").format(element, Markup().join(pairs))


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
