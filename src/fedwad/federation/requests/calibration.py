"""Checks of the numbers that a client measured on splits of its own rows."""

from __future__ import annotations

from fedwad.federation.message import MAX_COUNT, is_count, is_finite, require
from fedwad.ot import Calibration, Floats

__all__ = ["check_calibration"]

_NUMBERS = (
    "noise",
    "noise_quarter",
    "noise_std",
    "synthetic",
    "synthetic_half",
    "error_decay",
    "scale_noise",
    "spread_noise",
)
_SUM_TOLERANCE = 1e-6
_LARGEST_SQUARE = 1e125  # squares of it are finite
_MOST_SPLITS = 1000


def check_calibration(found: Calibration, dimension: int) -> None:
    """Raise InputError unless the numbers of splits can be used."""
    numbers = [getattr(found, name) for name in _NUMBERS]
    require(
        all(type(value) is float and 0 <= value <= _LARGEST_SQUARE for value in numbers),
        "a number of its splits is negative or not finite.",
    )
    require(
        is_count(found.splits) and found.splits <= _MOST_SPLITS and is_count(found.drawn),
        "counts of its splits are not positive integers.",
    )
    require(
        type(found.size) is float and 1 <= found.size <= MAX_COUNT,
        "the size of its splits is wrong.",
    )
    if found.features is not None:
        require(
            _are_shares(found.features, dimension),
            "shares of features in its splits do not sum to one.",
        )


def _are_shares(features: Floats, dimension: int) -> bool:
    return (
        is_finite(features, 1)
        and features.shape == (dimension,)
        and bool((features >= 0).all())
        and abs(float(features.sum()) - 1) <= _SUM_TOLERANCE
    )
