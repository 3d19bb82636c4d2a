"""Compiled transport between two small measures, with its proof, in one call that needs no Python.

A matrix over many clients takes thousands of transports of ten or a hundred points each. For such
small problems the Python around them costs more than the transport. `prove` takes the prepared data
of both sides and returns the cost of an optimal plan, its relative duality gap and its marginal
error.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._matching import match
from fedwad.ot._measure import Floats
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


@inner
def _squares(product, x, y, x_norms, y_norms):
    """All |x_i - y_j|^2 from products and squared norms about a common centre, into `product`."""
    n, m = product.shape
    for i in range(n):
        for j in range(m):
            norms = x_norms[i] + y_norms[j]
            square = norms - 2.0 * product[i, j]
            product[i, j] = square if square >= _CANCELLATION * norms else _square(x[i], y[j])


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


@inner
def _assigned(cost):
    """Optimal assignment of n x n points of equal weight: the column of each row, and the
    potentials of columns."""
    n = len(cost)
    reduced, least = np.empty((n, n)), np.empty(n)
    for j in range(n):
        least[j] = np.inf
    for i in range(n):
        low = _smallest(cost[i])
        for j in range(n):
            reduced[i, j] = cost[i, j] - low
            least[j] = min(least[j], reduced[i, j])
    for i in range(n):
        for j in range(n):
            reduced[i, j] -= least[j]
    cols, _, v = match(reduced)
    for j in range(n):
        least[j] += v[j]
    return cols, least


class _Tree(NamedTuple):
    """A shortest-path tree: columns are reached from rows, rows back from columns over flows."""

    dist: NDArray[np.float64]  # (m,) distance of each column
    parent: NDArray[np.int64]  # (m,) row from which a column was reached
    done: NDArray[np.bool_]  # (m,) columns whose distance is final
    depth: NDArray[np.float64]  # (n,) distance of each row, inf if not reached
    came: NDArray[np.int64]  # (n,) column from which a row was reached


@inner
def _search(cost, flow, room, u, v, source, tree):
    """Dijkstra from row `source` to a column with room; returns it (NONE: none) and its distance.

    Reduced costs c_ij - u_i - v_j are the lengths, forward over any pair and backward where
    something flows.
    """
    n, m = cost.shape
    dist, parent, done, depth, came = tree
    for j in range(m):
        done[j] = False
    for i in range(n):
        depth[i] = np.inf
    depth[source], came[source] = 0.0, NONE
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
                depth[i], came[i] = length, sink
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
    """Move the potentials so that the path becomes tight and no reduced cost negative."""
    for j in range(len(v)):
        if tree.done[j]:
            v[j] -= length - tree.dist[j]
    for i in range(len(u)):
        if tree.depth[i] < np.inf:
            u[i] += length - tree.depth[i]


@inner
def _augment(flow, sink, most, tree):
    """Send at most `most` along the path that ends in `sink`; returns how much was sent."""
    parent, came = tree.parent, tree.came
    amount, j = most, sink
    while came[parent[j]] != NONE:
        back = came[parent[j]]
        amount, j = min(amount, flow[parent[j], back]), back
    j = sink
    while True:
        i = parent[j]
        flow[i, j] += amount
        j = came[i]
        if j == NONE:
            return amount
        flow[i, j] -= amount
        if flow[i, j] <= _SPLINTER:
            flow[i, j] = 0.0


@inner
def _flows(cost, a, b):
    """Optimal plan (n, m) for any weights, and the potentials of columns; an empty plan if the
    number of steps exceeds its bound.

    Successive shortest paths: the rest of each row is sent along shortest paths to columns with
    room. Potentials follow the distances, so no reduced cost is negative and those of flowing pairs
    are zero.
    """
    n, m = cost.shape
    flow = np.zeros((n, m))
    left, room = a.copy(), b.copy()
    u, v = np.empty(n), np.zeros(m)
    for i in range(n):
        u[i] = _smallest(cost[i])
    tree = _Tree(
        np.empty(m),
        np.empty(m, np.int64),
        np.empty(m, np.bool_),
        np.empty(n),
        np.empty(n, np.int64),
    )
    steps = 0
    for source in range(n):
        while left[source] > _SPLINTER:
            steps += 1
            if steps > _STEPS * (n + m):
                return np.zeros((0, 0)), v
            sink, length = _search(cost, flow, room, u, v, source, tree)
            if sink == NONE:  # the room that is left is rounding
                break
            _lower(u, v, length, tree)
            amount = _augment(flow, sink, min(left[source], room[sink]), tree)
            left[source] -= amount
            room[sink] -= amount
    return flow, v


@inner
def _exact(features, classes, i, j):
    """|x_i - y_j|^2 from differences, the class rows included; `between` holds exact squares."""
    _, x, y, _, _ = features
    between, _, _, _, _, x_codes, y_codes = classes
    return _square(x[i], y[j]) + between[x_codes[i], y_codes[j]]


@entry
def _fill_costs(features, classes):
    """Overwrite the products: costs of all pairs, and exact squares between rows of the tables."""
    cost, x, y, x_norms, y_norms = features
    between, x_table, y_table, x_table_norms, y_table_norms, x_codes, y_codes = classes
    _squares(cost, x, y, x_norms, y_norms)
    _squares(between, x_table, y_table, x_table_norms, y_table_norms)
    for i in range(len(cost)):
        for j in range(cost.shape[1]):
            cost[i, j] += between[x_codes[i], y_codes[j]]
    for i in range(len(x_table)):
        for j in range(len(y_table)):
            between[i, j] = _square(x_table[i], y_table[j])


@entry
def _prove_assignment(a, features, classes):
    cost = features[0]
    cols, g = _assigned(cost)
    primal, slack = 0.0, 0.0
    for i in range(len(cost)):
        j = cols[i]
        exact = _exact(features, classes, i, j)
        primal += a[i] * exact
        slack += a[i] * (exact - _smallest_difference(cost[i], g) - g[j])
    return primal, (slack / primal if primal > 0.0 else 0.0), 0.0


@inner
def _total(values):
    total = 0.0
    for k in range(len(values)):
        total += values[k]
    return total


@entry
def _prove_flows(a, b, features, classes):
    cost = features[0]
    n, m = cost.shape
    flow, g = _flows(cost, a, b)
    if flow.shape[0] < n:
        return np.inf, np.inf, np.inf
    primal, slack, error = 0.0, 0.0, 0.0
    for i in range(n):
        f = _smallest_difference(cost[i], g)
        error += abs(_total(flow[i]) - a[i])
        for j in range(m):
            if flow[i, j] > 0.0:
                exact = _exact(features, classes, i, j)
                primal += flow[i, j] * exact
                slack += flow[i, j] * (exact - f - g[j])
    for j in range(m):
        error += abs(_total(flow[:, j]) - b[j])
    return primal, (slack / primal if primal > 0.0 else 0.0), error


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
    points of equal weight. Each of the two solvers is compiled when it is first needed.
    """
    _fill_costs(features, classes)
    if uniform:
        return _prove_assignment(a, features, classes)  # type: ignore[no-any-return]
    return _prove_flows(a, b, features, classes)  # type: ignore[no-any-return]
