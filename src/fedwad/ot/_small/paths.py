"""Compiled dual side of the small-support solver: shortest augmenting paths between sinks.

The method is that of successive shortest paths, on the graph of module `graph`. Each search from an
over-full sink lowers the potentials of the sinks it settles. Then moves along its path cost
nothing, and no sample is better placed in another sink. Potentials only fall, and only those of
settled sinks, so samples with a wide gap to their second best sink stay idle.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.compiled import compiled_entry, compiled_inner, compiled_inner_min
from fedwad.ot._small.graph import add_member, fill_row, new_graph, refresh_edge
from fedwad.ot._small.linked_plan import NONE, SAMPLE, SINK, UNITS, Idle, LinkedPlan, link, move

DONE, TOO_MANY_STEPS, OUT_OF_ENTRIES = 0, 1, 2


class Search(NamedTuple):
    """Arrays of one Dijkstra search.

    An open sink is one that is not settled. Settled sinks have `open_g` -inf, which makes every
    edge into them infinite, and `dist` inf, so loops over all sinks need no mask.
    """

    dist: NDArray[np.float64]  # (S,) tentative distance of open sinks
    open_g: NDArray[np.float64]  # (S,) g of open sinks
    parent: NDArray[np.int64]  # (S,) sink from which a sink was reached
    settled: NDArray[np.int64]  # (S,) sinks in the order of settling
    length: NDArray[np.float64]  # (S,) their distances, in the same order
    moved: NDArray[np.int64]  # (S,) entries to move along the path, last first
    target: NDArray[np.int64]  # (S,) the sinks that these entries move to


@compiled_inner
def least(values):
    """The minimum, as the least of four running minima, which compile to vector instructions."""
    a = b = c = d = np.inf
    whole = len(values) - len(values) % 4
    for k in range(0, whole, 4):
        a, b = min(a, values[k]), min(b, values[k + 1])
        c, d = min(c, values[k + 2]), min(d, values[k + 3])
    for k in range(whole, len(values)):
        a = min(a, values[k])
    return min(min(a, b), min(c, d))


@compiled_inner
def first_at(values, value):
    """The first index with this value; it must occur."""
    k = 0
    while values[k] != value:
        k += 1
    return k


@compiled_inner_min
def _relax(shift, potential, s, length, search):
    """Relax all edges out of sink s, which has the given potential and was settled at `length`."""
    dist, open_g, parent = search.dist, search.open_g, search.parent
    base = potential + length
    for r in range(len(open_g)):
        through = shift[r] + (base - open_g[r])
        through = max(length, through)  # rounding can make an edge barely negative
        better = through < dist[r]
        dist[r] = through if better else dist[r]
        parent[r] = s if better else parent[r]


@compiled_inner
def _search(cost, plan, graph, g, excess, floor, source, search):
    """Dijkstra from `source` until a sink with room is settled.

    Returns that sink (NONE: none can be reached), its distance and the number of sinks settled
    before it.
    """
    for k in range(len(g)):  # array assignments take seconds to compile
        search.dist[k], search.open_g[k] = np.inf, g[k]
    sink, length, count = source, 0.0, 0
    while excess[sink] >= -floor:
        search.settled[count] = sink
        search.length[count] = length
        search.dist[sink] = np.inf
        search.open_g[sink] = -np.inf
        count += 1
        if not graph.is_filled[sink]:
            fill_row(cost, plan, graph, sink)
        _relax(graph.shift[sink], g[sink], sink, length, search)
        while True:
            length = least(search.dist)
            if length == np.inf:
                return NONE, length, count
            sink = first_at(search.dist, length)
            if not refresh_edge(cost, plan, graph, search.parent[sink], sink):
                break
            # The edge is longer than its lower bound: find the distance over settled sinks anew.
            search.dist[sink] = np.inf
            for k in range(count):
                s, before = search.settled[k], search.length[k]
                through = max(graph.shift[s, sink] + (g[s] + before - g[sink]), before)
                if through < search.dist[sink]:
                    search.dist[sink] = through
                    search.parent[sink] = s
    return sink, length, count


@compiled_inner
def _wake(cost, plan, graph, idle, fallen, search, length, count):
    """Wake the idle samples that might leave their sink after the next fall of potentials.

    `fallen` is by how much each potential has fallen so far. Returns False if `woken_gap` of every
    settled sink was large enough.

    The fall is not final: it shrinks if woken samples open shorter paths, and is infinite if there
    was no path. Therefore `woken_gap` grows in steps: small enough to wake few samples in vain,
    large enough for few steps.
    """
    any_raised = False
    for settled in range(count):
        s = search.settled[settled]
        woken_gap, fall = idle.woken_gap[s], fallen[s] + (length - search.length[settled])
        if fall <= woken_gap:
            continue
        limit = min(max(fall, 1.5 * woken_gap), 4.0 * woken_gap) if woken_gap > 0.0 else fall
        k, stop = idle.start[s], idle.stop[s]
        while k < stop:
            if idle.gap[k] > limit:
                k += 1
                continue
            sample = idle.sample[k]
            link(plan, sample, s)  # the only entry of an idle sample has the sample's number
            add_member(cost, graph, s, sample, sample)
            stop -= 1
            idle.sample[k], idle.gap[k] = idle.sample[stop], idle.gap[stop]
        idle.stop[s] = stop
        idle.woken_gap[s] = limit if stop > idle.start[s] else np.inf
        any_raised = True
    return any_raised


@compiled_inner
def _augment(cost, plan, graph, excess, source, sink, search, lump):
    """Move units along the path from `source` to `sink`; False if the table of entries is full.

    Two consecutive moves of the same sample become one. Two cannot be cheaper, but rounding can
    make them seem so, and then a tiny entry in between would limit the amount that moves.

    With `lump` = 0 the same amount moves along the whole path, as much as possible. Otherwise each
    move has its own amount: a whole entry, or `lump` units of a larger one. That leaves small
    imbalances but splits few samples.
    """
    entries, moved, target = plan.entries, search.moved, search.target
    count, r = 0, sink
    while r != source:  # the moves, last first
        s = search.parent[r]
        k = graph.best_member[s, r]
        if count == 0 or entries[moved[count - 1], SAMPLE] != entries[k, SAMPLE]:
            target[count] = r
            count += 1
        moved[count - 1] = k
        r = s
    amount = min(excess[source], -excess[sink])
    for step in range(count):
        amount = min(amount, entries[moved[step], UNITS])
    for step in range(count):
        k, r = moved[step], target[step]
        if lump > 0:
            amount = min(lump, entries[k, UNITS])
        excess[entries[k, SINK]] -= amount
        excess[r] += amount
        fits, joined = move(plan, k, r, amount)
        if not fits:
            return False
        if joined != NONE:
            add_member(cost, graph, r, entries[joined, SAMPLE], joined)
    return True


def _new_search(n: int) -> Search:
    """Arrays for n sinks. All sinks start as settled at distance zero, for the first `_wake`."""
    return Search(
        np.empty(n),
        np.empty(n),
        np.empty(n, np.int64),
        np.arange(n),
        np.zeros(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )


@compiled_entry
def push_excess(
    cost, plan, idle, graph, search, fallen, g, excess, first_gap, floor, lump, max_steps
):
    """Push the excess of every sink along shortest paths to sinks with room.

    The first call wakes the samples whose gap to their second best sink is at most `first_gap`.
    Each search lowers the potentials of the sinks it settled, so that moves along its path cost
    nothing and no sample is better placed in another sink: `g` and `plan` stay optimal for each
    other. Sinks whose excess is between -`floor` and `floor` count as balanced. Returns the status.
    """
    n, steps = len(g), 0
    is_woken = idle.woken_gap[0] >= 0.0  # by an earlier call
    for source in range(n):
        while excess[source] > floor:
            if steps >= max_steps:
                return TOO_MANY_STEPS
            sink, length, count = NONE, first_gap, n
            if is_woken:
                sink, length, count = _search(cost, plan, graph, g, excess, floor, source, search)
            # There is one call of `_wake` alone, since numba compiles it into this function.
            any_raised = _wake(cost, plan, graph, idle, fallen, search, length, count)
            if any_raised or not is_woken:
                is_woken = True
                continue
            if sink == NONE:
                break  # no other sink has room for more than `floor` units
            for k in range(count):
                fall = length - search.length[k]
                g[search.settled[k]] -= fall
                fallen[search.settled[k]] += fall
            if not _augment(cost, plan, graph, excess, source, sink, search, lump):
                return OUT_OF_ENTRIES
            steps += 1
    return DONE


def balance(
    cost: NDArray[np.float64],
    plan: LinkedPlan,
    idle: Idle,
    first_gap: float,
    g: NDArray[np.float64],
    excess: NDArray[np.int64],
    floor: int,
    mean_units: int,
    max_steps: int,
) -> int:
    """Balance all sinks, and return the status.

    Samples whose gap to their second best sink is at most `first_gap` are woken before the first
    search. When samples weigh many units, a first pass moves mostly whole samples until no sink is
    off by more than half a sample, and only the second pass splits samples.
    """
    graph, search, fallen = new_graph(len(g)), _new_search(len(g)), np.zeros(len(g))
    passes = [(2 * mean_units, mean_units // 2)] if mean_units > 1 else []
    for lump, tol in [*passes, (0, floor)]:
        status = push_excess(
            cost, plan, idle, graph, search, fallen, g, excess, first_gap, tol, lump, max_steps
        )
        if status != DONE:
            return int(status)
    return DONE
