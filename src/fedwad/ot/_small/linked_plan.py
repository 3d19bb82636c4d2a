"""Compiled primal side of the small-support solver: the plan, as linked lists of its entries.

Mass is counted in integer units, so every sum of masses is exact and no loop can stall on rounding.
An *entry* of the plan says how many units of one sample lie in one sink. Two kinds of linked lists
thread the entries: the entries of a sink (doubly linked, since they come and go) and the entries of
a sample (nearly always one, because an optimal plan splits fewer samples than there are sinks).

A sample is best placed in the sink s with the smallest c_is - g_s, with costs c and potentials g.
Most samples are placed there with a wide gap to the second best sink, and never move. They stay
*idle*, off the lists of the sinks, which the searches scan. They are *woken*, which puts their
entries on these lists, before the potential of their sink falls by as much as their gap.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.compiled import compiled_inner

NONE = -1
_BLOCK_ROWS = 1 << 13  # entries that are written at a time, so that they fit the cache

# Columns of the table of entries. SINK is NONE in unused rows. NEXT_IN_SINK links unused rows too.
SAMPLE, SINK, UNITS, NEXT_IN_SINK, PREVIOUS_IN_SINK, NEXT_OF_SAMPLE = range(6)


class LinkedPlan(NamedTuple):
    """The entries of a plan and the heads of their lists, which are row numbers of `entries`."""

    entries: NDArray[np.int64]  # (rows, 6); row i < n starts as the one entry of sample i
    first_in_sink: NDArray[np.int64]  # (S,)
    first_of_sample: NDArray[np.int64]  # (n,)
    first_unused: NDArray[np.int64]  # (1,)


class Idle(NamedTuple):
    """Samples `sample[start[s]:stop[s]]` are idle in sink s.

    At first, c_is - g_s of the second best sink exceeds that of s by `gap`. Samples of s with a gap
    of at most `woken_gap[s]` have been woken, so no idle sample leaves s until its potential has
    fallen by more. `woken_gap[s]` is -1 before any sample is woken, and infinite when all are.
    """

    sample: NDArray[np.int64]
    gap: NDArray[np.float64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    woken_gap: NDArray[np.float64]


def new_plan(
    sink_of: NDArray[np.int64], units: NDArray[np.int64], gap: NDArray[np.float64], n_sinks: int
) -> tuple[LinkedPlan, Idle]:
    """One entry per sample, with all of its units in the sink `sink_of`; all samples are idle."""
    n = len(sink_of)
    plan = LinkedPlan(
        np.empty((n + 8 * n_sinks + 1024, 6), np.int64),
        np.full(n_sinks, NONE),
        np.arange(n),
        np.full(1, n),
    )
    _write_entries(plan.entries, sink_of, units)
    stop = np.cumsum(np.bincount(sink_of, minlength=n_sinks))
    start = np.concatenate(([0], stop[:-1]))
    # NumPy's stable sort of 16-bit integers is a radix sort, which takes linear time.
    keys = sink_of.astype(np.int16) if n_sinks <= np.iinfo(np.int16).max else sink_of
    by_sink = keys.argsort(kind="stable")
    return plan, Idle(by_sink, gap[by_sink], start, stop, np.full(n_sinks, -1.0))


def _write_entries(
    entries: NDArray[np.int64], sink_of: NDArray[np.int64], units: NDArray[np.int64]
) -> None:
    """Write the entries of samples, and the list of unused rows after them."""
    n = len(sink_of)
    entries[n:] = NONE
    entries[n:, UNITS] = 0
    for start in range(0, n, _BLOCK_ROWS):
        block = slice(start, min(start + _BLOCK_ROWS, n))
        entries[block, SAMPLE] = np.arange(block.start, block.stop)
        entries[block, SINK], entries[block, UNITS] = sink_of[block], units[block]
        for link_column in (NEXT_IN_SINK, PREVIOUS_IN_SINK, NEXT_OF_SAMPLE):
            entries[block, link_column] = NONE
    entries[n:-1, NEXT_IN_SINK] = np.arange(n + 1, len(entries))


@compiled_inner
def link(plan, k, sink):
    """Put entry k on the list of `sink`."""
    entries, head = plan.entries, plan.first_in_sink[sink]
    entries[k, SINK] = sink
    entries[k, NEXT_IN_SINK] = head
    entries[k, PREVIOUS_IN_SINK] = NONE
    if head != NONE:
        entries[head, PREVIOUS_IN_SINK] = k
    plan.first_in_sink[sink] = k


@compiled_inner
def _unlink(plan, k):
    """Take entry k off the list of its sink."""
    entries = plan.entries
    after, before = entries[k, NEXT_IN_SINK], entries[k, PREVIOUS_IN_SINK]
    if before == NONE:
        plan.first_in_sink[entries[k, SINK]] = after
    else:
        entries[before, NEXT_IN_SINK] = after
    if after != NONE:
        entries[after, PREVIOUS_IN_SINK] = before


@compiled_inner
def _retire(plan, k):
    """Take entry k, which is empty and unlinked, off the list of its sample; row k is unused."""
    entries, first_of_sample = plan.entries, plan.first_of_sample
    sample, after = entries[k, SAMPLE], entries[k, NEXT_OF_SAMPLE]
    before = first_of_sample[sample]
    if before == k:
        first_of_sample[sample] = after
    else:
        while entries[before, NEXT_OF_SAMPLE] != k:
            before = entries[before, NEXT_OF_SAMPLE]
        entries[before, NEXT_OF_SAMPLE] = after
    entries[k, UNITS] = 0
    entries[k, SINK] = NONE
    entries[k, NEXT_IN_SINK] = plan.first_unused[0]
    plan.first_unused[0] = k


@compiled_inner
def _split(plan, k, amount):
    """Move `amount` units of entry k to a new entry; return it, NONE if no row is unused."""
    entries, new = plan.entries, plan.first_unused[0]
    if new != NONE:
        plan.first_unused[0] = entries[new, NEXT_IN_SINK]
        sample = entries[k, SAMPLE]
        entries[k, UNITS] -= amount
        entries[new, SAMPLE] = sample
        entries[new, UNITS] = amount
        entries[new, NEXT_OF_SAMPLE] = plan.first_of_sample[sample]
        plan.first_of_sample[sample] = new
    return new


@compiled_inner
def move(plan, k, sink, amount):
    """Move `amount` units of entry k to `sink`.

    Returns whether there was room in the table of entries, and the entry that joined the list of
    `sink`: NONE if there was no room, or if the sample had an entry in `sink` already.
    """
    entries = plan.entries
    target = plan.first_of_sample[entries[k, SAMPLE]]
    while target != NONE and entries[target, SINK] != sink:
        target = entries[target, NEXT_OF_SAMPLE]
    moves_all = amount == entries[k, UNITS]
    if moves_all:
        _unlink(plan, k)
    if target != NONE:
        entries[target, UNITS] += amount
        entries[k, UNITS] -= amount
        if moves_all:
            _retire(plan, k)
        return True, NONE
    joined = k if moves_all else _split(plan, k, amount)
    if joined != NONE:
        link(plan, joined, sink)
    return joined != NONE, joined


def collect(plan: LinkedPlan) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The plan as (sample, sink, units), sorted by sample."""
    entries = plan.entries
    used = np.flatnonzero(entries[:, UNITS])
    samples = entries[used, SAMPLE]
    order = samples.argsort(kind="stable")  # nearly sorted already
    used, samples = used[order], samples[order]
    split = np.unique(samples[1:][samples[1:] == samples[:-1]])
    for sample, position in zip(split.tolist(), samples.searchsorted(split).tolist(), strict=True):
        k = plan.first_of_sample[sample]  # the entries of a split sample in the order of its list
        while k != NONE:
            if entries[k, UNITS] > 0:
                used[position] = k
                position += 1
            k = entries[k, NEXT_OF_SAMPLE]
    return samples, entries[used, SINK], entries[used, UNITS]
