"""Compiled dual side of the small-support solver: shortest augmenting paths between sinks.

Successive shortest paths on the graph of `graph`: each search from an over-full sink lowers the
potentials of the sinks it settles, so that moves along its path cost nothing while no sample
prefers another sink. Potentials only fall, and only relative to sinks with room, so samples that
prefer their sink by far stay idle.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.cells import NONE, SAMPLE, SINK, UNITS, CellPlan, Idle, link, move
from fedwad.ot._small.compiled import entry, inner, inner_scan
from fedwad.ot._small.graph import add_member, fill_row, new_graph, refresh_edge

DONE, TOO_MANY_STEPS, OUT_OF_CELLS = 0, 1, 2


class Search(NamedTuple):
    """Arrays of one Dijkstra search. Settled sinks have `price` -inf, which makes every edge into
    them infinite, and `dist` inf, so loops over all sinks need no mask. `settled` and `length` keep
    them and their distances."""

    dist: NDArray[np.float64]  # (S,) tentative distance of open sinks
    price: NDArray[np.float64]  # (S,) g at open sinks
    parent: NDArray[np.int64]  # (S,)
    settled: NDArray[np.int64]  # (S,) sinks in the order of settling
    length: NDArray[np.float64]  # (S,) distances in the order of settling
    moved: NDArray[np.int64]  # (S,) cells to move along the path, last first
    target: NDArray[np.int64]  # (S,) the sinks that these cells move to


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
            fill_row(cost, plan, graph, sink)
        _relax(graph.shift[sink], g[sink], sink, length, search)
        while True:
            length = least(search.dist)
            if length == np.inf:
                return NONE, length, count
            sink = first_at(search.dist, length)
            if not refresh_edge(cost, plan, graph, search.parent[sink], sink):
                break
            # An edge into the sink is longer than its bound was: its distance over settled sinks.
            search.dist[sink] = np.inf
            for k in range(count):
                s, before = search.settled[k], search.length[k]
                through = max(graph.shift[s, sink] + (g[s] + before - g[sink]), before)
                if through < search.dist[sink]:
                    search.dist[sink] = through
                    search.parent[sink] = s
    return sink, length, count


@inner
def _wake(cost, plan, graph, idle, fallen, search, length, count):
    """Make idle samples members of their sink if it may lose them after the next fall of
    potentials.

    Returns False if there are none.

    The fall is not final: it shrinks if woken samples open shorter paths, and is infinite if there
    was no path. Therefore `max_fall` grows in steps: small enough to wake few samples in vain,
    large enough to be few.
    """
    woken = False
    for settled in range(count):
        s = search.settled[settled]
        max_fall, fall = idle.max_fall[s], fallen[s] + (length - search.length[settled])
        if fall <= max_fall:
            continue
        step = min(max(fall, 1.5 * max_fall), 4.0 * max_fall) if max_fall > 0.0 else fall
        k, stop = idle.start[s], idle.stop[s]
        while k < stop:
            if idle.gap[k] > step:
                k += 1
                continue
            sample = idle.member[k]
            link(plan, sample, s)  # an idle sample has just its first cell, of the same number
            add_member(cost, graph, s, sample, sample)
            stop -= 1
            idle.member[k], idle.gap[k] = idle.member[stop], idle.gap[stop]
        idle.stop[s] = stop
        idle.max_fall[s] = step if stop > idle.start[s] else np.inf
        woken = True
    return woken


@inner
def _augment(cost, plan, graph, excess, source, sink, search, lump):
    """Move units along the path found; False when the cells are used up.

    Two consecutive moves of the same sample become one. Two cannot be cheaper, but rounding can
    make them seem so, and then a tiny cell in between would limit the amount that moves.

    `lump` = 0 moves the same amount along the whole path, as much as possible. Otherwise each move
    has its own amount, a whole cell or `lump` units of a large one. That leaves small imbalances
    but splits few samples.
    """
    cells, moved, target = plan.cells, search.moved, search.target
    count, r = 0, sink
    while r != source:  # the moves, last first
        s = search.parent[r]
        k = graph.cell[s, r]
        if count == 0 or cells[moved[count - 1], SAMPLE] != cells[k, SAMPLE]:
            target[count] = r
            count += 1
        moved[count - 1] = k
        r = s
    amount = min(excess[source], -excess[sink])
    for step in range(count):
        amount = min(amount, cells[moved[step], UNITS])
    for step in range(count):
        k, r = moved[step], target[step]
        if lump > 0:
            amount = min(lump, cells[k, UNITS])
        excess[cells[k, SINK]] -= amount
        excess[r] += amount
        ok, joined = move(plan, k, r, amount)
        if not ok:
            return False
        if joined != NONE:
            add_member(cost, graph, r, cells[joined, SAMPLE], joined)
    return True


def _new_search(n: int) -> Search:
    """Scratch for n sinks. All count as settled at length zero, for the first samples to wake."""
    return Search(
        np.empty(n),
        np.empty(n),
        np.empty(n, np.int64),
        np.arange(n),
        np.zeros(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )


@entry
def push_excess(
    cost, plan, idle, graph, search, fallen, g, excess, max_fall, floor, lump, max_steps
):
    """Push the excess of every sink along shortest paths to sinks with room.

    At first, samples that prefer their sink by at most `max_fall` are woken. Each search lowers the
    potentials of the sinks it settled so that moves along its path cost nothing and no sample
    prefers another sink: `g` and `plan` stay optimal for each other. Sinks whose excess is within
    `floor` count as balanced. Returns the status.
    """
    n, steps = len(g), 0
    awake = idle.max_fall[0] >= 0.0  # by an earlier call
    for source in range(n):
        while excess[source] > floor:
            if steps >= max_steps:
                return TOO_MANY_STEPS
            sink, length, count = NONE, max_fall, n
            if awake:
                sink, length, count = _search(cost, plan, graph, g, excess, floor, source, search)
            woken = _wake(cost, plan, graph, idle, fallen, search, length, count)
            if woken or not awake:  # one call of `_wake`, which is compiled into this function
                awake = True
                continue
            if sink == NONE:
                break  # the room left elsewhere is within the floor
            for k in range(count):
                fall = length - search.length[k]
                g[search.settled[k]] -= fall
                fallen[search.settled[k]] += fall
            if not _augment(cost, plan, graph, excess, source, sink, search, lump):
                return OUT_OF_CELLS
            steps += 1
    return DONE


def balance(
    cost: NDArray[np.float64],
    plan: CellPlan,
    idle: Idle,
    max_fall: float,
    g: NDArray[np.float64],
    excess: NDArray[np.int64],
    floor: int,
    mean_units: int,
    max_steps: int,
) -> int:
    """Balance all sinks, and return the status.

    At first, samples that prefer their sink by at most `max_fall` are awake. When samples weigh
    many units, a first pass moves whole samples until no sink is off by more than half a sample,
    and only the second pass splits samples.
    """
    graph, search, fallen = new_graph(len(g)), _new_search(len(g)), np.zeros(len(g))
    passes = [(2 * mean_units, mean_units // 2)] if mean_units > 1 else []
    for lump, tol in [*passes, (0, floor)]:
        status = push_excess(
            cost, plan, idle, graph, search, fallen, g, excess, max_fall, tol, lump, max_steps
        )
        if status != DONE:
            return int(status)
    return DONE
