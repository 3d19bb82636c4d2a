"""A warning about one column that makes nearly all of a distance."""

from __future__ import annotations

import warnings

import numpy as np

from fedwad._explain.column_changes import sum_by_column
from fedwad._explain.columns import build_columns
from fedwad._explain.evidence import Evidence
from fedwad.errors import DataWarning
from fedwad.tables import drop_hint

__all__ = ["describe_dominant", "warn_dominant"]

_NEARLY_ALL = 0.9


def describe_dominant(evidence: Evidence | None) -> str | None:
    """A sentence about the column that makes nearly all squared distances, if there is one.

    Such a column decides distances and clusters alone: a patient's identifier, a column in small
    units, or one with another meaning at one site. Only named columns are examined; arrays are
    assumed to be prepared.
    """
    if evidence is None or not evidence.squares:
        return None
    if evidence.features is None and evidence.schema is None:
        return None
    columns = build_columns(evidence.dimension, evidence.features, evidence.schema)
    parts = sum_by_column(columns, np.sum(list(evidence.squares.values()), axis=0))
    total = float(parts.sum())
    if len(columns) < 2 or not total > 0:
        return None
    largest = int(parts.argmax())
    share, name = float(parts[largest]) / total, columns[largest].name
    if share <= _NEARLY_ALL:
        return None
    part = "nearly all" if share > 0.995 else f"{share:.0%}"
    return (
        f"Column '{name}' makes {part} of the squared distances between these sites, so it decides"
        " the answer; drop it if it is not a measurement or means something else at one site"
        f" ({drop_hint(name)}), or let the sites agree on a schema."
    )


def warn_dominant(evidence: Evidence | None, stacklevel: int = 3) -> None:
    """Warn with the sentence of `describe_dominant`, if there is one."""
    sentence = describe_dominant(evidence)
    if sentence is not None:
        warnings.warn(sentence, DataWarning, stacklevel=stacklevel)
