"""Checks of options and of saved content that several packages share."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from fedwad.errors import InputError

__all__ = [
    "check_callback",
    "check_choice",
    "check_flag",
    "check_integer",
    "check_number",
    "check_path",
    "check_saved",
    "check_text",
    "format_value",
]

_MAX_ROWS = 10**15

C = TypeVar("C", bound=Callable[..., None])


def check_integer(number: Any, name: str, least: int = 1) -> int:
    """Return an integer of at least `least` as a Python integer."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise InputError(f"{name} is {format_value(number)}; give an integer of at least {least}.")
    return int(number)


def check_number(number: Any, name: str, least: float = 0.0, positive: bool = False) -> float:
    """Return a finite number of at least `least`, or above zero if `positive`, as a float."""
    is_real = isinstance(number, int | float | np.integer | np.floating)
    if not is_real or isinstance(number, bool) or not least <= number < math.inf:
        raise InputError(f"{name} is {format_value(number)}; give a number of at least {least:g}.")
    if positive and number <= 0:
        raise InputError(f"{name} is {format_value(number)}; give a number above 0.")
    return float(number)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return the value if it is one of the words `choices`."""
    if type(value) not in (str, np.str_) or value not in choices:
        words = [f"'{choice}'" for choice in choices]
        among = f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
        raise InputError(f"{name} is {format_value(value)}; choose {among}.")
    return str(value)


def check_flag(value: Any, name: str) -> bool:
    """Return True or False; other types, such as 0 and 1, are refused."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {format_value(value)}; give True or False.")
    return bool(value)


def check_text(value: Any, name: str) -> str:
    """Return the value if it is a string."""
    if not isinstance(value, str):
        raise InputError(f"{name} is {format_value(value)}; give a string.")
    return value


def check_path(path: Any, name: str) -> Path:
    """Return a string or path object as a Path."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"{name} is {format_value(path)}; give the path of a file.")
    return Path(path)


def check_callback(callback: C | None) -> C | None:
    """Return the value if it is None or can be called, as with reports of progress."""
    if callback is not None and not callable(callback):
        raise InputError(f"callback is {format_value(callback)}; give a function, or leave it out.")
    return callback


def format_value(value: Any) -> str:
    """Return a value as an error shows it: scalars as they are, other objects by their type."""
    return repr(value) if np.isscalar(value) or value is None else f"a {type(value).__name__}"


def check_saved(content: Mapping[str, Any], numbers: Sequence[str]) -> None:
    """Raise ValueError unless the entries of saved content have the right types.

    The entries named by `numbers` are numbers or None, "rows" are counts, and "covariance_types"
    are strings. Any entry may be missing.
    """
    if not isinstance(content, Mapping):
        raise ValueError("the content is not a mapping")
    for name in numbers:
        if type(content.get(name)) not in (int, float, NoneType):
            raise ValueError(f"{name} is not a number")
    for name in ("rows", "covariance_types"):
        if not isinstance(content.get(name, ()), list | tuple):
            raise ValueError(f"{name} is not a list")
    if not all(type(count) is int and 0 <= count < _MAX_ROWS for count in content.get("rows", [])):
        raise ValueError("rows are not counts")
    if not all(type(name) is str for name in content.get("covariance_types", [])):
        raise ValueError("covariance_types are not strings")
