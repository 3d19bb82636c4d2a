"""The number of features, on which sites must agree, and a seed from the name of a site."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from fedwad.errors import InputError
from fedwad.federation.needs import ClassStatistics

__all__ = ["check_same_features", "client_seed", "feature_count"]


def check_same_features(
    dimensions: Mapping[str, int], class_statistics: ClassStatistics = "ignored"
) -> int:
    """Return the number of coordinates of all sites' samples; InputError if sites differ.

    Unless `class_statistics` is "ignored", coordinates include the statistics of a sample's class;
    the error names the number of features without them.
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
    """Return the number of features d of samples with `dimension` coordinates.

    There are d coordinates if class statistics are "ignored", 3 d with "diag" and 2 d + d^2 with
    "full".
    """
    if class_statistics == "ignored":
        return dimension
    return dimension // 3 if class_statistics == "diag" else math.isqrt(dimension + 1) - 1


def client_seed(name: str) -> int:
    """Return a seed for the random numbers of a site, whichever other sites take part."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "little")
