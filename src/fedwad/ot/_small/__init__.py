"""Exact optimal transport between many samples and a small support of sinks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import CertificateError
from fedwad.ot._measure import Floats, Indices
from fedwad.ot._plan import TOLERANCE, Solution

if TYPE_CHECKING:
    from fedwad.ot._small.linked_plan import LinkedPlan

__all__ = ["small_support"]

_TOTAL_UNITS = 2**60  # weights that are not in integer ratios are cut into this many units
_INTEGER_TOLERANCE = 1e-15  # relative distance from integer units that is rounding
# Of _TOTAL_UNITS: a sink with this much excess or less counts as balanced (2e-16 of all mass).
_FLOOR = 2**8
# With more than this fraction of the mass in wrong sinks, given potentials are a slower start than
# those of subsamples (measured).
_FAR = 0.12


class _Units(NamedTuple):
    """Integer masses of samples and sinks, with the same total.

    Imbalances of up to `floor` units are rounding errors.
    """

    sample: NDArray[np.int64]
    sink: NDArray[np.int64]
    floor: int


def small_support(cost: Floats, a: Floats, b: Floats, start: Floats | None = None) -> Solution:
    """Exact plan between n samples (rows, weights `a`) and few sinks (columns, weights `b`).

    Each sample i is assigned to the sink s that minimises c_is - g_s, with cost c and potentials g.
    The excess mass of over-full sinks is moved along shortest paths between sinks, which lowers
    potentials until all sinks are balanced. This is the method of successive shortest paths on a
    graph whose S nodes are the sinks. With good initial potentials there is little to move. They
    are `start`, the potentials of a similar problem, or come from nested subsamples of the rows.

    The potentials f in the solution are min_s c_is - g_s. Raises CertificateError when the number
    of steps exceeds its bound or the duality gap its tolerance; callers then try another solver.
    """
    from fedwad.ot._small.levels import (
        DONE,
        TOO_FAR,
        cold_potentials,
        sample_potentials,
        solve_level,
    )

    units = _integer_units(a, b)
    status, plan = TOO_FAR, None
    if start is not None and np.isfinite(start).all():
        g = np.array(start, dtype=np.float64)
        status, plan = solve_level(cost, units.sample, units.sink, g, units.floor, _FAR)
    if status == TOO_FAR:
        g = cold_potentials(cost, units.sample.astype(np.float64), units.sink.astype(np.float64))
        status, plan = solve_level(cost, units.sample, units.sink, g, units.floor)
    if status != DONE or plan is None:
        raise CertificateError(f"The small-support solver did not finish (status {status}).")
    rows, cols, mass = _entries(plan, units, a, len(b))
    solution = Solution(rows, cols, mass, sample_potentials(cost, g), g)
    _check_duality_gap(cost, a, b, solution)
    return solution


def _integer_units(a: Floats, b: Floats) -> _Units:
    """Cut the weights into integer units: integer ratios exactly, others to 2**-60 of the total."""
    n, n_sinks = len(a), len(b)
    uniform = bool((a == a[0]).all())
    if uniform and (b == b[0]).all():
        common = math.gcd(n, n_sinks)
        return _Units(np.full(n, n_sinks // common), np.full(n_sinks, n // common), 0)
    if uniform:
        in_samples = b * (n / b.sum())
        rounded = np.rint(in_samples).astype(np.int64)
        if np.abs(in_samples - rounded).max() <= _INTEGER_TOLERANCE * n and rounded.sum() == n:
            return _Units(np.ones(n, np.int64), rounded, 0)
        sample = np.full(n, _TOTAL_UNITS // n)
        return _Units(sample, _proportional(b, int(sample.sum())), _FLOOR)
    return _Units(_proportional(a, _TOTAL_UNITS), _proportional(b, _TOTAL_UNITS), _FLOOR)


def _proportional(weights: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Integers in proportion to `weights` that sum to `total` exactly."""
    units = np.floor(weights * (total / weights.sum())).astype(np.int64)
    large = np.flatnonzero(units >= units.max() // 2)  # a unit more or less matters least there
    each, remainder = divmod(total - int(units.sum()), len(large))
    units[large] += each
    units[large[:remainder]] += 1
    return np.asarray(units)


def _entries(
    plan: LinkedPlan, units: _Units, a: Floats, n_sinks: int
) -> tuple[Indices, Indices, Floats]:
    """The entries of a plan with float masses: those of each sample sum to its weight."""
    from fedwad.ot._small.forest import remove_cycles
    from fedwad.ot._small.linked_plan import collect

    rows, cols, amount = collect(plan)
    n = len(units.sample)
    if len(rows) > n + n_sinks - 1:
        rows, cols, amount = remove_cycles(rows, cols, amount, n)
    mass = a[rows]
    split = amount < units.sample[rows]
    mass[split] *= amount[split] / units.sample[rows[split]]
    return rows, cols, mass


def _check_duality_gap(cost: Floats, a: Floats, b: Floats, solution: Solution) -> None:
    """Raise CertificateError if primal minus dual is more than a rounding error."""
    rows, cols, mass, f, g = solution
    primal = float(mass @ cost.ravel().take(rows * len(b) + cols))
    dual = float(a @ f), float(b @ g)
    if not abs(primal - sum(dual)) <= TOLERANCE * max(primal, *map(abs, dual)):
        raise CertificateError("The small-support solver ended with a duality gap.")
