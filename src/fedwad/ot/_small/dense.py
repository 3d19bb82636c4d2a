"""Compiled transport between many pairs of small measures, in one call that needs no Python.

A matrix over many clients takes thousands of transports of ten or a hundred points each. For such
small problems the Python around them costs more than the transport.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._measure import Floats
from fedwad.ot._small.compiled import compiled_entry, compiled_inner

__all__ = ["optimal_flows"]

NONE = -1  # no row or column
_NEGLIGIBLE = 2.0**-60  # of a total mass of one: less is rounding
_STEPS = 50  # per row and column, after which a transport is given up


@compiled_inner
def _smallest(row):
    """The minimum of a row. Expressions of whole arrays would take seconds to compile."""
    low = np.inf
    for j in range(len(row)):
        low = min(low, row[j])
    return low


class _Tree(NamedTuple):
    """A shortest-path tree of rows and columns.

    Paths lead from a row to any column, and from a column to the rows that send mass to it.
    """

    dist: NDArray[np.float64]  # (m,) distance of each column
    parent: NDArray[np.int64]  # (m,) row from which a column was reached
    done: NDArray[np.bool_]  # (m,) whether the distance of a column is final
    row_dist: NDArray[np.float64]  # (n,) distance of each row, inf if not reached
    parent_col: NDArray[np.int64]  # (n,) column from which a row was reached


@compiled_inner
def _search(cost, flow, room, u, v, source, tree):
    """Dijkstra from row `source` to a column with room.

    Returns that column (NONE: none has room) and its distance. The lengths are reduced costs
    c_ij - u_i - v_j, from row to column for any pair and back where mass flows.
    """
    n, m = cost.shape
    dist, parent, done, row_dist, parent_col = tree
    for j in range(m):
        done[j] = False
    for i in range(n):
        row_dist[i] = np.inf
    row_dist[source], parent_col[source] = 0.0, NONE
    for j in range(m):
        dist[j], parent[j] = max(cost[source, j] - u[source] - v[j], 0.0), source
    while True:
        sink, length = NONE, np.inf
        for j in range(m):
            if not done[j] and dist[j] < length:
                sink, length = j, dist[j]
        if sink == NONE or room[sink] > _NEGLIGIBLE:
            return sink, length
        done[sink] = True
        for i in range(n):
            if flow[i, sink] > 0.0 and row_dist[i] == np.inf:
                row_dist[i], parent_col[i] = length, sink
                _relax(cost[i], u[i], v, i, length, tree)


@compiled_inner
def _relax(row, potential, v, i, length, tree):
    """Shorten the distances of columns over row i, whose own distance is `length`."""
    dist, parent, done = tree.dist, tree.parent, tree.done
    for j in range(len(row)):
        through = length + max(row[j] - potential - v[j], 0.0)
        if not done[j] and through < dist[j]:
            dist[j], parent[j] = through, i


@compiled_inner
def _update_potentials(u, v, length, tree):
    """Change the potentials so that reduced costs are zero on the path and nowhere negative."""
    for j in range(len(v)):
        if tree.done[j]:
            v[j] -= length - tree.dist[j]
    for i in range(len(u)):
        if tree.row_dist[i] < np.inf:
            u[i] += length - tree.row_dist[i]


@compiled_inner
def _augment(flow, sink, most, tree):
    """Send at most `most` along the path that ends in `sink`; returns how much was sent."""
    parent, parent_col = tree.parent, tree.parent_col
    amount, j = most, sink
    while parent_col[parent[j]] != NONE:
        back = parent_col[parent[j]]
        amount, j = min(amount, flow[parent[j], back]), back
    j = sink
    while True:
        i = parent[j]
        flow[i, j] += amount
        j = parent_col[i]
        if j == NONE:
            return amount
        flow[i, j] -= amount
        if flow[i, j] <= _NEGLIGIBLE:
            flow[i, j] = 0.0


@compiled_inner
def _flow(cost, flow, left, room, u, v, tree):
    """Write an optimal plan into `flow` and the potentials of columns into `v`, both zero at first.

    Returns False if it gave up after too many steps.

    The method is that of successive shortest paths: the mass left in each row is sent along
    shortest paths to columns with room. Potentials follow the distances, so no reduced cost is
    negative, and those of pairs with flow are zero. `left` and `room` start as the weights of rows
    and columns, and are used up.
    """
    n, m = cost.shape
    for i in range(n):
        u[i] = _smallest(cost[i])
    steps = 0
    for source in range(n):
        while left[source] > _NEGLIGIBLE:
            steps += 1
            if steps > _STEPS * (n + m):
                return False
            sink, length = _search(cost, flow, room, u, v, source, tree)
            if sink == NONE:  # the mass that is left in this row is rounding
                break
            _update_potentials(u, v, length, tree)
            amount = _augment(flow, sink, min(left[source], room[sink]), tree)
            left[source] -= amount
            room[sink] -= amount
    return True


@compiled_entry
def _flows(costs, flows, lefts, rooms, u, potentials, tree, finished):
    """Write the plan and the potentials of each table of costs."""
    for k in range(len(costs)):
        finished[k] = _flow(costs[k], flows[k], lefts[k], rooms[k], u, potentials[k], tree)


def optimal_flows(costs: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Optimal plans (k, n, m) for k tables of costs, weights a (n,) of all rows, and b (k, m).

    Returns the plans, the potentials of columns (k, m) and the marginal errors (k,), infinite where
    a transport took too many steps.
    """
    count, n, m = costs.shape
    flows, potentials = np.zeros(costs.shape), np.zeros((count, m))
    tree = _Tree(
        np.empty(m),
        np.empty(m, np.int64),
        np.empty(m, np.bool_),
        np.empty(n),
        np.empty(n, np.int64),
    )
    finished = np.empty(count, np.bool_)
    left = np.tile(a, (count, 1))
    _flows(costs, flows, left, b.copy(), np.empty(n), potentials, tree, finished)
    errors = np.abs(flows.sum(axis=2) - a).sum(axis=1) + np.abs(flows.sum(axis=1) - b).sum(axis=1)
    return flows, potentials, np.where(finished, errors, np.inf)
