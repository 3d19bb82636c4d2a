"""Class labels of any type, the statistics of classes, and the dataset distance between labelled
samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.transport.measures import Floats, LabelledMeasure, Measure
from fedwad.transport.solving import solve

#: What is compared between classes besides their means: standard deviations or root covariances.
ClassCovariance = Literal["diag", "full"]


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
            f" row {missing[0]}, counting from 0); fill them or remove their samples.",
            "missing-labels",
        )
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    keys = [(type(value).__name__, value) for value in values]
    try:
        classes = sorted(dict.fromkeys(keys), key=lambda key: (key[0], str(key[1])))
    except TypeError:
        raise InputError(
            "A label is neither a number nor a string; give one of those per sample.", "bad-labels"
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
                f"The labels are a {type(labels).__name__}; give one label per sample.",
                "bad-labels",
            )
        mask = np.ma.getmaskarray(labels).tolist() if is_masked else [False] * len(listed)
        values = _as_array(listed, mask)
    if values.ndim != 1:
        raise InputError(
            f"The labels have shape {values.shape}; give one label per sample.", "bad-labels"
        )
    return values


def _as_array(listed: Sequence[Any], mask: Sequence[bool]) -> NDArray[Any]:
    """Values as an array, None where masked; of type object unless all have one type."""
    plain = [
        None if masked else value.item() if isinstance(value, np.generic) else value
        for value, masked in zip(listed, mask, strict=True)
    ]
    if any(isinstance(value, list | tuple | np.ndarray) for value in plain):
        raise InputError(
            "The labels are lists themselves; give one label per sample.", "bad-labels"
        )
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


def labelled(
    measure: Measure, labels: ArrayLike, covariance: ClassCovariance = "diag"
) -> LabelledMeasure:
    """The measure on points (x, m_y, s_y) that a dataset distance compares.

    m_y is the mean and s_y are the standard deviations (population form) of the class y of x; with
    covariance="full" the root of the class's covariance matrix takes the place of s_y.

    Examples
    --------
    >>> labelled(Measure([[0.0], [2.0], [5.0]]), ["a", "a", "b"]).points.tolist()
    [[0.0, 1.0, 1.0], [2.0, 1.0, 1.0], [5.0, 5.0, 0.0]]
    """
    check_choice(covariance, "covariance", ("diag", "full"))
    codes = class_codes(labels)
    if len(codes) != len(measure):
        raise InputError(
            f"{len(measure)} samples came with {len(codes)} labels; give one label per sample.",
            "wrong-shape",
        )
    classes = [samples_of(measure, codes, code) for code in range(int(codes.max()) + 1)]
    table = np.array([class_row(part, covariance) for part in classes])
    return LabelledMeasure(measure.points, codes, table, measure.weights)


def class_row(part: Measure, covariance: ClassCovariance) -> Floats:
    """The row of a class in the table: its mean, then standard deviations or root covariance.

    Samples are scaled so that squares neither vanish nor overflow. The root covariance comes from
    the singular values of the samples, because the root of the matrix would lose half the digits.
    """
    mean = part.mean
    deviations = part.points - mean
    unit = float(np.abs(deviations).max()) or 1.0
    deviations /= unit
    if covariance == "diag":
        return np.concatenate([mean, unit * np.sqrt(part.weights @ deviations**2)])
    _, values, vectors = np.linalg.svd(
        np.sqrt(part.weights)[:, None] * deviations, full_matrices=False
    )
    return np.concatenate([mean, unit * ((vectors.T * values) @ vectors).ravel()])


def dataset_distance(
    X: ArrayLike, y: ArrayLike, X2: ArrayLike, y2: ArrayLike, covariance: ClassCovariance = "diag"
) -> float:
    """Exact dataset distance between two labelled samples on one machine: W2 between their
    `labelled` measures.

    The points (x, m_y, s_y) are never materialised: costs are distances between features plus
    entries of a table of classes by classes, in blocks of rows.

    Examples
    --------
    # 3 between samples, 3 between means
    >>> dataset_distance([[0.0], [2.0]], ["a", "a"], [[3.0], [5.0]], [0, 0])
    4.242640687119285
    """
    return solve(
        labelled(Measure(X, name="X"), y, covariance),
        labelled(Measure(X2, name="X2"), y2, covariance),
    ).distance


def samples_of(measure: Measure, codes: NDArray[np.int64], code: int) -> Measure:
    """The samples of one class."""
    chosen = codes == code
    return Measure(measure.points[chosen], measure.weights[chosen])
