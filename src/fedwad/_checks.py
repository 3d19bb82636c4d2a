"""Checks of options that several packages share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedwad.errors import InputError

C = TypeVar("C", bound=Callable[..., None])


def check_integer(number: Any, name: str, least: int = 1) -> int:
    """Return an integer of at least `least` as a Python integer."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise _refusal(number, name, f"an integer of at least {least}")
    return int(number)


def check_number(
    number: Any,
    name: str,
    least: float = 0.0,
    positive: bool = False,
    most: float = sys.float_info.max,
) -> float:
    """Return a number from `least` to `most`, and above zero if `positive`, as a float."""
    is_real = isinstance(number, int | float | np.integer | np.floating)
    if not is_real or isinstance(number, bool) or not least <= number <= most:
        limit = f" and at most {most:g}" if most < sys.float_info.max else ""
        raise _refusal(number, name, f"a number of at least {least:g}{limit}")
    if positive and number <= 0:
        raise _refusal(number, name, "a number above 0")
    return float(number)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return the value if it is one of the words `choices`."""
    if type(value) not in (str, np.str_) or value not in choices:
        words = [f"'{choice}'" for choice in choices]
        among = f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
        raise InputError(f"{name} is {format_value(value)}; choose {among}.", "bad-option")
    return str(value)


def check_flag(value: Any, name: str) -> bool:
    """Return True or False; other types, such as 0 and 1, are refused."""
    if not isinstance(value, bool | np.bool_):
        raise _refusal(value, name, "True or False")
    return bool(value)


def check_text(value: Any, name: str) -> str:
    """Return the value if it is a string."""
    if not isinstance(value, str):
        raise _refusal(value, name, "a string")
    return value


def check_path(path: Any, name: str) -> Path:
    """Return a string or path object as a Path."""
    if not isinstance(path, str | os.PathLike):
        raise _refusal(path, name, "the path of a file")
    return Path(path)


def check_callback(callback: C | None) -> C | None:
    """Return the value if it is None or can be called, as with reports of progress."""
    if callback is not None and not callable(callback):
        raise _refusal(callback, "callback", "a function, or leave it out")
    return callback


def format_value(value: Any) -> str:
    """Return a value as an error shows it: scalars as they are, other objects by their type."""
    return repr(value) if np.isscalar(value) or value is None else f"a {type(value).__name__}"


def _refusal(value: Any, name: str, wanted: str) -> InputError:
    return InputError(f"{name} is {format_value(value)}; give {wanted}.", "bad-option")
