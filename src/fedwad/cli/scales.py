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

__all__ = ["variance_fractions", "warn_dominant_column", "warn_dominant_variance"]

_DOMINANT = 0.9  # fraction of the variance above which there is a warning


def warn_dominant_column(evidence: Evidence | None) -> None:
    """Print a warning if one named column makes nearly all of the squared distances."""
    sentence = describe_dominant(evidence)
    if sentence is not None:
        print_text(f"Warning: {use_option_names(sentence)}")


def warn_dominant_variance(sites: Iterable[Dataset]) -> None:
    """Print a warning if one named feature has most of the variance.

    Such a feature, like a patient's number or one in small units, alone decides a coreset. Only
    tables are checked; arrays are assumed to be prepared.
    """
    data = list(sites)
    names = data[0].features if data else None
    if names is None or len(names) < 2 or any(dataset.features != names for dataset in data):
        return
    fractions = variance_fractions([dataset.measure.points for dataset in data])
    largest = int(fractions.argmax())
    if fractions[largest] > _DOMINANT:
        part = "nearly all" if fractions[largest] > 0.995 else f"{fractions[largest]:.0%}"
        print_text(
            f"Warning: column '{names[largest]}' has {part} of the variance of these data, so it"
            f" decides the answer. Drop it if it is not a measurement"
            f" (--drop {shlex.quote(names[largest])}), or scale the columns by public numbers."
        )


def variance_fractions(tables: list[Floats]) -> Floats:
    """Return the variance of each feature over all rows, as a fraction of the sum of variances."""
    rows = np.concatenate(tables)
    largest = np.abs(rows).max(axis=0)  # squares of very large numbers would overflow
    scale = float(largest.max()) or 1.0
    variances = np.var(rows / scale, axis=0)
    return np.asarray(variances / (variances.sum() or 1.0))
