"""Compiled graph of the sinks: the cheapest move from every sink to every other.

A *member* of a sink is an entry on its list, for some units of a sample i. To move a unit of it
from sink s to sink r changes its reduced cost from c_is - g_s to c_ir - g_r. So the cheapest move
from s to r costs

    shift[s, r] + g_s - g_r,    shift[s, r] = min over members of s of (c_ir - c_is) .

It is >= 0 while every sample lies in a sink that minimises c_is - g_s. The *key* c_ir - c_is does
not depend on g, so `shift` changes only when members come and go.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.compiled import compiled_inner, compiled_inner_min
from fedwad.ot._small.linked_plan import NEXT_IN_SINK, NONE, SAMPLE, SINK

_SHORTLIST_SIZE = 16  # members on the shortlist of an edge
_MAX_SHORTLISTED = 4_000_000  # members on all shortlists together


class SinkGraph(NamedTuple):
    """Cheapest moves between sinks; row s is filled when a search first leaves s.

    When a member leaves s, the edges from s that it attained are not repaired: `shift` stays a
    lower bound, and most of these edges are never used again. `refresh_edge` repairs an edge when a
    search is about to use it. For this, each edge has a shortlist: the members of s (some of which
    may have left) with keys below `bound`, in falling order. Where all shortlists would be too
    large K is 1, and all members of s are scanned instead.
    """

    shift: NDArray[np.float64]  # (S, S)
    best_member: NDArray[np.int32]  # (S, S) the member that attains `shift`
    is_filled: NDArray[np.bool_]  # (S,)
    listed_member: NDArray[np.int32]  # (S, S, K) shortlists
    listed_key: NDArray[np.float64]  # (S, S, K)
    listed_count: NDArray[np.int64]  # (S, S)
    bound: NDArray[np.float64]  # (S, S)


def new_graph(n_sinks: int) -> SinkGraph:
    """A graph with no row filled. Many sinks have few members each, which are fast to scan."""
    shape = (n_sinks, n_sinks)
    k = _SHORTLIST_SIZE if _SHORTLIST_SIZE * n_sinks * n_sinks <= _MAX_SHORTLISTED else 1
    return SinkGraph(
        np.empty(shape),
        np.empty(shape, np.int32),
        np.zeros(n_sinks, np.bool_),
        np.empty((*shape, k), np.int32),
        np.empty((*shape, k)),
        np.zeros(shape, np.int64),
        np.full(shape, -np.inf),
    )


@compiled_inner_min
def _lower_row(cost, graph, s, sample, member):
    """Lower shift[s, :] to what a member of s, an entry of `sample`, allows."""
    shift, best, row = graph.shift[s], graph.best_member[s], cost[sample]
    base, member = row[s], np.int32(member)
    for r in range(len(row)):
        value = row[r] - base
        better = value < shift[r]
        shift[r] = value if better else shift[r]
        best[r] = member if better else best[r]


@compiled_inner
def _add_to_shortlist(graph, s, r, key, member):
    """Add a member with key < bound to the shortlist of (s, r); a full list loses its largest
    key."""
    members, keys = graph.listed_member[s, r], graph.listed_key[s, r]
    size = graph.listed_count[s, r]
    if size == len(keys):
        k = 0
        while k + 1 < size and keys[k + 1] > key:
            keys[k], members[k] = keys[k + 1], members[k + 1]
            k += 1
    else:
        k = size
        while k > 0 and keys[k - 1] < key:
            keys[k], members[k] = keys[k - 1], members[k - 1]
            k -= 1
        size += 1
        graph.listed_count[s, r] = size
    keys[k], members[k] = key, member
    if size == len(keys):
        graph.bound[s, r] = keys[0]


@compiled_inner
def add_member(cost, graph, s, sample, member):
    """Update row s of the graph: `member`, an entry of `sample`, has joined s."""
    if not graph.is_filled[s]:
        return
    _lower_row(cost, graph, s, sample, member)
    _, n_sinks, list_size = graph.listed_key.shape
    if list_size > 1:
        base = cost[sample, s]
        for r in range(n_sinks):
            if cost[sample, r] - base < graph.bound[s, r]:
                _add_to_shortlist(graph, s, r, cost[sample, r] - base, member)


@compiled_inner
def fill_row(cost, plan, graph, s):
    """Compute shift[s, :] from the members of s."""
    for r in range(len(graph.is_filled)):
        graph.shift[s, r] = np.inf
        graph.best_member[s, r] = NONE
    k = plan.first_in_sink[s]
    while k != NONE:
        _lower_row(cost, graph, s, plan.entries[k, SAMPLE], k)
        k = plan.entries[k, NEXT_IN_SINK]
    graph.is_filled[s] = True


@compiled_inner
def _is_current(cost, plan, s, r, entry, key):
    """Whether `entry` is a member of s with this key; its row may now hold another sample."""
    if plan.entries[entry, SINK] != s:
        return False
    i = plan.entries[entry, SAMPLE]
    return cost[i, r] - cost[i, s] == key


@compiled_inner
def refresh_edge(cost, plan, graph, s, r):
    """Make shift[s, r] current; return False if it already was."""
    if _is_current(cost, plan, s, r, graph.best_member[s, r], graph.shift[s, r]):
        return False
    members, keys = graph.listed_member[s, r], graph.listed_key[s, r]
    size = graph.listed_count[s, r]
    if len(keys) == 1:
        size = 0
    while size > 0 and not _is_current(cost, plan, s, r, members[size - 1], keys[size - 1]):
        size -= 1
    graph.listed_count[s, r] = size
    if size == 0:  # make a new shortlist, from all members of s
        graph.bound[s, r] = np.inf
        k = plan.first_in_sink[s]
        while k != NONE:
            i = plan.entries[k, SAMPLE]
            key = cost[i, r] - cost[i, s]
            if key < graph.bound[s, r]:
                _add_to_shortlist(graph, s, r, key, k)
            k = plan.entries[k, NEXT_IN_SINK]
        size = graph.listed_count[s, r]
    graph.shift[s, r] = keys[size - 1] if size > 0 else np.inf
    graph.best_member[s, r] = members[size - 1] if size > 0 else NONE
    return True
