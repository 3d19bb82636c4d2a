"""Compiled transport between two small measures, with its proof, in one call that needs no Python.

A matrix over many clients takes thousands of transports of ten or a hundred points each. For such
small problems the Python around them costs more than the transport. `prove` takes the prepared data
of both sides and returns the cost of an optimal plan, its relative duality gap and its marginal
error.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._matching import match
from fedwad.ot._measure import Floats
from fedwad.ot._plan import Indices
from fedwad.ot._small.compiled import entry, inner, inner_fused

__all__ = ["prove"]

NONE = -1
_CANCELLATION = 1e-4  # as in `_cost`: below it, squares are taken from differences
_SPLINTER = 2.0**-60  # of a total mass of one: less is rounding
_STEPS = 50  # per point, far more than are needed


@inner_fused
def _square(x, y):
    """|x - y|^2 from the difference."""
    total = 0.0
    for k in range(len(x)):
        total += (x[k] - y[k]) ** 2
    return total


@entry
def _squares(product, x, y, x_norms, y_norms):
    """All |x_i - y_j|^2 from products and squared norms about a common centre, into `product`."""
    n, m = product.shape
    for i in range(n):
        for j in range(m):
            norms = x_norms[i] + y_norms[j]
            square = norms - 2.0 * product[i, j]
            product[i, j] = square if square >= _CANCELLATION * norms else _square(x[i], y[j])


@entry
def _add_classes(cost, between, x_table, y_table, x_codes, y_codes):
    """Add the squares between class rows to the costs; then make them exact."""
    n, m = cost.shape
    for i in range(n):
        for j in range(m):
            cost[i, j] += between[x_codes[i], y_codes[j]]
    for i in range(len(x_table)):
        for j in range(len(y_table)):
            between[i, j] = _square(x_table[i], y_table[j])


@inner
def _smallest(row):
    """The minimum of a row. Expressions of whole arrays would take seconds to compile."""
    low = np.inf
    for j in range(len(row)):
        low = min(low, row[j])
    return low


@inner
def _smallest_difference(row, g):
    """The minimum of c_j - g_j."""
    low = np.inf
    for j in range(len(row)):
        low = min(low, row[j] - g[j])
    return low


@entry
def _reduce(cost, reduced, least):
    """Subtract the smallest cost of each row, then of each column, which go into `least`."""
    n, m = cost.shape
    for j in range(m):
        least[j] = np.inf
    for i in range(n):
        low = _smallest(cost[i])
        for j in range(m):
            reduced[i, j] = cost[i, j] - low
            least[j] = min(least[j], reduced[i, j])
    for i in range(n):
        for j in range(m):
            reduced[i, j] -= least[j]


class _Tree(NamedTuple):
    """A shortest-path tree: columns are reached from any row, rows from columns they send mass
    to."""

    dist: NDArray[np.float64]  # (m,) distance of each column
    parent: NDArray[np.int64]  # (m,) row from which a column was reached
    done: NDArray[np.bool_]  # (m,) columns whose distance is final
    depth: NDArray[np.float64]  # (n,) distance of each row, inf if not reached
    parent_col: NDArray[np.int64]  # (n,) column from which a row was reached


@inner
def _search(cost, flow, room, u, v, source, tree):
    """Dijkstra from row `source` to a column with room; returns it (NONE: none) and its distance.

    Reduced costs c_ij - u_i - v_j are the lengths, forward over any pair and backward where
    something flows.
    """
    n, m = cost.shape
    dist, parent, done, depth, parent_col = tree
    for j in range(m):
        done[j] = False
    for i in range(n):
        depth[i] = np.inf
    depth[source], parent_col[source] = 0.0, NONE
    for j in range(m):
        dist[j], parent[j] = max(cost[source, j] - u[source] - v[j], 0.0), source
    while True:
        sink, length = NONE, np.inf
        for j in range(m):
            if not done[j] and dist[j] < length:
                sink, length = j, dist[j]
        if sink == NONE or room[sink] > _SPLINTER:
            return sink, length
        done[sink] = True
        for i in range(n):
            if flow[i, sink] > 0.0 and depth[i] == np.inf:
                depth[i], parent_col[i] = length, sink
                _relax(cost[i], u[i], v, i, length, tree)


@inner
def _relax(row, potential, v, i, length, tree):
    """Shorten the distances of columns over row i, which lies at `length`."""
    dist, parent, done = tree.dist, tree.parent, tree.done
    for j in range(len(row)):
        through = length + max(row[j] - potential - v[j], 0.0)
        if not done[j] and through < dist[j]:
            dist[j], parent[j] = through, i


@inner
def _lower(u, v, length, tree):
    """Move the potentials so that reduced costs are zero on the path and nowhere negative."""
    for j in range(len(v)):
        if tree.done[j]:
            v[j] -= length - tree.dist[j]
    for i in range(len(u)):
        if tree.depth[i] < np.inf:
            u[i] += length - tree.depth[i]


@inner
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
        if flow[i, j] <= _SPLINTER:
            flow[i, j] = 0.0


@entry
def _flows(cost, a, b, flow, left, room, u, v, tree):
    """Optimal plan for any weights, into `flow`, and the potentials of columns, into `v`; returns
    the marginal error, infinite if the number of steps exceeds its bound.

    Successive shortest paths: the rest of each row is sent along shortest paths to columns with
    room. Potentials follow the distances, so no reduced cost is negative and those of flowing pairs
    are zero. `left` and `room`, the weights at first, are used up.
    """
    n, m = cost.shape
    for i in range(n):
        u[i] = _smallest(cost[i])
    steps = 0
    for source in range(n):
        while left[source] > _SPLINTER:
            steps += 1
            if steps > _STEPS * (n + m):
                return np.inf
            sink, length = _search(cost, flow, room, u, v, source, tree)
            if sink == NONE:  # the room that is left is rounding
                break
            _lower(u, v, length, tree)
            amount = _augment(flow, sink, min(left[source], room[sink]), tree)
            left[source] -= amount
            room[sink] -= amount
    error = 0.0
    for j in range(m):
        room[j] = b[j]
    for i in range(n):
        total = -a[i]
        for j in range(m):
            total += flow[i, j]
            room[j] -= flow[i, j]
        error += abs(total)
    for j in range(m):
        error += abs(room[j])
    return error


@entry
def _prove(cost, x, y, between, x_codes, y_codes, rows, cols, mass, g):
    """Cost and slack of a plan, sorted by rows; the squares are taken from differences."""
    primal, slack, row, f = 0.0, 0.0, NONE, 0.0
    for e in range(len(rows)):
        i, j = rows[e], cols[e]
        if i != row:
            row, f = i, _smallest_difference(cost[i], g)
        exact = _square(x[i], y[j]) + between[x_codes[i], y_codes[j]]
        primal += mass[e] * exact
        slack += mass[e] * (exact - f - g[j])
    return primal, slack


def prove(
    uniform: bool,
    a: Floats,
    b: Floats,
    features: tuple[Any, ...],
    classes: tuple[Any, ...],
) -> tuple[float, float, float]:
    """(cost, relative duality gap, marginal error) of an optimal plan for the cost |x - y|^2.

    `features` and `classes` hold, for features and for the rows of class tables: products of both
    sides about a common centre (overwritten), the points of both, their squares about the centre;
    `classes` also the table row of each point. `uniform` says that both sides have equally many
    points of equal weight. Each function is compiled when it is first needed.
    """
    cost, x, y, _, _ = features
    between, x_table, y_table, x_norms, y_norms, x_codes, y_codes = classes
    _squares(*features)
    if x_table.shape[1]:
        _squares(between, x_table, y_table, x_norms, y_norms)
        _add_classes(cost, between, x_table, y_table, x_codes, y_codes)
    rows, cols, mass, g, error = _assigned(cost, a) if uniform else _flowing(cost, a, b)
    primal, slack = _prove(cost, x, y, between, x_codes, y_codes, rows, cols, mass, g)
    return primal, (slack / primal if primal > 0.0 else 0.0), error


_Found = tuple[Indices, Indices, Floats, Floats, float]


def _assigned(cost: Floats, a: Floats) -> _Found:
    """Optimal assignment of n x n points of equal weight: the plan, the potentials of columns, and
    the marginal error."""
    n = len(cost)
    reduced, least = np.empty((n, n)), np.empty(n)
    _reduce(cost, reduced, least)
    cols, _, v = match(reduced)
    return _range(n), cols, a, least + v, 0.0


def _flowing(cost: Floats, a: Floats, b: Floats) -> _Found:
    """The same for any weights; the error is infinite if the number of steps exceeds its bound."""
    n, m = cost.shape
    flow, v = np.zeros((n, m)), np.zeros(m)
    tree = _Tree(
        np.empty(m),
        np.empty(m, np.int64),
        np.empty(m, np.bool_),
        np.empty(n),
        np.empty(n, np.int64),
    )
    error = _flows(cost, a, b, flow, a.copy(), b.copy(), np.empty(n), v, tree)
    places = np.flatnonzero(flow)
    rows, cols = np.divmod(places, m)
    mass = flow.ravel()[places]
    mass.setflags(write=False)  # as weights are: one kind of array is compiled once
    return rows, cols, mass, v, error


@cache
def _range(n: int) -> Indices:
    return np.arange(n)
