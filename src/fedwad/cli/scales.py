"""A warning about tables with one column that outweighs all others."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import numpy as np

from fedwad._explain.dominant import describe_dominant
from fedwad._explain.evidence import Evidence
from fedwad.cli.console import print_text, use_option_names
from fedwad.federation import Dataset
from fedwad.ot import Floats

__all__ = ["variance_shares", "warn_dominant_column", "warn_dominant_variance"]

_ALMOST_ALL = 0.9


def warn_dominant_column(evidence: Evidence | None) -> None:
    """Print a warning if one named column makes nearly all of the squared distances."""
    found = describe_dominant(evidence)
    if found is not None:
        print_text(f"Warning: {use_option_names(found)}")


def warn_dominant_variance(sites: Iterable[Dataset]) -> None:
    """Print a warning if one named feature has nearly all of the variance.

    Such a feature, like a patient's number or one in small units, alone decides a coreset. Only
    tables are checked; arrays are assumed to be prepared.
    """
    data = list(sites)
    names = data[0].features if data else None
    if names is None or len(names) < 2 or any(one.features != names for one in data):
        return
    found = variance_shares([one.measure.points for one in data])
    largest = int(found.argmax())
    if found[largest] > _ALMOST_ALL:
        part = "nearly all" if found[largest] > 0.995 else f"{found[largest]:.0%}"
        print_text(
            f"Warning: column '{names[largest]}' has {part} of the variance of these data, so it"
            f" decides the answer. Drop it if it is not a measurement"
            f" (--drop {shlex.quote(names[largest])}), or scale the columns by public numbers."
        )


def variance_shares(tables: list[Floats]) -> Floats:
    """Return each feature's share of the sum of variances over all rows of all tables."""
    rows = np.concatenate(tables)
    largest = np.abs(rows).max(axis=0)  # squares of very large numbers would overflow
    scale = float(largest.max()) or 1.0
    variances = np.var(rows / scale, axis=0)
    return np.asarray(variances / (variances.sum() or 1.0))
