"""Numbers in words, for the command line and for pages."""

from __future__ import annotations

from datetime import date, timedelta

__all__ = ["format_bytes", "format_day", "pluralize", "to_printable"]

_LONGEST = 1000
_LAST_DAY = 500_000  # from 1970, within what a calendar of four digits holds


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """`1 site`, `12 sites`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_bytes(count: int) -> str:
    """1234567 -> '1.2 MB'."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def format_day(days: float) -> str | None:
    """A number of days from 1970 as a date; None if it is none of four-digit years.

    >>> format_day(14600.2), format_day(float("nan"))
    ('2009-12-22', None)
    """
    if not abs(days) < _LAST_DAY:
        return None
    return str(date(1970, 1, 1) + timedelta(days=round(days)))


def to_printable(text: str) -> str:
    """A text from another machine as one line without control characters.

    Escape sequences, line ends and marks of writing direction become U+FFFD.
    """
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown}..."
