"""Compiled dual side of the small-support solver: shortest augmenting paths between sinks.

Successive shortest paths on the graph of `graph`: each search from an over-full sink lowers the
potentials of the sinks it settles, so that its path becomes tight while no sample prefers another
sink. Potentials only fall, and only relative to sinks with room, so samples far from any border
stay idle.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.cells import NONE, link, move
from fedwad.ot._small.compiled import entry, inner, inner_scan
from fedwad.ot._small.graph import fill, new_graph, offer, refresh

DONE, TOO_MANY_STEPS, OUT_OF_CELLS = 0, 1, 2


class Search(NamedTuple):
    """Scratch of one Dijkstra search. Settled sinks have `price` -inf, which makes every edge into
    them infinite, and `dist` inf: the loops over all sinks then need no mask. Their true values are
    kept in the order of settling."""

    dist: NDArray[np.float64]  # (S,) tentative distance of open sinks
    price: NDArray[np.float64]  # (S,) g at open sinks
    parent: NDArray[np.int64]  # (S,)
    settled: NDArray[np.int64]  # (S,) sinks in the order of settling
    length: NDArray[np.float64]  # (S,) distances in the order of settling
    moved: NDArray[np.int64]  # (S,) cells to move along the path, last first
    target: NDArray[np.int64]  # (S,) and where to


@inner
def least(values):
    """The minimum, as four running minima, which compiles to vector instructions."""
    a = b = c = d = np.inf
    whole = len(values) - len(values) % 4
    for k in range(0, whole, 4):
        a, b = min(a, values[k]), min(b, values[k + 1])
        c, d = min(c, values[k + 2]), min(d, values[k + 3])
    for k in range(whole, len(values)):
        a = min(a, values[k])
    return min(min(a, b), min(c, d))


@inner
def first_at(values, value):
    """The first index with that value; it must occur."""
    k = 0
    while values[k] != value:
        k += 1
    return k


@inner_scan
def _relax(shift, potential, s, length, search):
    """Relax all edges out of sink s, which has the given potential and was settled at `length`."""
    dist, price, parent = search.dist, search.price, search.parent
    base = potential + length
    for r in range(len(price)):
        through = shift[r] + (base - price[r])
        through = max(length, through)  # rounding can make an edge barely negative
        better = through < dist[r]
        dist[r] = through if better else dist[r]
        parent[r] = s if better else parent[r]


@inner
def _reroute(graph, g, search, count, r):
    """Recompute dist[r] over the settled sinks, after an edge into r proved longer than its
    bound."""
    search.dist[r] = np.inf
    for k in range(count):
        s, length = search.settled[k], search.length[k]
        through = max(graph.shift[s, r] + (g[s] + length - g[r]), length)
        if through < search.dist[r]:
            search.dist[r] = through
            search.parent[r] = s


@inner
def _search(cost, plan, graph, g, excess, floor, source, search):
    """Dijkstra from `source` until a sink with room is settled.

    Returns that sink (NONE: none can be reached), its distance and the number of sinks settled
    before it.
    """
    for k in range(len(g)):  # array assignments take seconds to compile
        search.dist[k], search.price[k] = np.inf, g[k]
    sink, length, count = source, 0.0, 0
    while excess[sink] >= -floor:
        search.settled[count] = sink
        search.length[count] = length
        search.dist[sink] = np.inf
        search.price[sink] = -np.inf
        count += 1
        if not graph.filled[sink]:
            fill(cost, plan, graph, sink)
        _relax(graph.shift[sink], g[sink], sink, length, search)
        while True:
            length = least(search.dist)
            if length == np.inf:
                return NONE, length, count
            sink = first_at(search.dist, length)
            if not refresh(cost, plan, graph, search.parent[sink], sink):
                break
            _reroute(graph, g, search, count, sink)
    return sink, length, count


@inner
def _wake(cost, plan, graph, idle, s, max_fall):
    """Put the idle members of s that prefer s by at most `max_fall` on its member list."""
    k, stop = idle.start[s], idle.stop[s]
    while k < stop:
        if idle.gap[k] > max_fall:
            k += 1
            continue
        sample = idle.member[k]
        link(plan, sample, s)  # an idle sample has just its first cell, of the same number
        offer(cost, graph, s, sample, sample)
        stop -= 1
        idle.member[k], idle.gap[k] = idle.member[stop], idle.gap[stop]
    idle.stop[s] = stop
    idle.max_fall[s] = max_fall if stop > idle.start[s] else np.inf


@inner
def _wake_passed(cost, plan, graph, idle, fallen, search, length, count):
    """Wake idle samples that the pending fall of the potentials may concern; False if there are
    none.

    The fall is not final: it shrinks if woken samples offer shorter paths, and is infinite if there
    was no path. Therefore `max_fall` grows in steps: small enough to wake few samples in vain,
    large enough to be few.
    """
    woken = False
    for k in range(count):
        s = search.settled[k]
        max_fall, fall = idle.max_fall[s], fallen[s] + (length - search.length[k])
        if fall > max_fall:
            step = min(max(fall, 1.5 * max_fall), 4.0 * max_fall) if max_fall > 0.0 else fall
            _wake(cost, plan, graph, idle, s, step)
            woken = True
    return woken


@inner
def _trace(plan, graph, source, sink, search):
    """List the moves along the path found, last first; their number.

    Two moves of the same sample in a row become one. They cannot be better than that, but rounding
    can make them seem so, and then a tiny cell in the middle would hold up a large amount.
    """
    count, r = 0, sink
    while r != source:
        s = search.parent[r]
        k = graph.cell[s, r]
        if count > 0 and plan.cells[search.moved[count - 1]].sample == plan.cells[k].sample:
            search.moved[count - 1] = k
        else:
            search.moved[count], search.target[count] = k, r
            count += 1
        r = s
    return count


@inner
def _augment(cost, plan, graph, excess, source, sink, search, lump):
    """Move units along the path found; False when the cells are used up.

    `lump` = 0 moves as much as fits the whole path. Otherwise each move has its own amount, a whole
    cell or `lump` units of a large one: that leaves small imbalances on the way, but splits few
    samples.
    """
    amount = min(excess[source], -excess[sink])
    count = _trace(plan, graph, source, sink, search)
    for k in search.moved[:count]:
        amount = min(amount, plan.cells[k].units)
    for step in range(count):
        k, r = search.moved[step], search.target[step]
        if lump > 0:
            amount = min(lump, plan.cells[k].units)
        excess[plan.cells[k].sink] -= amount
        excess[r] += amount
        ok, joined = move(plan, k, r, amount)
        if not ok:
            return False
        if joined != NONE:
            offer(cost, graph, r, plan.cells[joined].sample, joined)
    return True


@inner
def _new_search(n):
    """Scratch for n sinks."""
    return Search(
        np.empty(n),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )


@inner
def drain(cost, plan, idle, graph, fallen, g, excess, floor, lump, max_steps):
    """Push the excess of every sink along shortest paths to sinks with room.

    Each search lowers the potentials of the sinks it settled so that its path becomes tight and no
    sample prefers another sink: `g` and `plan` stay optimal for each other. Sinks whose excess is
    within `floor` count as balanced. Returns (status, number of augmentations).
    """
    n = len(g)
    search, steps = _new_search(n), 0
    for source in range(n):
        while excess[source] > floor:
            if steps >= max_steps:
                return TOO_MANY_STEPS, steps
            sink, length, count = _search(cost, plan, graph, g, excess, floor, source, search)
            if _wake_passed(cost, plan, graph, idle, fallen, search, length, count):
                continue
            if sink == NONE:
                break  # the room left elsewhere is within the floor
            for k in range(count):
                fall = length - search.length[k]
                g[search.settled[k]] -= fall
                fallen[search.settled[k]] += fall
            if not _augment(cost, plan, graph, excess, source, sink, search, lump):
                return OUT_OF_CELLS, steps
            steps += 1
    return DONE, steps


@entry
def balance(cost, plan, idle, max_fall, g, excess, floor, mean_units, max_steps):
    """Balance all sinks. At first, samples that prefer their sink by at most `max_fall` are awake.

    When samples weigh many units, a first pass moves whole samples until no sink is off by more
    than half a sample, and only the second pass splits samples. Returns (status, number of
    augmentations).
    """
    n_sinks = len(g)
    graph, fallen, steps = new_graph(n_sinks), np.zeros(n_sinks), 0
    for s in range(n_sinks):
        _wake(cost, plan, graph, idle, s, max_fall)
    passes = ((2 * mean_units, mean_units // 2), (0, floor))
    for lump, tol in passes:  # one call, so that it is compiled once
        if lump > 2 or lump == 0:
            status, more = drain(cost, plan, idle, graph, fallen, g, excess, tol, lump, max_steps)
            steps += more
            if status != DONE:
                return status, steps
    return DONE, steps
