"""What stands around the solver in a module that needs NumPy and numba alone.

`python -m contrib.pot FILE` writes that module: this file, and the solver of
`fedwad.transport._small` without its imports from the package, where the marked line is.
"""

from __future__ import annotations

import math  # noqa: F401 - the solver needs it
from collections.abc import Iterator  # noqa: F401 - likewise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
_MIN_FLAGS = {"nnan", "nsz", "reassoc"}  # LLVM vectorises a minimum if no cost is NaN
compiled_entry = compiled_inner = njit(**_LEAN)
compiled_entry_min = compiled_inner_min = njit(**_LEAN, fastmath=_MIN_FLAGS)


class CertificateError(RuntimeError):
    """The solver did not finish within its bound of steps."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Solution(NamedTuple):
    """The plan in coordinate form, and potentials of rows and columns."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    mass: Floats
    f: Floats
    g: Floats


def small_support(cost: Floats, a: Floats, b: Floats, start: Floats | None = None) -> Solution:
    """Replaced by the solver."""
    raise NotImplementedError


# --- solver ---


def emd_small_support(
    a: Floats,
    b: Floats,
    M: Floats,
    potentials_init: tuple[Floats, Floats] | None = None,
    log: bool = False,
) -> Any:
    r"""Solve the exact transport problem between many samples and few points.

    .. math::
        \gamma = \mathop{\arg\min}_\gamma \langle \gamma, M \rangle \quad
        \text{s.t. } \gamma 1 = a,\ \gamma^T 1 = b,\ \gamma \geq 0

    Parameters
    ----------
    a : array (n,), b : array (m,)
        Weights, empty for uniform ones; those that are zero take no part.
    M : array (n, m)
        Costs; the smaller side should have at most about 1000 points.
    potentials_init : (u, v)
        Dual potentials of a similar problem, as `ot.emd` takes them. Those of the smaller side
        start the search.
    log : bool
        Also return the cost, the potentials and the duality gap, which proves the cost.

    Returns
    -------
    gamma : array (n, m)
    log : dict with cost, u, v, gap and warning None, if `log`

    Raises ValueError for weights or costs that are not finite, negative, or of different totals.

    >>> emd_small_support([], [], [[0.0, 1.0], [1.0, 0.0]]).tolist()  # doctest: +SKIP
    [[0.5, 0.0], [0.0, 0.5]]
    """
    cost = np.ascontiguousarray(M, dtype=np.float64)
    sizes = cost.shape if cost.ndim == 2 else (0, 0)
    weights = [
        np.asarray(one, dtype=np.float64) if len(one) else np.full(size, 1 / max(size, 1))
        for one, size in zip((a, b), sizes, strict=True)
    ]
    if not cost.size or any(one.shape != (k,) for one, k in zip(weights, sizes, strict=True)):
        raise ValueError(f"a, b and M must fit together; M has the shape {np.shape(M)}.")
    if not np.isfinite(cost).all() or any(not (one >= 0).all() for one in weights):
        raise ValueError("Costs must be finite, and weights not negative.")
    total = weights[0].sum()
    if not (0 < total < np.inf and np.isclose(total, weights[1].sum())):
        raise ValueError("a and b must have the same positive sum.")
    turned = sizes[0] < sizes[1]
    if turned:  # samples are rows
        cost, weights = np.ascontiguousarray(cost.T), weights[::-1]
    kept = [np.flatnonzero(one > 0) for one in weights]
    every = [len(k) == len(one) for k, one in zip(kept, weights, strict=True)]
    part = cost if all(every) else np.ascontiguousarray(cost[np.ix_(*kept)])
    start = None if potentials_init is None else potentials_init[0 if turned else 1]
    found = small_support(
        part,
        weights[0][kept[0]] / total,
        weights[1][kept[1]] / weights[1].sum(),
        None if start is None else np.asarray(start, dtype=np.float64)[kept[1]],
    )
    rows, cols, mass = kept[0][found.rows], kept[1][found.cols], found.mass * total
    gamma = np.zeros_like(cost)
    gamma[rows, cols] = mass
    # Points without mass get the largest potentials that are feasible.
    u, v = np.empty(cost.shape[0]), np.empty(cost.shape[1])
    u[kept[0]], v[kept[1]] = found.f, found.g
    rest = [np.setdiff1d(np.arange(len(one)), k) for one, k in zip((u, v), kept, strict=True)]
    v[rest[1]] = (cost[np.ix_(kept[0], rest[1])] - found.f[:, None]).min(axis=0)
    u[rest[0]] = (cost[rest[0]] - v).min(axis=1)
    primal = float(mass @ cost[rows, cols])
    gap = primal - float(u @ weights[0] + v @ weights[1])
    if turned:
        gamma, u, v = np.ascontiguousarray(gamma.T), v, u
    if not log:
        return gamma
    return gamma, {"cost": primal, "u": u, "v": v, "gap": gap, "warning": None, "result_code": 1}
