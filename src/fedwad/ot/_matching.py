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
def _relax(row, base, price, dist, path, i):
    """Shorten the distances of columns over row i. Settled columns have price -inf and stay
    unchanged."""
    for j in range(len(row)):
        through = row[j] + (base - price[j])
        better = through < dist[j]
        dist[j] = through if better else dist[j]
        path[j] = i if better else path[j]


def match(cost: Floats) -> tuple[Indices, Floats, Floats]:
    """Optimal assignment for non-negative costs that hold many zeros: the column of each row, and
    both potentials.

    Shortest augmenting paths (Jonker and Volgenant 1987). Only rows that found no free column need
    a search, so costs reduced by good potentials are solved in little more than the time to read
    them.
    """
    indices, floats = np.empty((4, len(cost)), np.int64), np.zeros((5, len(cost)))
    _match(cost, indices, floats)
    return indices[0], floats[0], floats[1]


@compiled_entry
def _match(cost, indices, floats):
    """The assignment, into the first row of `indices` and the first two of `floats` (zero at
    first); the others are scratch."""
    n = len(cost)
    col_of, row_of, path, settled = indices[0], indices[1], indices[2], indices[3]
    u, v, dist, price, length = floats[0], floats[1], floats[2], floats[3], floats[4]
    for k in range(n):
        row_of[k], col_of[k] = NONE, NONE
    _match_zeros(cost, row_of, col_of)
    for free in range(n):
        if col_of[free] != NONE:
            continue
        for k in range(n):  # array assignments take seconds to compile
            dist[k], price[k] = np.inf, v[k]
        i, reached, count = free, 0.0, 0
        while True:
            _relax(cost[i], reached - u[i], price, dist, path, i)
            reached = least(dist)
            j = first_at(dist, reached)
            if row_of[j] == NONE:
                break
            settled[count], length[count] = j, reached
            count += 1
            dist[j], price[j] = np.inf, -np.inf
            i = row_of[j]
        u[free] += reached
        for k in range(count):
            fall = reached - length[k]
            v[settled[k]] -= fall
            u[row_of[settled[k]]] += fall
        while True:
            i = path[j]
            row_of[j] = i
            col_of[i], j = j, col_of[i]
            if i == free:
                break
