"""Columns of texts, Python values and Arrow arrays.

They say which texts are missing values, numbers, dates, booleans or levels. Arrow arrays are read
without importing pandas on the way.
"""

from __future__ import annotations

import contextlib
import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.tables.table import Column, ReadKind, index_dtype, level_name, list_rows

if TYPE_CHECKING:
    import pyarrow as pa

#: Texts that stand for a missing value in every column, in any case of letters; also those of
#: databases and spreadsheets.
MISSING = (
    *("", "?", "na", "n/a", "#n/a", "nan", "null", "<na>", "nat", "missing"),
    *("\\n", "(null)", "<null>", "#nv", "#div/0!", "#value!", "#ref!", "#num!", "#name?"),
)
#: Texts that stand for a missing value if all the others in the column are numbers or dates.
_WEAK_MISSING = (
    *("none", "not done", "-", "--", ".", "*", "unknown", "unk", "not known", "not recorded"),
    *("n.a.", "k.a.", "n.d.", "n/d", "nd", "n.v.", "not available", "unbekannt"),
)

_DECIMAL_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?((\d+|\d{1,3}(\.\d{3})+)(,\d+)?|,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?|[+-]?\d+(\.\d+)?")
_SPACED = re.compile(r"[+-]?\d{1,3}([ '\u2019\u00a0\u202f]\d{3})+([.,]\d+)?")  # 1 234,5; 1'234.5
_SPACES = str.maketrans("", "", " '\u2019\u00a0\u202f")
_CODE = re.compile(r"\d{3,}")  # a code, if others of the same length begin with 0
# A number with a limit of detection, a currency or a unit: <0.5, $1,200, 12 %, 70 kg.
_MEASURED = re.compile(
    r"([<>\u2264\u2265]=?\s*)?([$\u20ac\u00a3]\s?)?([^\s<>$\u20ac\u00a3A-Za-z%][^A-Za-z%]*?)"
    r"(\s?[%\u2030$\u20ac\u00a3]|\s?[A-Za-z\u00b5][A-Za-z/\u00b5%]+\d?|\s[A-Za-z]\d?)?"
)
_WHOLE = re.compile(r"-?\d+\.0+")  # such as 1.0
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
# Dates that can be read in one way, with the months as numbers or by their names.
_DATE_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y-%m")
_SHORT = ("%b %d %Y", "%b %d, %Y", "%b-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%d%b%Y", "%b %Y", "%b-%Y")
_WORD_FORMATS = (*_SHORT, *(format_.replace("%b", "%B") for format_ in _SHORT))
_AMBIGUOUS_FORMATS = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
# 1974Q1, Q1 1974
_QUARTER = re.compile(r"\A((?:1[6-9]|20)\d\d)[ -]?Q([1-4])\Z|\AQ([1-4])[ -]?((?:1[6-9]|20)\d\d)\Z")
_TIME = re.compile(
    r"[ T](\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?(?: ?([AaPp])[Mm])?(?:Z| ?([+-]\d\d):?(\d\d))?"
)
_IN_HOURS = "is read as times of day, in hours"
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
    return (_read_numbers([text.strip()], decimal) or [math.nan])[0]


def parse_date(text: str) -> float:
    """The days since 1970 of a text read by itself, NaN if it is no unambiguous date."""
    return (_read_dates([text.strip()]) or [math.nan])[0]


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
    present = [word for word in words if word.lower() not in MISSING and word not in missing_texts]
    if not present:
        return Column(name, "empty", np.full(len(codes), np.nan))
    as_text: tuple[ReadKind, Sequence[Any], str] = ("category", present, "")
    kind, values, detail = as_text if keep_texts else _detect_kind(present, decimal)
    value_of = dict(zip(present, values, strict=True))
    found = [value_of.get(word) for word in words] + [None]  # the last is that of code -1
    if kind in ("number", "date"):
        numbers = np.array(found, dtype=np.float64)
        return Column(name, kind, numbers[codes], detail=detail)
    levels: tuple[str, ...] = ("false", "true")
    if kind == "category":
        # '1' for '1.0', as only some programs write whole numbers.
        found = [v.partition(".")[0] if v and _WHOLE.fullmatch(v) else v for v in found]
        found = [v if v is None or v.isprintable() else _visible(v) or v for v in found]
        levels = tuple(sorted({level for level in found if level is not None}))
    code_of: dict[Any, int] = {level: code for code, level in enumerate(levels)}
    lookup = np.array([code_of.get(level, -1) for level in found], dtype=index_dtype(found))
    return Column(name, kind, lookup[codes], levels)


def _visible(text: str) -> str:
    """The text with plain spaces for all others, as office programs write them, and without
    characters of width 0. One with control characters keeps them: no profile lists it."""
    return "".join(c for c in " ".join(text.split()) if unicodedata.category(c) != "Cf")


def object_column(
    name: str,
    values: Sequence[Any],
    missing_texts: frozenset[str] = frozenset(),
    elementwise: bool = False,
) -> Column:
    """A column of Python objects: numbers, strings, dates and booleans, also mixed; unusable if one
    is none of these.

    With `elementwise` no value changes how others are read: each becomes a text, and an object that
    is none of these a missing value.
    """
    texts: list[str | None] = []
    for value in values:
        try:
            texts.append(text_of(value))
        except TypeError:
            if not elementwise:
                detail = f"{type(value).__name__} values"
                return Column(name, "unusable", np.zeros(len(values), np.int8), detail=detail)
            texts.append(None)
    code_of = {text: k for k, text in enumerate(dict.fromkeys(text for text in texts if text))}
    codes = np.array([-1 if not text else code_of[text] for text in texts], dtype=np.int32)
    return text_column(name, codes, [*code_of], missing_texts, keep_texts=elementwise)


def text_of(value: Any) -> str | None:
    """What a text file has for a Python object, None for a missing value; TypeError for one that is
    no text, number, date or boolean."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, str | date | time | timedelta) or hasattr(value, "year"):
        return str(value.replace(tzinfo=None) if isinstance(value, datetime) else value)
    if not hasattr(value, "__float__"):
        raise TypeError
    number = float(value)
    return None if math.isnan(number) else level_name(number)


def _detect_kind(words: list[str], decimal: str) -> tuple[ReadKind, Sequence[Any], str]:
    """The kind of a column with these words, the value of each, None if it is missing, and what a
    reader should know."""
    weak = {word for word in words if word.lower() in _WEAK_MISSING}
    others = [word for word in words if word not in weak]
    if others and not are_codes(others):
        kind: ReadKind = "number"
        detail, values = "", _read_numbers(others, decimal)
        if values is None:
            months = [_QUARTER.sub(_first_month, word) for word in others]
            kind, values = "date", _read_dates(months)
        if values is None:
            times = [_split_time(f" {word}") for word in others]
            hours = {word.partition(":")[0] for word in others}  # titres all begin with 1:
            if len(hours) > 2 and not any(day for day, _ in times):
                kind, values, detail = "number", [24.0 * time for _, time in times], _IN_HOURS
        if values is None:
            kind, (values, detail) = "number", _read_measured(others, decimal)
        if values is not None:
            value_of = dict(zip(others, values, strict=True))
            return kind, [value_of.get(word) for word in words], detail
    if all(word.lower() in ("true", "false") for word in words):
        return "boolean", [word.lower() for word in words], ""
    return "category", words, ""


def are_codes(words: Sequence[str]) -> bool:
    """Whether digits are codes, such as postal codes: of one length, and some begin with 0."""
    return (
        any(word[0] == "0" for word in words if word)
        and len({*map(len, words)}) == 1
        and all(map(_CODE.fullmatch, words))
    )


def _read_numbers(words: Sequence[str], decimal: str) -> list[float] | None:
    """The numbers that these words are; None unless all of them are numbers."""
    plain = [word.replace("\u2212", "-") for word in words]
    plain = [word.translate(_SPACES) if _SPACED.fullmatch(word) else word for word in plain]
    if all(map(is_number, plain)):
        return [*map(float, plain)]
    if decimal == "" and all(map(_THOUSANDS.fullmatch, plain)):
        return [float(word.replace(",", "")) for word in plain]
    if all(word[-1:].isdigit() and _DECIMAL_COMMA.fullmatch(word) for word in plain):
        return [float(word.replace(".", "").replace(",", ".")) for word in plain]
    return None


def _read_measured(
    words: Sequence[str], decimal: str, least: int = 10
) -> tuple[list[float] | None, str]:
    """Numbers that all have one unit, or of which some are limits, and a sentence about it.

    Limits are read only among more than `least` other numbers, since <2, 2 and >2 are levels.
    """
    matches = [_MEASURED.fullmatch(word) for word in words]
    found = [match.groups() for match in matches if match is not None]
    units = {f"{sign or ''}{unit or ''}".strip() for _, sign, _, unit in found}
    if len(found) < len(words) or len(units) != 1:
        return None, ""
    numbers = _read_numbers([number.strip() for _, _, number, _ in found], decimal)
    limits = sum(limit is not None for limit, *_ in found)
    if numbers is None or (limits and len(found) - limits <= max(least, limits)):
        return None, ""
    unit = units.pop()
    said = [f"is read as numbers of {unit}"] if unit else []
    said += ["has limits such as <1 or >100, which count as these numbers"] if limits else []
    return numbers, " and ".join(said)


def _read_dates(words: Sequence[str]) -> list[float] | None:
    """The days since 1970 of these words; None unless one format alone fits them all."""
    if not words or not any(map(str.isdigit, words[0])):
        return None
    pairs = [_split_time(word) for word in words]
    days = {day for day, _ in pairs}
    named = any(map(str.isalpha, pairs[0][0]))  # months by their names
    for formats, several in (
        (_WORD_FORMATS if named else _DATE_FORMATS, True),
        (_AMBIGUOUS_FORMATS, False),  # a number above 12 is a day, so the other is the month
    ):
        fitting = []
        for format_ in formats:
            with contextlib.suppress(ValueError):
                read = {day: _days_since_1970(datetime.strptime(day, format_)) for day in days}
                fitting.append(read)
        if fitting and (several or len(fitting) == 1):
            return [fitting[0][day] + time for day, time in pairs]
    return None


def _first_month(quarter: re.Match[str]) -> str:
    """2019-10 for 2019Q4."""
    year, number, early, later = quarter.groups(default="")
    return f"{year}{later}-{3 * int(number + early) - 2:02d}"


def _split_time(word: str) -> tuple[str, float]:
    """The day that a text begins with, and the time of day that it ends with, in days."""
    match = _TIME.search(word)
    if match is None or match.end() < len(word):
        return word, 0.0
    hour, minute, second, half, zone_hour, zone_minute = match.groups(default="0")
    hours = int(hour) % 12 + 12 * (half in "Pp") if half != "0" else int(hour)
    if hours > 23 or int(minute) > 59 or float(second) >= 61:
        return word, 0.0
    seconds = 60.0 * (60 * hours + int(minute)) + float(second)
    east = int(zone_hour) * 3600 + math.copysign(60 * int(zone_minute), float(f"{zone_hour[:1]}1"))
    return word[: match.start()], (seconds - east) / _SECONDS_PER_DAY


def _days_since_1970(moment: datetime) -> float:
    return (moment - _EPOCH).total_seconds() / _SECONDS_PER_DAY


_UNITS_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def arrow_column(
    name: str,
    array: pa.Array,
    missing_texts: frozenset[str] = frozenset(),
    decimal: str = "",
    elementwise: bool = False,
) -> Column:
    """A column of an Arrow array; one of lists, bytes or the like is unusable.

    `missing_texts` are further spellings of a missing value. `decimal` is "," where commas are
    known to be decimal ones. With `elementwise`, texts stay texts.
    """
    from pyarrow import types

    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    if hasattr(array, "storage"):  # an extension, such as the decimal numbers of PostgreSQL
        array = array.storage
    dtype = array.type
    if types.is_null(dtype) or (types.is_boolean(dtype) and array.null_count == len(array)):
        return Column(name, "empty", np.full(len(array), np.nan))
    if types.is_boolean(dtype):
        return Column(name, "boolean", _to_numpy(array, "int8", -1), ("false", "true"))
    if types.is_dictionary(dtype):
        # The levels of a categorical type stay levels, also where they are numbers.
        codes = _to_numpy(array.indices, "int64", -1)
        names = [_dictionary_text(value) for value in array.dictionary.to_pylist()]
        return text_column(name, codes, names, missing_texts, keep_texts=True)
    if str(dtype) in ("string", "large_string", "string_view"):
        texts = array if str(dtype) != "string_view" else array.cast("string")
        encoded = texts.dictionary_encode()
        codes, names = _to_numpy(encoded.indices, "int32", -1), encoded.dictionary.to_pylist()
        column = text_column(name, codes, names, missing_texts, decimal, keep_texts=elementwise)
        return replace(column, decimal=decimal) if elementwise else column
    if types.is_date(dtype):  # dates and timestamps in days since 1970
        days = array.cast("date32", safe=False).cast("int32")
        return number_column(name, _to_numpy(days, "float64", math.nan), kind="date")
    if types.is_temporal(dtype) and not types.is_interval(dtype):  # durations in days
        bits = "int32" if types.is_time32(dtype) else "int64"
        per_unit = 3600.0 if types.is_time(dtype) else _SECONDS_PER_DAY  # times of day in hours
        numbers = _to_numpy(array.cast(bits), "float64", math.nan)
        numbers = numbers / (per_unit * _UNITS_PER_SECOND[dtype.unit])
        kind: Literal["number", "date"] = "date" if types.is_timestamp(dtype) else "number"
        return number_column(name, numbers, (), True, kind)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        values = _to_numpy(array, "float64", math.nan)
        return number_column(name, values, missing_texts, elementwise)
    return Column(name, "unusable", np.zeros(len(array), np.int8), detail=f"{dtype} values")


def number_column(
    name: str,
    values: NDArray[np.float64],
    missing_texts: Collection[str] = (),
    elementwise: bool = False,
    kind: Literal["number", "date"] = "number",
) -> Column:
    """A column of numbers, or of the dates that they all are in the form 20240131."""
    missing_numbers = [float(text) for text in missing_texts if is_number(text)]
    if missing_numbers and np.isin(values, missing_numbers).any():
        values = np.where(np.isin(values, missing_numbers), np.nan, values)
    missing = np.isnan(values)
    if missing.all():
        return Column(name, "empty", values)
    if kind == "number" and not elementwise:
        days = _compact_dates(values[~missing])
        if days is not None:
            read = np.full(len(values), np.nan)
            read[~missing] = days
            return Column(name, "date", read, detail="is read as dates of the form 20240131")
    return Column(name, kind, values)


def _compact_dates(values: NDArray[np.float64], least: int = 3) -> NDArray[np.float64] | None:
    """The days since 1970 of numbers such as 20240131; None unless at least so many different ones
    are all such dates, of 1900 to 2100."""
    if not (values[0] > 19_000_000 and values.min() > 19_000_000 and values.max() < 21_010_000):
        return None
    numbers, inverse = np.unique(values, return_inverse=True)
    if len(numbers) < least or np.any(numbers % 1):
        return None
    try:
        dates = [datetime.strptime(f"{number:.0f}", "%Y%m%d") for number in numbers]
    except ValueError:
        return None
    return np.array([*map(_days_since_1970, dates)])[inverse.ravel()]


def _dictionary_text(value: Any) -> str:
    """The name of a level; the empty text, which stands for a missing value, for None and NaN."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return level_name(value) if value == value else ""
    return "" if value is None else str(value)


def _to_numpy(array: pa.Array, dtype: str, missing: float) -> NDArray[Any]:
    """The memory of an Arrow array as a NumPy array of this type, `missing` where it has no value.

    PyArrow's own `to_numpy` imports pandas if that is installed. This takes seconds, and an
    interrupt during the import leaves the import lock taken.
    """
    array = array.cast(dtype, safe=False)  # safe would refuse integers beyond 2^53
    if not len(array):
        return np.empty(0, dtype)
    start = np.dtype(dtype).itemsize * array.offset
    values = np.frombuffer(array.buffers()[1], dtype, len(array), start)
    if array.null_count:
        values = values.copy()
        values[_to_numpy(array.is_null(), "uint8", 0) == 1] = missing
    return values
