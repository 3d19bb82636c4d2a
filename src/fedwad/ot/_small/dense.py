"""Compiled transport between two small measures, with its proof, in one call that needs no Python.

A matrix over many clients takes thousands of transports of ten or a hundred points each, and around
such a small one the steps of Python cost more than the transport. `prove` takes what is ready of
both sides, and tells the cost of an optimal plan, its relative duality gap and its marginal error.
"""

import numpy as np
from numba import njit

from fedwad.ot._matching import match

__all__ = ["prove"]

NONE = -1
_CANCELLATION = 1e-4  # as in `_cost`: below it, squares are taken from differences
_SPLINTER = 2.0**-60  # of a total mass of one: less is a rounding
_STEPS = 50  # a point, far more than are needed


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _square(x, y):
    """|x - y|^2 from the difference."""
    total = 0.0
    for k in range(len(x)):
        total += (x[k] - y[k]) ** 2
    return total


@njit(nogil=True, cache=True)
def _squares(product, x, y, x_norms, y_norms):
    """All |x_i - y_j|^2 from the products and squares of points about a common centre; `product` is
    overwritten."""
    n, m = product.shape
    for i in range(n):
        for j in range(m):
            norms = x_norms[i] + y_norms[j]
            square = norms - 2.0 * product[i, j]
            product[i, j] = square if square >= _CANCELLATION * norms else _square(x[i], y[j])


@njit(nogil=True, cache=True)
def _assigned(cost):
    """Optimal assignment for n x n points of equal weight: the column of each row, and the
    potentials of columns."""
    n = len(cost)
    reduced = np.empty((n, n))
    for i in range(n):
        reduced[i] = cost[i] - cost[i].min()
    least = reduced[0].copy()
    for i in range(1, n):
        least = np.minimum(least, reduced[i])
    for i in range(n):
        reduced[i] -= least
    cols, _, v = match(reduced)
    return cols, least + v


@njit(nogil=True, cache=True)
def _flows(cost, a, b):
    """Optimal plan (n, m) for any weights, and the potentials of columns; an empty plan if it does
    not end.

    Successive shortest paths: what a row has left is sent along the shortest path of reduced costs
    c_ij - u_i - v_j, forward over any pair and backward where something flows, to a column that has
    room left. Potentials follow the distances, so that no reduced cost is negative and those of
    flowing pairs are zero.
    """
    n, m = cost.shape
    flow = np.zeros((n, m))
    left, room = a.copy(), b.copy()
    u, v = np.empty(n), np.zeros(m)
    for i in range(n):
        u[i] = cost[i].min()
    dist, parent = (
        np.empty(m),
        np.empty(m, np.int64),
    )  # of columns, and from which row they were reached
    done = np.empty(m, np.bool_)
    depth, came = (
        np.empty(n),
        np.empty(n, np.int64),
    )  # of rows (inf: not reached), and from which column
    steps = 0
    for source in range(n):
        while left[source] > _SPLINTER:
            steps += 1
            if steps > _STEPS * (n + m):
                return np.zeros((0, 0)), v
            done[:] = False
            depth[:] = np.inf
            depth[source], came[source] = 0.0, NONE
            for j in range(m):
                dist[j], parent[j] = max(cost[source, j] - u[source] - v[j], 0.0), source
            sink, length = NONE, np.inf
            while True:
                sink, length = NONE, np.inf
                for j in range(m):
                    if not done[j] and dist[j] < length:
                        sink, length = j, dist[j]
                if sink == NONE or room[sink] > _SPLINTER:
                    break
                done[sink] = True
                for i in range(n):
                    if flow[i, sink] > 0.0 and depth[i] == np.inf:
                        depth[i], came[i] = length, sink
                        for j in range(m):
                            reach = length + max(cost[i, j] - u[i] - v[j], 0.0)
                            if not done[j] and reach < dist[j]:
                                dist[j], parent[j] = reach, i
            if sink == NONE:  # no room is left but roundings
                break
            for j in range(m):
                if done[j]:
                    v[j] -= length - dist[j]
            for i in range(n):
                if depth[i] < np.inf:
                    u[i] += length - depth[i]
            amount, j = min(left[source], room[sink]), sink
            while came[parent[j]] != NONE:
                back = came[parent[j]]
                amount, j = min(amount, flow[parent[j], back]), back
            left[source] -= amount
            room[sink] -= amount
            j = sink
            while True:
                i = parent[j]
                flow[i, j] += amount
                j = came[i]
                if j == NONE:
                    break
                flow[i, j] -= amount
                if flow[i, j] <= _SPLINTER:
                    flow[i, j] = 0.0
    return flow, v


@njit(nogil=True, cache=True)
def prove(uniform, a, b, features, classes):
    """(cost, relative duality gap, marginal error) of an optimal plan for the cost |x - y|^2.

    `features` and `classes` hold, for features and for the rows of class tables: products of both
    sides about a common centre (overwritten), the points of both, their squares about the centre;
    `classes` also the rows that points have in the tables. `uniform` says that both sides have
    equally many points of equal weight.
    """
    cost, x, y, x_norms, y_norms = features
    between, x_table, y_table, x_table_norms, y_table_norms, x_codes, y_codes = classes
    n, m = cost.shape
    _squares(cost, x, y, x_norms, y_norms)
    _squares(between, x_table, y_table, x_table_norms, y_table_norms)
    for i in range(n):
        for j in range(m):
            cost[i, j] += between[x_codes[i], y_codes[j]]
    for i in range(len(x_table)):
        for j in range(len(y_table)):
            between[i, j] = _square(x_table[i], y_table[j])
    if uniform:
        cols, g = _assigned(cost)
        primal, slack = 0.0, 0.0
        for i in range(n):
            j = cols[i]
            exact = _square(x[i], y[j]) + between[x_codes[i], y_codes[j]]
            primal += a[i] * exact
            slack += a[i] * (exact - (cost[i] - g).min() - g[j])
        return primal, (slack / primal if primal > 0.0 else 0.0), 0.0
    flow, g = _flows(cost, a, b)
    if flow.shape[0] < n:
        return np.inf, np.inf, np.inf
    primal, slack, error = 0.0, 0.0, 0.0
    for i in range(n):
        f = (cost[i] - g).min()
        error += abs(flow[i].sum() - a[i])
        for j in range(m):
            if flow[i, j] > 0.0:
                exact = _square(x[i], y[j]) + between[x_codes[i], y_codes[j]]
                primal += flow[i, j] * exact
                slack += flow[i, j] * (exact - f - g[j])
    for j in range(m):
        error += abs(flow[:, j].sum() - b[j])
    return primal, (slack / primal if primal > 0.0 else 0.0), error
