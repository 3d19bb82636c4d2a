"""Numbers in words, for the command line and for pages."""

from __future__ import annotations

__all__ = ["bytes_in_words", "counted", "printable"]

_LONGEST = 1000


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 site`, `12 sites`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def bytes_in_words(count: int) -> str:
    """1234567 -> '1.2 MB'."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def printable(text: str) -> str:
    """A text from another machine as one line without control characters.

    Escape sequences, line ends and marks of writing direction become U+FFFD.
    """
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown}..."
