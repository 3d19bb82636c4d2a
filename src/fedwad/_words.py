"""Numbers, sizes and dates as text, for the command line and for pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

_MAX_CHARACTERS = 1000  # of a text from elsewhere in one line of a terminal
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


def few_samples(smallest: int | None, few: int = 10) -> str:
    """A warning if some number that was sent stands for few samples, else an empty text.

    >>> few_samples(1)[:54]
    'At least one number that was sent is about one sample.'
    """
    if smallest is None or smallest >= few:
        return ""
    what = f"Some numbers that were sent are about only {smallest} samples."
    if smallest == 1:
        what = "At least one number that was sent is about one sample."
    advice = "Between real sites use a policy with min_cell_size, and fewer points or cells."
    return f"{what} {advice}"


def format_day(days: float) -> str | None:
    """Return the date that is so many days after 1970-01-01; None if too far from it.

    >>> format_day(14600.2), format_day(float("nan"))
    ('2009-12-22', None)
    """
    if not abs(days) < _MAX_DAYS:
        return None
    return str(date(1970, 1, 1) + timedelta(days=round(days)))


def format_value(values: Mapping[str, float], kind: str) -> str:
    """Return a decoded value in the units of its column, as `Schema.describe` gives it.

    It is a number, a day, `missing`, or the most likely level with its share.

    >>> format_value({"mean": 63.21}, "number"), format_value({"f": 0.2, "m": 0.8}, "category")
    ('63.21', 'm (80%)')
    """
    if "mean" in values:
        if values.get("missing", 0.0) > 0.5 or values["mean"] != values["mean"]:
            return "missing"
        day = format_day(values["mean"]) if kind == "date" else None
        return day or f"{values['mean']:.4g}"
    level, share = max(values.items(), key=lambda item: item[1])
    return level if share > 0.99 else f"{level} ({share:.0%})"


def to_printable(text: str) -> str:
    """Return a text from another machine as one line without control characters.

    Escape sequences, line ends and marks of writing direction become U+FFFD.
    """
    line = "".join(c if c.isprintable() else "\ufffd" for c in text[:_MAX_CHARACTERS])
    return line if len(text) <= _MAX_CHARACTERS else f"{line}..."


def cluster_numbers(labels: Sequence[int]) -> dict[int, int]:
    """For each label the number of its cluster, counted from 1.

    A label that only one site has is no cluster; its number is 0.

    >>> cluster_numbers([7, 0, 7, 3, 3])
    {0: 0, 3: 1, 7: 2}
    """
    sizes = Counter(labels)
    numbers, count = {}, 0
    for label in sorted(sizes):
        count += sizes[label] > 1
        numbers[label] = count if sizes[label] > 1 else 0
    return numbers
