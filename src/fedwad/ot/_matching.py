"""Compiled part of the assignment solver: match pairs of cost zero, then augment along shortest
paths."""

from __future__ import annotations

import numpy as np

from fedwad.ot._measure import Floats, Indices
from fedwad.ot._small.compiled import compiled_entry, compiled_inner, compiled_inner_min
from fedwad.ot._small.paths import first_at, least

__all__ = ["match"]

NONE = -1  # a row or column without a partner


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
