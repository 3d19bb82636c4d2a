"""Columns of text: which texts are missing values, numbers, dates, booleans or levels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.tables._table import Column, index_dtype, level_name, list_rows

__all__ = [
    "MISSING",
    "is_missing",
    "is_number",
    "locate_text",
    "parse_date",
    "parse_number",
    "text_column",
    "values_column",
]

#: Texts that stand for a missing value in every column, in any case of letters.
MISSING = ("", "?", "na", "n/a", "#n/a", "nan", "null", "<na>", "nat", "missing")
#: Texts that stand for a missing value if all the others in the column are numbers or dates.
_WEAK_MISSING = ("none", "-", "--", ".", "n.a.", "*")

_DECIMAL_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?((\d+|\d{1,3}(\.\d{3})+)(,\d+)?|,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?|[+-]?\d+(\.\d+)?")
_WHOLE = re.compile(r"-?\d+\.0+")  # such as 1.0
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_TRUTH = {"true": 1, "false": 0}
_DATE_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d", "%d.%m.%Y")
_AMBIGUOUS_FORMATS = ("%d/%m/%Y", "%m/%d/%Y")
_EPOCH = datetime(1970, 1, 1)
_SECONDS_PER_DAY = 86400.0


def is_number(text: str) -> bool:
    """Whether a text is a number, with a decimal point if it has a fraction.

    >>> is_number("1.5"), is_number("1,5"), is_number("x")
    (True, False, False)
    """
    word = text.strip()
    return bool(_DECIMAL_POINT.fullmatch(word) or _INFINITE.fullmatch(word))


def parse_number(text: str, decimal: str = "") -> float:
    """The number that a text is when read by itself, NaN if it is none.

    `decimal` is "," where commas are known to be decimal ones.

    >>> parse_number("1.5"), parse_number("1,000"), parse_number("1,5"), parse_number("1,000", ",")
    (1.5, 1000.0, 1.5, 1.0)
    >>> parse_number(",5"), parse_number("1.000,5"), parse_number("E11")
    (0.5, 1000.5, nan)
    """
    word = text.strip()
    read = _number_reader([word], decimal)
    return math.nan if read is None else read(word)


def parse_date(text: str) -> float:
    """The days since 1970 of a text read by itself, NaN if it is no unambiguous date."""
    word = text.strip()
    read = _date_reader([word])
    return math.nan if read is None else read(word)


def is_missing(text: str, missing_texts: Collection[str] = ()) -> bool:
    """Whether a text stands for a missing value: usually so, or as one of `missing_texts`."""
    word = text.strip()
    return word.lower() in MISSING or word in missing_texts


def locate_text(column: Column) -> str:
    """' in row 3, counting from 1': the texts of a category whose values are mostly numbers.

    '' if most of its values are texts.
    """
    not_numbers = [code for code, level in enumerate(column.levels) if not is_number(level)]
    rows = (np.flatnonzero(np.isin(column.values, not_numbers)) + 1).tolist()
    return f" in {list_rows(rows)}" if 0 < len(rows) < len(column) / 2 else ""


def text_column(
    name: str,
    codes: NDArray[Any],
    texts: Sequence[str],
    missing_texts: frozenset[str] = frozenset(),
    decimal: str = "",
    keep_texts: bool = False,
) -> Column:
    """A column from the distinct `texts` and the code of each row, -1 where it is missing.

    Texts that are all numbers make a column of numbers, and likewise dates and booleans; with
    `keep_texts` any texts make a category. `decimal` is "," where commas are known to be decimal.
    """
    words = [text.strip() for text in texts]
    present = [word for word in words if not is_missing(word, missing_texts)]
    kind, values = ("category", present) if keep_texts else _detect_kind(present, decimal)
    value_of = dict(zip(present, values, strict=True))
    return _build_column(name, kind, codes, [value_of.get(word) for word in words])


def values_column(
    name: str,
    values: Sequence[Any],
    missing_texts: frozenset[str] = frozenset(),
    elementwise: bool = False,
) -> Column:
    """A column from Python values: numbers, strings, dates and booleans, also mixed.

    With `elementwise` each becomes a text, so that no value changes how others are read.
    """
    plain = [_to_plain_value(value) for value in values]
    if elementwise:
        plain = [str(value).lower() if isinstance(value, bool) else value for value in plain]
        return text_column(name, *_encode_texts(plain), missing_texts, keep_texts=True)
    types = {type(value) for value in plain} - {type(None)}
    if types and all(issubclass(one, datetime) for one in types):
        return Column(
            name, "date", _to_floats([v if v is None else _days_since_1970(v) for v in plain])
        )
    if types == {bool}:
        codes = np.array([-1 if v is None else int(v) for v in plain], dtype=np.int8)
        return Column(name, "boolean", codes, ("false", "true"))
    return text_column(name, *_encode_texts(plain), missing_texts)


def _encode_texts(values: Sequence[Any]) -> tuple[NDArray[np.int32], list[str]]:
    """The index of each value among the different texts, -1 where it is missing; and the texts."""
    texts = [None if value is None else _to_text(value) for value in values]
    code_of = {text: k for k, text in enumerate(dict.fromkeys(t for t in texts if t is not None))}
    codes = np.array([-1 if t is None else code_of[t] for t in texts], dtype=np.int32)
    return codes, list(code_of)


def _to_plain_value(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | datetime):
        return value.replace(tzinfo=None) if isinstance(value, datetime) else value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, np.bool_):
        return bool(value)
    if value != value:  # NaN of any library
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, bool | datetime) else level_name(value)


def _detect_kind(words: list[str], decimal: str) -> tuple[str, list[Any]]:
    """The kind of a column with these words, and the value of each, None if it is missing."""
    weak = {word for word in words if word.lower() in _WEAK_MISSING}
    others = [word for word in words if word not in weak]
    for kind, read in (("number", _number_reader(others, decimal)), ("date", _date_reader(others))):
        if others and read is not None:
            return kind, [None if word in weak else read(word) for word in words]
    if words and all(word.lower() in _TRUTH for word in words):
        return "boolean", [_TRUTH[word.lower()] for word in words]
    return "category", list(words)


def _number_reader(words: list[str], decimal: str) -> Callable[[str], float] | None:
    """The function that reads these words as numbers; None unless all of them are numbers."""
    if all(is_number(word) for word in words):
        return float
    if decimal == "" and all(_THOUSANDS.fullmatch(word) for word in words):
        return lambda word: float(word.replace(",", ""))
    if all(word[-1:].isdigit() and _DECIMAL_COMMA.fullmatch(word) for word in words):
        return lambda word: float(word.replace(".", "").replace(",", "."))
    return None


def _date_reader(words: list[str]) -> Callable[[str], float] | None:
    """The function that reads these words as dates; None unless one format alone fits them all."""
    if not words or not words[0][:1].isdigit():
        return None
    for format_ in _DATE_FORMATS:
        if all(_fits_format(word, format_) for word in words):
            return partial(_parse_days, format_)
    fitting = [f for f in _AMBIGUOUS_FORMATS if all(_fits_format(word, f) for word in words)]
    if len(fitting) == 1:  # a number above 12 is a day, so the other is the month
        return partial(_parse_days, fitting[0])
    return None


def _parse_days(format_: str, word: str) -> float:
    return _days_since_1970(datetime.strptime(word, format_))


def _fits_format(word: str, format_: str) -> bool:
    try:
        datetime.strptime(word, format_)
    except ValueError:
        return False
    return True


def _days_since_1970(moment: datetime) -> float:
    return (moment - _EPOCH).total_seconds() / _SECONDS_PER_DAY


def _build_column(name: str, kind: str, codes: NDArray[Any], values: list[Any]) -> Column:
    """A column from the value of each code, None if it is missing, and the code of each row.

    Lookup tables end with the entry for code -1, a missing value.
    """
    if all(value is None for value in values):
        return Column(name, "empty", np.full(len(codes), np.nan))
    if kind in ("number", "date"):
        numbers = np.append(_to_floats(values), np.nan)
        return Column(name, "date" if kind == "date" else "number", numbers[codes])
    if kind == "boolean":
        lookup = np.array([*(-1 if v is None else v for v in values), -1], dtype=np.int8)
        return Column(name, "boolean", lookup[codes], ("false", "true"))
    words = [None if value is None else _strip_zeros(value) for value in values]
    levels = tuple(sorted({word for word in words if word is not None}))
    code_of: dict[str | None, int] = {level: code for code, level in enumerate(levels)}
    new_codes = [*(code_of.get(word, -1) for word in words), -1]
    lookup = np.array(new_codes, dtype=index_dtype(new_codes))
    return Column(name, "category", lookup[codes], levels)


def _strip_zeros(word: str) -> str:
    """'1' for '1.0', as only some programs write whole numbers; any other word as it is."""
    return word.partition(".")[0] if _WHOLE.fullmatch(word) else word


def _to_floats(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
