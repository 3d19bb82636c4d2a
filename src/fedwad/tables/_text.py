"""Columns of text: missing values, numbers written as text, dates, booleans, levels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.tables._table import Column, level_of, small_type

__all__ = [
    "MISSING",
    "WEAK_MISSING",
    "is_number",
    "looks_missing",
    "number_in",
    "read_date",
    "text_column",
    "values_column",
]

#: Texts that stand for a missing value in every column, in any case of letters.
MISSING = ("", "?", "na", "n/a", "#n/a", "nan", "null", "<na>", "nat", "missing")
#: Texts that stand for a missing value where all the others are numbers or dates.
WEAK_MISSING = ("none", "-", "--", ".", "n.a.", "*")

_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?((\d+|\d{1,3}(\.\d{3})+)(,\d+)?|,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?|[+-]?\d+(\.\d+)?")
_WHOLE = re.compile(r"-?\d+\.0+")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_TRUTH = {"true": 1, "false": 0}
_DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d", "%d.%m.%Y")
_EITHER_DATES = ("%d/%m/%Y", "%m/%d/%Y")
_EPOCH = datetime(1970, 1, 1)
_DAY = 86400.0

Lookup = tuple[str, list[Any]]  # kind, one value per distinct text; None where it is missing


def is_number(text: str) -> bool:
    """Whether a cell reads as a number with a decimal point.

    >>> is_number("1.5"), is_number("1,5"), is_number("x")
    (True, False, False)
    """
    word = text.strip()
    return bool(_POINT.fullmatch(word) or _INFINITE.fullmatch(word))


def number_in(text: str, decimal: str = "") -> float:
    """The number that a cell holds by itself, NaN if it holds none.

    >>> number_in("1.5"), number_in("1,000"), number_in("1,5"), number_in("1,000", ",")
    (1.5, 1000.0, 1.5, 1.0)
    >>> number_in(",5"), number_in("1.000,5"), number_in("E11")
    (0.5, 1000.5, nan)
    """
    word = text.strip()
    if is_number(word):
        return float(word)
    if decimal == "" and _THOUSANDS.fullmatch(word):
        return float(word.replace(",", ""))
    if word[-1:].isdigit() and _COMMA.fullmatch(word):
        return float(word.replace(".", "").replace(",", "."))
    return math.nan


def read_date(text: str) -> float:
    """The days since 1970 of a cell by itself, NaN if it holds no date of one meaning."""
    word = text.strip()
    fitting = [form for form in _DATES if _date(word, form) is not None]
    fitting = fitting or [form for form in _EITHER_DATES if _date(word, form) is not None]
    return _days_in(fitting[0], word) if len(fitting) == 1 else math.nan


def looks_missing(text: str, missing_texts: Iterable[str] = ()) -> bool:
    """Whether a cell stands for a missing value."""
    word = text.strip()
    return word.lower() in MISSING or word in set(missing_texts)


def text_column(
    name: str,
    codes: NDArray[Any],
    texts: Sequence[str],
    missing_texts: frozenset[str] = frozenset(),
    decimal: str = "",
    declared: bool = False,
) -> Column:
    """A column from the distinct `texts` and the code of each row, -1 where it is missing.

    Texts that are all numbers make a column of numbers, and likewise dates and booleans; a
    `declared` category stays one. `decimal` is "," where commas are known to be decimal ones.
    """
    words = [text.strip() for text in texts]
    lost = [word.lower() in MISSING or word in missing_texts for word in words]
    present = [word for word, gone in zip(words, lost, strict=True) if not gone]
    kind, values = ("category", present) if declared else _parse(present, decimal)
    lookup: list[Any] = [None] * len(words)
    found = iter(values)
    for index, gone in enumerate(lost):
        if not gone:
            lookup[index] = next(found)
    return _column(name, kind, codes, lookup)


def values_column(
    name: str,
    values: Sequence[Any],
    missing_texts: frozenset[str] = frozenset(),
    by_cell: bool = False,
) -> Column:
    """A column from Python values: numbers, strings, dates and booleans, also mixed.

    With `by_cell`, strings stay strings.
    """
    plain = [_plain(value) for value in values]
    types = {type(value) for value in plain} - {type(None)}
    if types and all(issubclass(one, datetime) for one in types):
        return Column(name, "date", _floats([v if v is None else _days(v) for v in plain]))
    if types == {bool}:
        codes = np.array([-1 if v is None else int(v) for v in plain], dtype=np.int8)
        return Column(name, "boolean", codes, ("false", "true"))
    return text_column(name, *_coded(plain), missing_texts, declared=by_cell)


def _coded(values: Sequence[Any]) -> tuple[NDArray[np.int32], list[str]]:
    """The index of each value among the different texts, -1 where it is missing; and the texts."""
    texts = [None if value is None else _text(value) for value in values]
    code_of = {text: k for k, text in enumerate(dict.fromkeys(t for t in texts if t is not None))}
    codes = np.array([-1 if t is None else code_of[t] for t in texts], dtype=np.int32)
    return codes, list(code_of)


def _plain(value: Any) -> Any:
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


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | datetime):
        return str(value)
    return level_of(value)


def _parse(words: list[str], decimal: str) -> Lookup:
    """The kind of a column with these distinct words, and the value of each."""
    weak = {word for word in words if word.lower() in WEAK_MISSING}
    strong = [word for word in words if word not in weak]
    for kind, read in (("number", _numbers(strong, decimal)), ("date", _dates(strong))):
        if strong and read is not None:
            return kind, [None if word in weak else read(word) for word in words]
    if words and all(word.lower() in _TRUTH for word in words):
        return "boolean", [_TRUTH[word.lower()] for word in words]
    return "category", list(words)


def _numbers(words: list[str], decimal: str) -> Callable[[str], float] | None:
    """How to read these words as numbers, if all of them are."""
    if all(is_number(word) for word in words):
        return float
    if decimal == "" and all(_THOUSANDS.fullmatch(word) for word in words):
        return lambda word: float(word.replace(",", ""))
    if all(word[-1:].isdigit() and _COMMA.fullmatch(word) for word in words):
        return lambda word: float(word.replace(".", "").replace(",", "."))
    return None


def _dates(words: list[str]) -> Callable[[str], float] | None:
    """How to read these words as dates, if all are of one form that has one meaning."""
    if not words or not words[0][:1].isdigit():
        return None
    for form in _DATES:
        if all(_date(word, form) is not None for word in words):
            return partial(_days_in, form)
    fitting = [f for f in _EITHER_DATES if all(_date(word, f) is not None for word in words)]
    if len(fitting) == 1:  # days above 12 say which number is the month
        return partial(_days_in, fitting[0])
    return None


def _days_in(form: str, word: str) -> float:
    return _days(datetime.strptime(word, form))


def _date(word: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(word, form)
    except ValueError:
        return None


def _days(moment: datetime) -> float:
    return (moment - _EPOCH).total_seconds() / _DAY


def _column(name: str, kind: str, codes: NDArray[Any], lookup: list[Any]) -> Column:
    if all(value is None for value in lookup):
        return Column(name, "empty", np.full(len(codes), np.nan))
    if kind in ("number", "date"):
        values = np.append(_floats(lookup), np.nan)  # code -1 takes the last one
        return Column(name, "date" if kind == "date" else "number", values[codes])
    if kind == "boolean":
        table = np.array([*(-1 if v is None else v for v in lookup), -1], dtype=np.int8)
        return Column(name, "boolean", table[codes], ("false", "true"))
    words = [None if value is None else _code(value) for value in lookup]
    levels = tuple(sorted({word for word in words if word is not None}))
    code_of: dict[str | None, int] = {level: code for code, level in enumerate(levels)}
    found = [*(code_of.get(word, -1) for word in words), -1]
    table = np.array(found, dtype=small_type(found))
    return Column(name, "category", table[codes], levels)


def _code(word: str) -> str:
    """A code without the zeros after its point, which some exports write and others do not."""
    return word.partition(".")[0] if _WHOLE.fullmatch(word) else word


def _floats(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
