"""Numbers, sizes and dates as text, for the command line and for pages."""

from __future__ import annotations

from datetime import date, timedelta

__all__ = ["format_bytes", "format_day", "pluralize", "to_printable"]

_MAX_CHARACTERS = 1000
_MAX_DAYS = 500_000  # before or after 1970; years have four digits within them


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 site`, `12 sites`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_bytes(count: int) -> str:
    """Return a size as text: 1234567 -> '1.2 MB'."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def format_day(days: float) -> str | None:
    """Return the date that is so many days after 1970-01-01; None if too far from it.

    >>> format_day(14600.2), format_day(float("nan"))
    ('2009-12-22', None)
    """
    if not abs(days) < _MAX_DAYS:
        return None
    return str(date(1970, 1, 1) + timedelta(days=round(days)))


def to_printable(text: str) -> str:
    """Return a text from another machine as one line without control characters.

    Escape sequences, line ends and marks of writing direction become U+FFFD.
    """
    line = "".join(c if c.isprintable() else "\ufffd" for c in text[:_MAX_CHARACTERS])
    return line if len(text) <= _MAX_CHARACTERS else f"{line}..."
