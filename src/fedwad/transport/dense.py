"""Compiled solvers that work on whole matrices of costs.

`match` solves an assignment: it matches pairs of cost zero, then augments along shortest paths.

`assign_nearly` holds auctions for nearly optimal assignments, in integers. A row bids for the
column that minimises cost minus potential, up to the price at which it would be indifferent to its
second choice, plus a tolerance. When all rows have a column, the assignment costs at most the
tolerance for each row more than the best one (Bertsekas). Minima of integers compile to vector
instructions, which makes this several times faster than an exact solver. One call serves many
pairs, since Python would take longer than a small auction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad.transport._small.paths import NONE
from fedwad.transport.compiled import (
    compiled_entry,
    compiled_inner,
    compiled_inner_min,
    first_at,
    least,
)
from fedwad.transport.measures import Floats, Indices

_LARGEST_INTEGER = np.int32(2**31 - 1)
_PADDING = np.int32(2**31 - 2)  # costs of columns that no row takes
_LOWEST = -(1 << 30)  # potentials below it may overflow

Integers = NDArray[np.int32]


@compiled_inner
def _match_zeros(cost, row_of, col_of):
    """Give each row a column of cost zero that is still free."""
    for i in range(len(cost)):
        for j in range(len(cost)):
            if cost[i, j] == 0.0 and row_of[j] == NONE:
                row_of[j], col_of[i] = i, j
                break


@compiled_inner_min
def _relax(row, base, open_v, dist, parent, i):
    """Shorten the distances of columns over row i. Settled columns have `open_v` -inf and stay
    unchanged."""
    for j in range(len(row)):
        through = row[j] + (base - open_v[j])
        better = through < dist[j]
        dist[j] = through if better else dist[j]
        parent[j] = i if better else parent[j]


def match(cost: Floats) -> tuple[Indices, Floats, Floats]:
    """Optimal assignment for non-negative costs with many zeros.

    Returns the column of each row, and the potentials of rows and columns. The method is that of
    shortest augmenting paths (Jonker and Volgenant 1987). Rows that get a free column of cost zero
    need no search, so costs reduced by good potentials are solved in little more than the time to
    read them.
    """
    indices, floats = np.empty((4, len(cost)), np.int64), np.zeros((5, len(cost)))
    _match(cost, indices, floats)
    return indices[0], floats[0], floats[1]


@compiled_entry
def _match(cost, indices, floats):
    """Write the columns of rows into `indices[0]`, and the potentials of rows and columns into
    `floats[0]` and `floats[1]`, which are zero at first. The other rows are work space."""
    n = len(cost)
    col_of, row_of, parent, settled = indices[0], indices[1], indices[2], indices[3]
    u, v, dist, open_v, length = floats[0], floats[1], floats[2], floats[3], floats[4]
    for k in range(n):
        row_of[k], col_of[k] = NONE, NONE
    _match_zeros(cost, row_of, col_of)
    for free in range(n):
        if col_of[free] != NONE:
            continue
        for k in range(n):  # array assignments take seconds to compile
            dist[k], open_v[k] = np.inf, v[k]
        i, reached, count = free, 0.0, 0
        while True:
            _relax(cost[i], reached - u[i], open_v, dist, parent, i)
            reached = least(dist)
            j = first_at(dist, reached)
            if row_of[j] == NONE:
                break
            settled[count], length[count] = j, reached
            count += 1
            dist[j], open_v[j] = np.inf, -np.inf
            i = row_of[j]
        u[free] += reached
        for k in range(count):
            fall = reached - length[k]
            v[settled[k]] -= fall
            u[row_of[settled[k]]] += fall
        while True:
            i = parent[j]
            row_of[j] = i
            col_of[i], j = j, col_of[i]
            if i == free:
                break


@compiled_inner
def _subtract(row, g, values):
    """Fill `values` with row - g, and return their minimum."""
    low = _LARGEST_INTEGER
    for j in range(len(row)):
        value = np.int32(row[j] - g[j])
        values[j] = value
        low = min(low, value)
    return low


@compiled_inner
def _least(values):
    low = _LARGEST_INTEGER
    for j in range(len(values)):
        low = min(low, values[j])
    return low


@compiled_inner
def _first(values, best):
    """The index of the first value that equals `best`; all are compared, in vector instructions."""
    index = _LARGEST_INTEGER
    for j in range(np.int32(len(values))):
        index = min(index, np.int32(j) if values[j] == best else _LARGEST_INTEGER)
    return index


@compiled_inner
def _auction(cost, g, tolerance, bids, scratch, values):
    """Assign a column to each row by bids, which lower the potentials g; at most `bids` a row.

    The columns are written into the first row of `scratch`, an integer array (3, n). Returned is
    the mean cost, or -1 if too many bids were made.
    """
    n = len(cost)
    cols, rows, unassigned = scratch[0], scratch[1], scratch[2]
    for i in range(n):
        rows[i], unassigned[i] = NONE, i
    n_unassigned, bids_left = n, bids * n
    while n_unassigned > 0:
        n_unassigned -= 1
        bids_left -= 1
        i = unassigned[n_unassigned]
        best = _subtract(cost[i], g, values)
        col = _first(values, best)
        values[col] = _LARGEST_INTEGER
        g[col] -= _least(values) - best + tolerance
        if g[col] < _LOWEST or bids_left < 0:
            return -1.0
        cols[i] = col
        if rows[col] != NONE:
            unassigned[n_unassigned] = rows[col]
            n_unassigned += 1
        rows[col] = i
    total = 0.0
    for i in range(n):
        total += cost[i, cols[i]]
    return total / n


@compiled_entry
def _run_auctions(costs, potentials, tolerances, part, shrink, bids, scratch, values, mean_costs):
    """Auctions of falling tolerance for each table of costs.

    The tolerance is `tolerances[k]` at first, and is divided by `shrink` until it is at most `part`
    of the mean cost. Columns are written into `scratch` as in `_auction`, and the mean costs into
    `mean_costs`, -1 where an auction was given up.
    """
    for k in range(len(costs)):
        current = tolerances[k]
        while True:
            tolerance = np.int32(current) if current > 1.0 else np.int32(1)
            mean_cost = _auction(costs[k], potentials[k], tolerance, bids, scratch[k], values)
            target = part * mean_cost if part * mean_cost > 1.0 else 1.0
            if mean_cost < 0.0 or current <= target:
                break
            current = current / shrink if current / shrink > target else target
        mean_costs[k] = mean_cost


def new_tables(count: int, n: int, columns: int, lanes: int = 32) -> Integers:
    """Tables of costs to be filled, with further columns, too expensive for any row.

    With them rows have a multiple of `lanes` numbers, so many as compiled loops take at a time.
    """
    tables = np.empty((count, n, -(-columns // lanes) * lanes), np.int32)
    tables[:, :, columns:] = _PADDING
    return tables


def assign_nearly(
    integers: Integers,
    tolerance: float = 0.008,
    coarsest: int = 64,
    growth: int = 4,
    shrink: float = 5.0,
    bids: int = 1000,
) -> tuple[Indices, Floats]:
    """Assign rows to columns at most the part `tolerance` above the least cost, for k tables.

    Costs must not exceed some 2^27. Potentials come from subsamples, the smallest of at most
    `coarsest` rows and each `growth` times larger than the one before, and from auctions of falling
    tolerance (benchmarks/ablation.md). An auction with more than `bids` for each row, on average,
    is given up. Returns the column of each row (k, n)
    and the mean costs (k,), negative where auctions take too many steps.
    """
    count, n, _ = integers.shape
    step = 1
    while n // step > coarsest:
        step *= growth
    sample = _subsample(integers, n, step)
    tables = sample[:, :, : sample.shape[1]]
    tolerances: Floats = (tables.mean(axis=2) - tables.min(axis=2)).mean(axis=1) / 4
    g, failed = np.zeros((count, sample.shape[2]), np.int32), np.zeros(count, dtype=bool)
    values = np.empty(integers.shape[2], np.int32)
    while True:
        scratch, mean_costs = np.empty((count, 3, sample.shape[1]), np.int64), np.empty(count)
        rules = np.maximum(tolerances, 1.0), tolerance, shrink, bids
        _run_auctions(sample, g, *rules, scratch, values[: sample.shape[2]], mean_costs)
        failed |= mean_costs < 0
        if step == 1:
            return scratch[:, 0], np.where(failed, -1.0, mean_costs)
        g[failed] = 0
        f = (sample - g[:, None, :]).min(axis=2)
        step //= growth
        finer = integers[:, :: step * growth, :n:step] - f[:, :, None]
        sample = _subsample(integers, n, step)
        g = np.zeros((count, sample.shape[2]), np.int32)
        g[:, : sample.shape[1]] = finer.min(axis=1)
        tolerances = shrink * tolerance * mean_costs


def _subsample(integers: Integers, n: int, step: int) -> Integers:
    """Every `step`-th row and column of tables, padded again."""
    if step == 1:
        return integers
    some = integers[:, ::step, :n:step]
    tables = new_tables(*some.shape)
    tables[:, :, : some.shape[2]] = some
    return tables
