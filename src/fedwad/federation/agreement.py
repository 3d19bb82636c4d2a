"""What sites must agree on, and keys that depend on nothing but a site's name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from fedwad.errors import InputError
from fedwad.federation.needs import ClassStatistics

__all__ = ["check_same_features", "client_key", "feature_count"]


def check_same_features(
    dimensions: Mapping[str, int], class_statistics: ClassStatistics = "ignored"
) -> int:
    """Return the number of coordinates that all sites' samples have; InputError if they differ.

    With classes the samples carry statistics of their class, and the message counts features.
    """
    first, expected = next(iter(dimensions.items()))
    for name, dimension in dimensions.items():
        if dimension != expected:
            raise InputError(
                f"{first} has {feature_count(expected, class_statistics)} features and {name} has"
                f" {feature_count(dimension, class_statistics)}; all sites need the same features."
            )
    return expected


def feature_count(dimension: int, class_statistics: ClassStatistics) -> int:
    """Return the number of features d of samples that carry the statistics of their class.

    They have 3 d coordinates with class_statistics "diag", and 2 d + d^2 with "full".
    """
    if class_statistics == "ignored":
        return dimension
    return dimension // 3 if class_statistics == "diag" else math.isqrt(dimension + 1) - 1


def client_key(name: str) -> int:
    """Return a seed for a site's random numbers that does not depend on which others take part."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "little")
