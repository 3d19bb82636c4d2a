"""Checks of options that several rooms share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedwad.errors import InputError

__all__ = ["check_choice", "check_whole"]


def check_whole(number: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`, as a Python integer."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        shown = repr(number) if np.isscalar(number) else f"a {type(number).__name__}"
        raise InputError(f"{name} is {shown}; give a whole number of at least {least}.")
    return int(number)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> None:
    """One of a few words."""
    if type(value) not in (str, np.str_) or value not in choices:
        shown = repr(value) if np.isscalar(value) else f"a {type(value).__name__}"
        words = [f"'{choice}'" for choice in choices]
        raise InputError(f"{name} is {shown}; choose {', '.join(words[:-1])} or {words[-1]}.")
