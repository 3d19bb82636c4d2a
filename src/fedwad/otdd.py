"""The dataset distance between two clients that hold labelled data."""

from __future__ import annotations

from typing import Any

from fedwad._distance.api import Method, distance
from fedwad._distance.result import DistanceResult
from fedwad.ot import ClassCovariance

__all__ = ["otdd"]


def otdd(
    a: Any,
    b: Any,
    method: Method = "summary",
    support: int = 10,
    rounds: int = 20,
    covariance: ClassCovariance = "diag",
    seed: int = 0,
    **options: Any,
) -> DistanceResult:
    """Estimate the dataset distance between two clients, or two pairs (X, y).

    W2 under |x-x'|^2 + |m_y-m_y'|^2 + |s_y-s_y'|^2, with mean m_y and standard deviations s_y
    (population form) of the class y of x; with covariance="full" the Frobenius norm between the
    roots of the classes' covariance matrices takes the place of the last term. Label names play no
    part: the two may have different classes, and any number.

    Parameters
    ----------
    a, b : two clients of one federation, or two pairs (X, y)
    method, support, rounds, seed, options : as in `fedwad.distance`; a summary has `support` cells
        in all and at least one a class
    covariance : "diagonal" or "full"

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 2)), np.repeat(["cat", "dog"], 200)
    >>> r = fedwad.otdd((X, y), (X + 3 * (y == "dog")[:, None], y))
    >>> r.lower <= fedwad.ot.dataset_distance(X, y, X + 3 * (y == "dog")[:, None], y) <= r.upper
    True

    See Also
    --------
    fedwad.ot.dataset_distance : the exact value, on one machine.

    References
    ----------
    Alvarez-Melis, Fusi, Geometric Dataset Distances via Optimal Transport, NeurIPS 2020.
    """
    return distance(
        a, b, method, support, rounds, seed=seed, labels=True, covariance=covariance, **options
    )
