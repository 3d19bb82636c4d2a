"""Compiled auction: potentials that are optimal up to a tolerance, from scratch.

Samples bid for room in sinks, at prices p. Sample i bids for the sink s that minimises c_is + p_s,
up to the price at which it would be indifferent to its second choice, plus eps. A sink keeps its
highest bids as far as it has room, and its price is the lowest bid it keeps. When all samples are
placed, g = -p is optimal up to eps per sample (Bertsekas). This is enough for the exact solver to
start from, so the number of bids is limited and the capacities of sinks are approximate.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.cells import NONE
from fedwad.ot._small.compiled import entry, inner
from fedwad.ot._small.paths import first_at, least

WIDE = 32  # sinks from which on it pays to pass over a row several times in vector instructions


class Bids(NamedTuple):
    """The bids that each sink keeps: a pairing heap of samples, with the lowest bid on top."""

    price: NDArray[np.float64]  # (n,) price that each sample bids
    child: NDArray[np.int64]  # (n,) first child in the heap
    sibling: NDArray[np.int64]  # (n,) next child of the same parent
    lowest: NDArray[np.int64]  # (S,) sample with the lowest bid of each sink, the heap's root
    kept: NDArray[np.float64]  # (S,) mass of the bids kept


@inner
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


@inner
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


@inner
def _two_best_narrow(row, g):
    """`two_best` in one pass, which is faster for few sinks."""
    best = second = np.inf
    arg = 0
    for s in range(len(g)):
        value = row[s] - g[s]
        better = value < best
        worse = best if better else value
        second = min(second, worse)
        best = value if better else best
        arg = s if better else arg
    return arg, best, second


@inner
def two_best(row, g, scratch):
    """The sink minimising c_is - g_s, the minimum, and the minimum over the other sinks."""
    if len(g) < WIDE:
        return _two_best_narrow(row, g)
    for s in range(len(g)):
        scratch[s] = row[s] - g[s]
    best = least(scratch)
    arg = first_at(scratch, best)
    scratch[arg] = np.inf
    return arg, best, least(scratch)


def auction(
    cost: NDArray[np.float64],
    weight: NDArray[np.float64],
    room: NDArray[np.float64],
    g: NDArray[np.float64],
    eps: float,
    max_bids: int,
) -> None:
    """Raise the prices -g of the sinks until all samples are placed or `max_bids` bids are made."""
    n, n_sinks = cost.shape
    bids = Bids(
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.full(n_sinks, NONE),
        np.zeros(n_sinks),
    )
    _bid(cost, weight, room, g, eps, max_bids, bids, np.arange(n), np.empty(n_sinks))


@entry
def _bid(cost, weight, room, g, eps, max_bids, bids, waiting, scratch):
    """The auction; waiting samples bid one by one, and samples that are outbid wait again."""
    n_waiting, count = len(waiting), 0
    while n_waiting > 0 and count < max_bids:
        count += 1
        n_waiting -= 1
        i = waiting[n_waiting]
        s, best, second = two_best(cost[i], g, scratch)
        bids.price[i] = second - best + eps - g[s]
        bids.child[i] = NONE
        bids.lowest[s] = _meld(bids, bids.lowest[s], i)
        bids.kept[s] += weight[i]
        j = bids.lowest[s]
        while j != NONE and bids.kept[s] - weight[j] >= room[s]:
            g[s] = -bids.price[j]
            bids.lowest[s] = _without_root(bids, j)
            bids.kept[s] -= weight[j]
            waiting[n_waiting] = j
            n_waiting += 1
            j = bids.lowest[s]
        if j != NONE and bids.kept[s] >= room[s]:
            g[s] = -bids.price[j]
