"""Check of the numbers that a client measured on random splits of its own rows."""

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
_MAX_SQUARE = 1e125  # largest squared distance; its square is finite
_MAX_SPLITS = 1000


def check_calibration(calibration: Calibration, dimension: int) -> None:
    """Raise InputError unless the calibration can be used for data with `dimension` features."""
    numbers = [getattr(calibration, name) for name in _NUMBERS]
    require(
        all(type(value) is float and 0 <= value <= _MAX_SQUARE for value in numbers),
        "a number of its splits is negative or not finite.",
    )
    require(
        is_count(calibration.splits)
        and calibration.splits <= _MAX_SPLITS
        and is_count(calibration.drawn),
        "counts of its splits are not positive integers.",
    )
    require(
        type(calibration.size) is float and 1 <= calibration.size <= MAX_COUNT,
        "the size of its splits is wrong.",
    )
    if calibration.features is not None:
        require(
            _are_shares(calibration.features, dimension),
            "shares of features in its splits do not sum to one.",
        )


def _are_shares(features: Floats, dimension: int) -> bool:
    return (
        is_finite(features, 1)
        and features.shape == (dimension,)
        and bool((features >= 0).all())
        and abs(float(features.sum()) - 1) <= _SUM_TOLERANCE
    )
