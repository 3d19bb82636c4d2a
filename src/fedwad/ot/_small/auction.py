"""Compiled auction: potentials that are optimal up to a tolerance.

Sinks have prices p. Sample i bids for the sink s that minimises c_is + p_s. It bids the price at
which it would be indifferent to its second choice, plus eps. A sink keeps the highest bids that
fill its capacity. Once it is full, its price is the lowest bid that it keeps. When all samples are
placed, g = -p is optimal up to eps per sample (Bertsekas). The exact solver only starts from these
potentials. So the number of bids is limited, and a sink may be over-full by part of one sample.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.compiled import compiled_entry, compiled_inner
from fedwad.ot._small.linked_plan import NONE
from fedwad.ot._small.paths import first_at, least

# From this number of sinks on, several passes in vector instructions are faster than one without.
_VECTOR_SINKS = 32


class Bids(NamedTuple):
    """The bids that each sink keeps: one pairing heap of samples per sink, lowest bid on top."""

    price: NDArray[np.float64]  # (n,) price that each sample bids
    child: NDArray[np.int64]  # (n,) first child in the heap
    sibling: NDArray[np.int64]  # (n,) next child of the same parent
    lowest: NDArray[np.int64]  # (S,) sample with the lowest bid of each sink, the heap's root
    kept_mass: NDArray[np.float64]  # (S,) mass of the samples whose bids a sink keeps


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


@compiled_inner
def two_best(row, g, scratch):
    """The sink minimising c_is - g_s, the minimum, and the minimum over the other sinks."""
    if len(g) < _VECTOR_SINKS:
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
    capacity: NDArray[np.float64],
    g: NDArray[np.float64],
    eps: float,
    max_bids: int,
) -> None:
    """Raise the prices -g of the sinks until all samples are placed or `max_bids` bids are made.

    The auction starts from the potentials `g` and overwrites them.
    """
    n, n_sinks = cost.shape
    bids = Bids(
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.full(n_sinks, NONE),
        np.zeros(n_sinks),
    )
    _run_auction(cost, weight, capacity, g, eps, max_bids, bids, np.arange(n), np.empty(n_sinks))


@compiled_entry
def _run_auction(cost, weight, capacity, g, eps, max_bids, bids, waiting, scratch):
    """Let the waiting samples bid one by one; samples that are outbid wait again."""
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
