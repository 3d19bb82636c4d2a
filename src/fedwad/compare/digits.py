"""How many digits numbers on a page have, and how they are rounded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

#: The direction of rounding. A certified lower bound is rounded down and an upper bound up, so that
#: the printed interval is certified too.
Rounding = Literal["nearest", "down", "up"]
# Certified bounds are exact up to this relative error. Without this allowance, a lower bound of 2.9
# from which rounding took the last bit would be printed as 2.89.
_RELATIVE_ERROR = 1e-9


@dataclass(frozen=True)
class Digits:
    """A number of decimals that several numbers share, after division by 10^exponent.

    The exponent is 0 unless the numbers are very large or very small.
    """

    decimals: int
    exponent: int = 0

    @classmethod
    def for_numbers(cls, numbers: Any, significant: int = 3) -> Digits:
        """Enough decimals for `significant` digits of the largest number and two of the smallest.

        For the sake of the smallest number there are at most two more decimals.

        >>> Digits.for_numbers([3.2149, 1.5]).text(3.2149)
        '3.21'
        """
        sizes = np.abs(np.asarray(numbers, dtype=float).ravel())
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        if not len(sizes):
            return cls(2)
        largest, smallest = (
            math.floor(math.log10(number)) for number in (sizes.max(), sizes.min())
        )
        exponent = largest if largest >= 6 or largest <= -4 else 0
        decimals = max(0, significant - 1 - largest + exponent)
        more = 1 - (smallest - exponent) - decimals  # for two digits of the smallest number
        return cls(decimals + min(max(more, 0), 2), exponent)

    @property
    def suffix(self) -> str:
        """The text after every number: empty, or a power of ten."""
        superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
        raised = str(self.exponent).translate(superscripts)
        return f" \N{MULTIPLICATION SIGN} 10{raised}" if self.exponent else ""

    def to_integers(self, numbers: Any, rounding: Rounding = "nearest") -> list[int | None]:
        """The numbers as integers, in units of the last printed digit.

        With two decimals 3.21 is 321. A number that is not finite is None.
        """
        values = np.asarray(numbers, dtype=float).ravel()
        values = np.where(np.isfinite(values), values, np.nan)
        if self.exponent < -300:  # one power of ten would overflow
            values = values * 1e200 * 10.0 ** (self.decimals - self.exponent - 200)
        else:
            values = values * 10.0 ** (self.decimals - self.exponent)
        if rounding == "down":
            values = np.floor(values + _RELATIVE_ERROR * np.abs(values))
        elif rounding == "up":
            values = np.ceil(values - _RELATIVE_ERROR * np.abs(values))
        else:
            values = np.rint(values)
        return [int(value) if math.isfinite(value) else None for value in values]

    def text(self, number: float, rounding: Rounding = "nearest") -> str:
        """One number as the page prints it."""
        return self.texts([number], rounding)[0]

    def known(self, number: float | None, rounding: Rounding = "nearest") -> str:
        """One number as the page prints it, empty for None."""
        return "" if number is None else self.text(number, rounding)

    def texts(self, numbers: Iterable[float], rounding: Rounding = "nearest") -> list[str]:
        """Several numbers as the page prints them; "unknown" if a number is not finite."""
        unit = 10**self.decimals
        return [
            "unknown" if whole is None else f"{whole / unit:.{self.decimals}f}{self.suffix}"
            for whole in self.to_integers(list(numbers), rounding)
        ]

    def interval(self, lower: float, upper: float, certified: bool = True) -> str:
        """`2.90 to 3.60`, `at least 2.90` without an upper bound, or `unknown` without both.

        Certified bounds are rounded outwards, others to the nearest.
        """
        down, up = outward_rounding(certified)
        if not math.isfinite(upper):
            if not math.isfinite(lower):
                return "unknown"
            return f"at least {self.text(lower, down)}"
        return f"{self.text(lower, down)} to {self.text(upper, up)}"


def outward_rounding(certified: bool) -> tuple[Rounding, Rounding]:
    """How the lower and the upper end of an interval are rounded."""
    return ("down", "up") if certified else ("nearest", "nearest")
