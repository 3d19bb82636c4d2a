"""Class labels of any type as integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError

__all__ = ["as_labels", "class_codes"]


def class_codes(labels: Any) -> NDArray[np.int64]:
    """Integers from 0 that are equal where the labels are equal, for labels of any type.

    Labels of different types in one list are different, such as 1 and "1", and also 1 and 1.0.

    >>> class_codes(["dog", "cat", "dog"]).tolist()
    [1, 0, 1]
    """
    values = as_labels(labels)
    missing = _rows_without_label(values)
    if missing:
        raise InputError(
            f"{len(missing)} label{'s are' if len(missing) > 1 else ' is'} missing (the first in"
            f" row {missing[0]}, counting from 0); fill them or remove their samples."
        )
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    keys = [(type(value).__name__, value) for value in values]
    try:
        classes = sorted(dict.fromkeys(keys), key=lambda key: (key[0], str(key[1])))
    except TypeError:
        raise InputError(
            "A label is neither a number nor a string; give one of those per sample."
        ) from None
    ranks = {key: rank for rank, key in enumerate(classes)}
    return np.array([ranks[key] for key in keys], dtype=np.int64)


def as_labels(labels: Any) -> NDArray[Any]:
    """Labels as a one-dimensional array; labels of different types keep their types."""
    is_masked = np.ma.isMaskedArray(labels)
    if isinstance(labels, np.ndarray) and not is_masked and labels.dtype.kind != "O":
        values = labels
    else:
        listed = labels.tolist() if hasattr(labels, "tolist") else labels
        if not isinstance(listed, list | tuple):
            raise InputError(
                f"The labels are a {type(labels).__name__}; give one label per sample."
            )
        mask = np.ma.getmaskarray(labels).tolist() if is_masked else [False] * len(listed)
        values = _as_array(listed, mask)
    if values.ndim != 1:
        raise InputError(f"The labels have shape {values.shape}; give one label per sample.")
    return values


def _as_array(listed: Sequence[Any], mask: Sequence[bool]) -> NDArray[Any]:
    """Values as an array, None where masked; of type object unless all have one type."""
    plain = [
        None if masked else value.item() if isinstance(value, np.generic) else value
        for value, masked in zip(listed, mask, strict=True)
    ]
    if any(isinstance(value, list | tuple | np.ndarray) for value in plain):
        raise InputError("The labels are lists themselves; give one label per sample.")
    if len({type(value) for value in plain}) == 1 and isinstance(plain[0], str | int | float):
        return np.array(plain)
    values = np.empty(len(plain), dtype=object)
    values[:] = plain
    return values


def _rows_without_label(values: NDArray[Any]) -> list[int]:
    """Rows whose label is None, NaN, or a missing value of a data frame."""
    if values.dtype.kind in "biuSU":
        return []
    if values.dtype.kind == "f":
        return np.flatnonzero(np.isnan(values)).tolist()
    missing_types = ("NAType", "NaTType", "MaskedConstant")
    return [
        row
        for row, value in enumerate(values.tolist())
        if value is None
        or type(value).__name__ in missing_types
        or (isinstance(value, float) and math.isnan(value))
    ]
