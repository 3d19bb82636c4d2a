"""Compiled graph of the sinks: the cheapest move from every sink to every other.

Moving a unit of sample i from sink s to sink r changes its reduced cost from c_is - g_s to c_ir -
g_r, so the cheapest move from s to r costs

    shift[s, r] + g_s - g_r,    shift[s, r] = min over members i of s of (c_ir - c_is) .

It is >= 0 while every sample lies in a sink that minimises c_is - g_s. The *key* c_ir - c_is does
not depend on g, so `shift` changes only when members come and go.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.cells import NEXT, NONE, SAMPLE, SINK
from fedwad.ot._small.compiled import inner, inner_scan

SHORTLIST = 16  # members remembered per edge, where there is memory for it
SHORTLIST_ENTRIES = 4_000_000


class SinkGraph(NamedTuple):
    """Cheapest moves between sinks; row s is filled when a search first leaves s.

    When a member leaves s, the entries of row s that it attained are not repaired: they stay lower
    bounds, and most are never used again. `refresh_edge` repairs an entry when a search is about to
    use it, from a shortlist: the members of s (some of which may have left) with keys below
    `bound`, in falling order.
    """

    shift: NDArray[np.float64]  # (S, S)
    cell: NDArray[np.int32]  # (S, S) the cell that attains `shift`
    filled: NDArray[np.bool_]  # (S,)
    near_cell: NDArray[np.int32]  # (S, S, K) shortlists
    near_key: NDArray[np.float64]  # (S, S, K)
    near_size: NDArray[np.int64]  # (S, S)
    bound: NDArray[np.float64]  # (S, S)


def new_graph(n_sinks: int) -> SinkGraph:
    """A graph without rows. Many sinks have few members each, to be scanned rather than listed."""
    shape = (n_sinks, n_sinks)
    k = SHORTLIST if SHORTLIST * n_sinks * n_sinks <= SHORTLIST_ENTRIES else 1
    return SinkGraph(
        np.empty(shape),
        np.empty(shape, np.int32),
        np.zeros(n_sinks, np.bool_),
        np.empty((*shape, k), np.int32),
        np.empty((*shape, k)),
        np.zeros(shape, np.int64),
        np.full(shape, -np.inf),
    )


@inner_scan
def _lower_row(cost, graph, s, sample, cell):
    """Lower shift[s, :] to what the member `cell` of s allows."""
    shift, best, row = graph.shift[s], graph.cell[s], cost[sample]
    base, cell = row[s], np.int32(cell)
    for r in range(len(row)):
        value = row[r] - base
        better = value < shift[r]
        shift[r] = value if better else shift[r]
        best[r] = cell if better else best[r]


@inner
def _shortlist(graph, s, r, key, cell):
    """Put a member with key < bound on the shortlist of (s, r); a full list drops its largest
    key."""
    cells, keys, size = graph.near_cell[s, r], graph.near_key[s, r], graph.near_size[s, r]
    if size == len(keys):
        k = 0
        while k + 1 < size and keys[k + 1] > key:
            keys[k], cells[k] = keys[k + 1], cells[k + 1]
            k += 1
    else:
        k = size
        while k > 0 and keys[k - 1] < key:
            keys[k], cells[k] = keys[k - 1], cells[k - 1]
            k -= 1
        size += 1
        graph.near_size[s, r] = size
    keys[k], cells[k] = key, cell
    if size == len(keys):
        graph.bound[s, r] = keys[0]


@inner
def add_member(cost, graph, s, sample, cell):
    """Update row s of the graph: `cell` of `sample` has become a member of s."""
    if not graph.filled[s]:
        return
    _lower_row(cost, graph, s, sample, cell)
    _, n_sinks, listed = graph.near_key.shape
    if listed > 1:
        base = cost[sample, s]
        for r in range(n_sinks):
            if cost[sample, r] - base < graph.bound[s, r]:
                _shortlist(graph, s, r, cost[sample, r] - base, cell)


@inner
def fill_row(cost, plan, graph, s):
    """Compute shift[s, :] from the members of s."""
    for r in range(len(graph.filled)):
        graph.shift[s, r] = np.inf
        graph.cell[s, r] = NONE
    k = plan.member[s]
    while k != NONE:
        _lower_row(cost, graph, s, plan.cells[k, SAMPLE], k)
        k = plan.cells[k, NEXT]
    graph.filled[s] = True


@inner
def _is_current(cost, plan, s, r, cell, key):
    """Whether `cell` is a member of s with that key (a cell may have been re-used for another
    sample)."""
    if plan.cells[cell, SINK] != s:
        return False
    i = plan.cells[cell, SAMPLE]
    return cost[i, r] - cost[i, s] == key


@inner
def refresh_edge(cost, plan, graph, s, r):
    """Make shift[s, r] current; return False if it already was."""
    if _is_current(cost, plan, s, r, graph.cell[s, r], graph.shift[s, r]):
        return False
    cells, keys, size = graph.near_cell[s, r], graph.near_key[s, r], graph.near_size[s, r]
    if len(keys) == 1:
        size = 0
    while size > 0 and not _is_current(cost, plan, s, r, cells[size - 1], keys[size - 1]):
        size -= 1
    graph.near_size[s, r] = size
    if size == 0:  # a new shortlist, of all members of s
        graph.bound[s, r] = np.inf
        k = plan.member[s]
        while k != NONE:
            i = plan.cells[k, SAMPLE]
            key = cost[i, r] - cost[i, s]
            if key < graph.bound[s, r]:
                _shortlist(graph, s, r, key, k)
            k = plan.cells[k, NEXT]
        size = graph.near_size[s, r]
    graph.shift[s, r] = keys[size - 1] if size > 0 else np.inf
    graph.cell[s, r] = cells[size - 1] if size > 0 else NONE
    return True
