"""Compiled part of the assignment solver: match pairs of cost zero, then augment along shortest
paths."""

from __future__ import annotations

import numpy as np

from fedwad.ot._small.compiled import entry, inner, inner_scan
from fedwad.ot._small.paths import first_at, least

__all__ = ["match"]

NONE = -1


@inner
def _match_zeros(cost, row_of, col_of):
    """Give each row a column of cost zero that is still free."""
    for i in range(len(cost)):
        for j in range(len(cost)):
            if cost[i, j] == 0.0 and row_of[j] == NONE:
                row_of[j], col_of[i] = i, j
                break


@inner_scan
def _relax(row, base, price, dist, path, i):
    """Shorten the distances of columns over row i. Settled columns have price -inf and stay
    unchanged."""
    for j in range(len(row)):
        through = row[j] + (base - price[j])
        better = through < dist[j]
        dist[j] = through if better else dist[j]
        path[j] = i if better else path[j]


@entry
def match(cost):
    """Optimal assignment for non-negative costs that hold many zeros: the column of each row, and
    both potentials.

    Shortest augmenting paths (Jonker and Volgenant 1987). Only rows that found no free column need
    a search, so costs reduced by good potentials are solved in little more than the time to read
    them.
    """
    n = len(cost)
    row_of, col_of = np.empty(n, np.int64), np.empty(n, np.int64)
    u, v = np.zeros(n), np.zeros(n)
    for k in range(n):
        row_of[k], col_of[k] = NONE, NONE
    _match_zeros(cost, row_of, col_of)
    dist, price = np.empty(n), np.empty(n)
    path = np.empty(n, np.int64)
    settled, length = np.empty(n, np.int64), np.empty(n)
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
    return col_of, u, v
