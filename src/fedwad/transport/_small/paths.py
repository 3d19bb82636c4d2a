"""Compiled core of the small-support solver: the plan, and shortest paths between its sinks.

The primal side is the plan, as linked lists of its entries. Mass is counted in integer units, so
every sum of masses is exact and no loop can stall on rounding. An *entry* of the plan says how many
units of one sample lie in one sink. Two kinds of linked lists thread the entries: the entries of a
sink (doubly linked, since they come and go) and the entries of a sample (nearly always one, because
an optimal plan splits fewer samples than there are sinks).

A sample is best placed in the sink s with the smallest c_is - g_s, with costs c and potentials g.
Most samples are placed there with a wide gap to the second best sink, and never move. They stay
*idle*, off the lists of the sinks, which the searches scan. They are *woken*, which puts their
entries on these lists, before the potential of their sink falls by as much as their gap.

The graph of the sinks has the cheapest move from every sink to every other. A *member* of a sink is
an entry on its list, for some units of a sample i. To move a unit of it from sink s to sink r
changes its reduced cost from c_is - g_s to c_ir - g_r. So the cheapest move from s to r costs

    shift[s, r] + g_s - g_r,    shift[s, r] = min over members of s of (c_ir - c_is) .

It is >= 0 while every sample lies in a sink that minimises c_is - g_s. The *key* c_ir - c_is does
not depend on g, so `shift` changes only when members come and go.

The dual side is the method of successive shortest paths on this graph. Each search from an
over-full sink lowers the potentials of the sinks it settles. Then moves along its path cost
nothing, and no sample is better placed in another sink. Potentials only fall, and only those of
settled sinks, so samples with a wide gap to their second best sink stay idle. The proof that the
plan at the end is optimal is in contrib/pot/README.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.transport.compiled import (
    compiled_entry,
    compiled_inner,
    compiled_inner_min,
    first_at,
    least,
)
from fedwad.transport.measures import Floats, Indices

NONE = -1

# Columns of the table of entries. SINK is NONE in unused rows. NEXT_IN_SINK links unused rows too.
SAMPLE, SINK, UNITS, NEXT_IN_SINK, PREVIOUS_IN_SINK, NEXT_OF_SAMPLE = range(6)
DONE, TOO_MANY_STEPS, OUT_OF_ENTRIES = 0, 1, 2


class LinkedPlan(NamedTuple):
    """The entries of a plan and the heads of their lists, which are row numbers of `entries`."""

    entries: Indices  # (rows, 6); row i < n starts as the one entry of sample i
    first_in_sink: Indices  # (S,)
    first_of_sample: Indices  # (n,)
    first_unused: Indices  # (1,)


class Idle(NamedTuple):
    """Samples `sample[start[s]:stop[s]]` are idle in sink s.

    At first, c_is - g_s of the second best sink exceeds that of s by `gap`. Samples of s with a gap
    of at most `woken_gap[s]` have been woken, so no idle sample leaves s until its potential has
    fallen by more. `woken_gap[s]` is -1 before any sample is woken, and infinite when all are.
    """

    sample: Indices
    gap: Floats
    start: Indices
    stop: Indices
    woken_gap: Floats


def new_plan(
    sink_of: Indices, units: Indices, gap: Floats, n_sinks: int
) -> tuple[LinkedPlan, Idle]:
    """One entry per sample, with all of its units in the sink `sink_of`; all samples are idle."""
    n = len(sink_of)
    entries = np.full((n + 8 * n_sinks + 1024, 6), NONE, np.int64)
    plan = LinkedPlan(entries, np.full(n_sinks, NONE), np.arange(n), np.full(1, n))
    entries[:n, SAMPLE], entries[:n, SINK] = np.arange(n), sink_of
    entries[:n, UNITS], entries[n:, UNITS] = units, 0
    entries[n:-1, NEXT_IN_SINK] = np.arange(n + 1, len(entries))  # the list of unused rows
    stop = np.cumsum(np.bincount(sink_of, minlength=n_sinks))
    start = np.concatenate(([0], stop[:-1]))
    # NumPy's stable sort of 16-bit integers is a radix sort, which takes linear time.
    keys = sink_of.astype(np.int16) if n_sinks <= np.iinfo(np.int16).max else sink_of
    by_sink = keys.argsort(kind="stable")
    return plan, Idle(by_sink, gap[by_sink], start, stop, np.full(n_sinks, -1.0))


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


def collect(plan: LinkedPlan) -> tuple[Indices, Indices, Indices]:
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


class SinkGraph(NamedTuple):
    """Cheapest moves between sinks; row s is filled when a search first leaves s.

    When a member leaves s, the edges from s that it attained are not repaired: `shift` stays a
    lower bound, and most of these edges are never used again. `refresh_edge` repairs an edge when a
    search is about to use it.
    """

    shift: Floats  # (S, S)
    best_member: NDArray[np.int32]  # (S, S) the member that attains `shift`
    is_filled: NDArray[np.bool_]  # (S,)


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
def add_member(cost, graph, s, sample, member):
    """Update row s of the graph: `member`, an entry of `sample`, has joined s."""
    if graph.is_filled[s]:
        _lower_row(cost, graph, s, sample, member)


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
def refresh_edge(cost, plan, graph, s, r):
    """Make shift[s, r] current; return False if it already was."""
    best, i = graph.best_member[s, r], plan.entries[graph.best_member[s, r], SAMPLE]
    # The row of the entry may now hold another sample.
    if plan.entries[best, SINK] == s and cost[i, r] - cost[i, s] == graph.shift[s, r]:
        return False
    graph.shift[s, r], graph.best_member[s, r] = np.inf, NONE
    k = plan.first_in_sink[s]
    while k != NONE:
        i = plan.entries[k, SAMPLE]
        if cost[i, r] - cost[i, s] < graph.shift[s, r]:
            graph.shift[s, r], graph.best_member[s, r] = cost[i, r] - cost[i, s], k
        k = plan.entries[k, NEXT_IN_SINK]
    return True


class Search(NamedTuple):
    """Arrays of one Dijkstra search.

    An open sink is one that is not settled. Settled sinks have `open_g` -inf, which makes every
    edge into them infinite, and `dist` inf, so loops over all sinks need no mask.
    """

    dist: Floats  # (S,) tentative distance of open sinks
    open_g: Floats  # (S,) g of open sinks
    parent: Indices  # (S,) sink from which a sink was reached
    settled: Indices  # (S,) sinks in the order of settling
    length: Floats  # (S,) their distances, in the same order
    moved: Indices  # (S,) entries to move along the path, last first
    target: Indices  # (S,) the sinks that these entries move to


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
