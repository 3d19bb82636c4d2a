"""The small-support solver on one set of samples; its start from nested subsamples and auctions.

A *level* is the problem on one of the nested subsamples, or on all samples. Each level starts from
the potentials of the smaller one before it. Samples i send units of mass to sinks s, the points of
the support, at costs c_is; f_i and g_s are potentials of samples and sinks. Most of the work is in
the auctions and in the compiled module `paths`.

In an auction, sinks have prices p. Sample i bids for the sink s that minimises c_is + p_s. It bids
the price at which it would be indifferent to its second choice, plus eps. A sink keeps the highest
bids that fill its capacity. Once it is full, its price is the lowest bid that it keeps. When all
samples are placed, g = -p is optimal up to eps per sample (Bertsekas). The exact solver only starts
from these potentials. So the number of bids is limited, and a sink may be over-full by part of one
sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedwad.transport._small.paths import (
    DONE,
    NONE,
    LinkedPlan,
    Search,
    SinkGraph,
    new_plan,
    push_excess,
)
from fedwad.transport.compiled import compiled_entry, compiled_inner, first_at, least
from fedwad.transport.measures import Floats, Indices

TOO_FAR = -1  # status besides those in `paths`: the starting potentials were too far from optimal


@compiled_entry
def _assign(cost, units, g, sink_of, gap, excess, scratch):
    """Assign each sample to a sink that minimises c_is - g_s.

    Writes the sink of each sample to `sink_of`, and to `gap` by how much c_is - g_s of the second
    best sink is larger. Adds the units of each sink to `excess`, which starts as minus the
    capacities.
    """
    for i in range(len(sink_of)):
        s, best, second = two_best(cost[i], g, scratch)
        sink_of[i] = s
        gap[i] = second - best
        excess[s] += units[i]
    _spread_ties(cost, units, g, sink_of, gap, excess)


@compiled_inner
def _spread_ties(cost, units, g, sink_of, gap, excess):
    """Move samples from over-full sinks to sinks with room that are as good up to rounding.

    Without this, duplicate samples would all choose the same sink and leave it one by one.
    """
    for i in range(len(sink_of)):
        s = sink_of[i]
        tol = 1e-15 * (abs(cost[i, s]) + abs(g[s]))
        if gap[i] > tol or excess[s] < units[i]:
            continue
        limit = cost[i, s] - g[s] + tol
        for r in range(len(g)):
            if cost[i, r] - g[r] <= limit and excess[r] + units[i] <= 0:
                excess[s] -= units[i]
                excess[r] += units[i]
                sink_of[i] = r
                break


def solve_level(
    cost: Floats,
    units: Indices,
    capacity: Indices,
    g: Floats,
    floor: int,
    far: float = np.inf,
    steps: int = 50,
) -> tuple[int, LinkedPlan | None]:
    """Status and plan, which is optimal if the status is DONE.

    The solver starts from the potentials `g`, and overwrites them with optimal ones. Sinks whose
    excess is at most `floor` units count as balanced. The status is TOO_FAR, without a plan, if
    more than the fraction `far` of all units would have to move. It gives up after so many `steps`
    per sample and sink, ten times the most ever needed.
    """
    n, n_sinks = cost.shape
    sink_of, gap, excess = np.empty(n, np.int64), np.empty(n), -capacity
    _assign(cost, units, g, sink_of, gap, excess, np.empty(n_sinks))
    total, moving = int(capacity.sum()), int(np.maximum(excess, 0).sum())
    if moving > far * total:
        return TOO_FAR, None
    mean_units = max(1, total // n)
    # Searches consider only samples with a small gap; the others are idle. A few times as many
    # samples as have to move are nearly always enough.
    searched = 2 * (moving // mean_units) + 4 * n_sinks
    first_gap = float(np.partition(gap, searched)[searched]) if searched < n else np.inf
    plan, idle = new_plan(sink_of, units, gap, n_sinks)
    shape, fallen = (n_sinks, n_sinks), np.zeros(n_sinks)
    graph = SinkGraph(np.empty(shape), np.empty(shape, np.int32), np.zeros(n_sinks, np.bool_))
    # All sinks start as settled at distance zero, so that the samples whose gap to their second
    # best sink is at most `first_gap` are woken before the first search.
    dist, open_g, length = np.zeros((3, n_sinks))
    parent, moved, target = np.empty((3, n_sinks), np.int64)
    search = Search(dist, open_g, parent, np.arange(n_sinks), length, moved, target)
    max_steps = steps * (n + n_sinks)
    # When samples weigh many units, a first pass moves mostly whole samples until no sink is off by
    # more than half a sample, and only the second pass splits samples.
    passes = [(2 * mean_units, mean_units // 2)] if mean_units > 1 else []
    for lump, tol in [*passes, (0, floor)]:
        status = push_excess(
            cost, plan, idle, graph, search, fallen, g, excess, first_gap, tol, lump, max_steps
        )
        if status != DONE:
            break
    return int(status), plan


def cold_potentials(
    cost: Floats, weight: Floats, capacity: Floats, growth: int = 4, coarsest: int = 4
) -> Floats:
    """Starting potentials where no similar problem gives any.

    Auctions give rough potentials for the smallest subsample. Then each subsample is solved
    exactly, starting from the potentials of the one before. Each is `growth` times as large as the
    one before. Potentials of fewer than `coarsest` samples per sink are too far from optimal.
    """
    n, n_sinks = cost.shape
    sizes = [n]
    while sizes[-1] // growth >= coarsest * n_sinks:
        sizes.append(sizes[-1] // growth)
    g = np.zeros(n_sinks)
    if len(sizes) == 1:
        _auctions(cost, weight, capacity, g)
    cumulative = np.cumsum(weight)
    for m in sizes[:0:-1]:
        part = cost[_subsample(cumulative, m)]
        if m == sizes[-1]:
            _auctions(part, np.ones(m), capacity, g)
        # Integers in proportion to the capacities that sum to m.
        ends = np.rint(np.cumsum(capacity) * (m / capacity.sum())).astype(np.int64)
        ends[-1] = m
        solve_level(part, np.ones(m, np.int64), np.diff(ends, prepend=0), g, 0)
    return g


def _subsample(cumulative: Floats, m: int) -> Indices:
    """Row numbers of m samples: the total mass is cut into m equal parts, and each gives one.

    `cumulative` has the cumulative weights of all samples.
    """
    # The position in each part is random, as equal steps could meet a period in the order of rows.
    positions = np.arange(m) + np.random.default_rng(m).random(m)
    rows = np.searchsorted(cumulative, positions * (cumulative[-1] / m))
    return np.asarray(np.minimum(rows, len(cumulative) - 1))


def _auctions(
    cost: Floats,
    weight: Floats,
    capacity: Floats,
    g: Floats,
    shrink: float = 5.0,
    finest: float = 0.07,
    bids: int = 6,
    fewest: int = 32,
) -> None:
    """Improve `g` by auctions of falling tolerance.

    The first tolerance is about the spread of the costs, and each is `shrink` times smaller than
    the one before. The last is the fraction `finest` of the mean gap between the costs of a
    sample's two best sinks. After `bids` per sample `solve_level` is faster than more of them.
    With fewer than `fewest` sinks `g` stays as it is: the smallest subsample then has at most some
    hundred rows, so `solve_level` needs no good start.
    """
    n, n_sinks = cost.shape
    if n_sinks < fewest:
        return
    some_rows = cost[:: max(1, n // 256)]
    nearest = np.partition(some_rows, 1, axis=1)
    finest *= float((nearest[:, 1] - nearest[:, 0]).mean())
    tol = float(np.abs(some_rows - some_rows.mean(axis=1, keepdims=True)).mean()) / 4.0
    # The factor below 1 lets samples fit in spite of rounding.
    capacity = capacity * (weight.sum() / capacity.sum()) * (1.0 - 1e-9)
    while finest > 0.0 and tol >= finest:
        child, sibling = np.empty((2, n), np.int64)
        heaps = Bids(np.empty(n), child, sibling, np.full(n_sinks, NONE), np.zeros(n_sinks))
        waiting, scratch = np.arange(n), np.empty(n_sinks)
        _run_auction(cost, weight, capacity, g, tol, bids * n, heaps, waiting, scratch)
        tol /= shrink


class Bids(NamedTuple):
    """The bids that each sink keeps: one pairing heap of samples per sink, lowest bid on top."""

    price: Floats  # (n,) price that each sample bids
    child: Indices  # (n,) first child in the heap
    sibling: Indices  # (n,) next child of the same parent
    lowest: Indices  # (S,) sample with the lowest bid of each sink, the heap's root
    kept_mass: Floats  # (S,) mass of the samples whose bids a sink keeps


@compiled_inner
def _meld(bids, i, j):
    """Join two heaps, given by their roots; return the new root."""
    if i == NONE:
        return j
    if j == NONE:
        return i
    if bids.price[j] < bids.price[i]:
        i, j = j, i
    bids.sibling[j] = bids.child[i]
    bids.child[i] = j
    return i


@compiled_inner
def _without_root(bids, root):
    """The heap without its root: meld the children in pairs, then the pairs from last to first."""
    pairs, i = NONE, bids.child[root]
    while i != NONE:
        j = bids.sibling[i]
        after = NONE if j == NONE else bids.sibling[j]
        pair = _meld(bids, i, j)
        bids.sibling[pair] = pairs
        pairs, i = pair, after
    heap = pairs
    while pairs != NONE:
        after = bids.sibling[pairs]
        if heap != pairs:
            heap = _meld(bids, heap, pairs)
        pairs = after
    return heap


@compiled_inner
def two_best(row, g, scratch):
    """The sink minimising c_is - g_s, the minimum, and the minimum over the other sinks."""
    for s in range(len(g)):
        scratch[s] = row[s] - g[s]
    best = least(scratch)
    arg = first_at(scratch, best)
    scratch[arg] = np.inf
    return arg, best, least(scratch)


@compiled_entry
def _run_auction(cost, weight, capacity, g, eps, max_bids, bids, waiting, scratch):
    """Let the waiting samples bid one by one; samples that are outbid wait again.

    Bids raise the prices -g of the sinks until all samples are placed or `max_bids` are made.
    """
    n_waiting, count = len(waiting), 0
    while n_waiting > 0 and count < max_bids:
        count += 1
        n_waiting -= 1
        i = waiting[n_waiting]
        s, best, second = two_best(cost[i], g, scratch)
        bids.price[i] = second - best + eps - g[s]
        bids.child[i] = NONE
        bids.lowest[s] = _meld(bids, bids.lowest[s], i)
        bids.kept_mass[s] += weight[i]
        j = bids.lowest[s]
        while j != NONE and bids.kept_mass[s] - weight[j] >= capacity[s]:
            g[s] = -bids.price[j]
            bids.lowest[s] = _without_root(bids, j)
            bids.kept_mass[s] -= weight[j]
            waiting[n_waiting] = j
            n_waiting += 1
            j = bids.lowest[s]
        if j != NONE and bids.kept_mass[s] >= capacity[s]:
            g[s] = -bids.price[j]
