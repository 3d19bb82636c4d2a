"""Compiled primal side of the small-support solver: which units of which sample lie in which sink.

A *cell* says that `units` of `sample` lie in `sink`. Units are integers, so every sum of masses is
exact and no loop can stall on rounding. Two linked lists thread the cells: the members of a sink
(doubly linked, as cells come and go) and the cells of one sample (`sibling`; nearly always a list
of one, because an optimal plan splits fewer samples than there are sinks).

Most samples sit deep inside the territory of their sink and never move. They stay *idle*, off the
member lists that the searches scan, until the potential of their sink has fallen far enough to
concern them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.compiled import entry, inner

NONE = -1

CELL = np.dtype(
    [
        ("sample", np.int64),
        ("sink", np.int64),  # NONE in unused cells
        ("units", np.int64),
        ("next", np.int64),  # next member of the sink, or next unused cell
        ("prev", np.int64),  # previous member of the sink
        ("sibling", np.int64),  # next cell of the sample
    ]
)


class Plan(NamedTuple):
    """The cells and the heads of their lists."""

    cells: NDArray[np.void]  # of dtype CELL; cell i < n starts as the one cell of sample i
    member: NDArray[np.int64]  # (S,) first member of each sink
    of_sample: NDArray[np.int64]  # (n,) first cell of each sample
    unused: NDArray[np.int64]  # (1,) first unused cell


class Idle(NamedTuple):
    """Samples `member[start[s]:stop[s]]` are idle in sink s.

    They preferred s by `gap` to any other sink at first, so none leaves before the potential of s
    has fallen by more than `max_fall[s]`.
    """

    member: NDArray[np.int64]
    gap: NDArray[np.float64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    max_fall: NDArray[np.float64]


@entry
def new_plan(sink_of, units, n_sinks):
    """One cell per sample, with all of its units in `sink_of`; no cell is on a member list yet."""
    n = len(sink_of)
    cells = np.empty(n + 8 * n_sinks + 1024, CELL)
    for k in range(len(cells)):
        cells[k].sink = NONE
        cells[k].units = 0
        cells[k].next = k + 1
        cells[k].sibling = NONE
    cells[len(cells) - 1].next = NONE
    for i in range(n):
        cells[i].sample = i
        cells[i].sink = sink_of[i]
        cells[i].units = units[i]
    return Plan(cells, np.full(n_sinks, NONE), np.arange(n), np.full(1, n))


@entry
def new_idle(sink_of, gap, n_sinks):
    """All samples idle, grouped by sink (counting sort)."""
    start = np.zeros(n_sinks + 1, np.int64)
    for s in sink_of:
        start[s + 1] += 1
    start = np.cumsum(start)[:n_sinks]
    stop = start.copy()
    member, sorted_gap = np.empty(len(sink_of), np.int64), np.empty(len(sink_of))
    for i in range(len(sink_of)):
        k = stop[sink_of[i]]
        member[k], sorted_gap[k] = i, gap[i]
        stop[sink_of[i]] += 1
    return Idle(member, sorted_gap, start, stop, np.full(n_sinks, -1.0))


@inner
def link(plan, k, sink):
    """Put cell k on the member list of `sink`."""
    cells, head = plan.cells, plan.member[sink]
    cells[k].sink = sink
    cells[k].next = head
    cells[k].prev = NONE
    if head != NONE:
        cells[head].prev = k
    plan.member[sink] = k


@inner
def _unlink(plan, k):
    """Take cell k off the member list of its sink."""
    cells = plan.cells
    after, before = cells[k].next, cells[k].prev
    if before == NONE:
        plan.member[cells[k].sink] = after
    else:
        cells[before].next = after
    if after != NONE:
        cells[after].prev = before


@inner
def _retire(plan, k):
    """Make the emptied, unlinked cell k unused."""
    cells = plan.cells
    sample = cells[k].sample
    if plan.of_sample[sample] == k:
        plan.of_sample[sample] = cells[k].sibling
    else:
        before = plan.of_sample[sample]
        while cells[before].sibling != k:
            before = cells[before].sibling
        cells[before].sibling = cells[k].sibling
    cells[k].units = 0
    cells[k].sink = NONE
    cells[k].next = plan.unused[0]
    plan.unused[0] = k


@inner
def _split(plan, k, sink, amount):
    """A new cell with `amount` units of cell k in `sink`; NONE when the cells are used up."""
    cells, new = plan.cells, plan.unused[0]
    if new != NONE:
        plan.unused[0] = cells[new].next
        sample = cells[k].sample
        cells[k].units -= amount
        cells[new].sample = sample
        cells[new].units = amount
        cells[new].sibling = plan.of_sample[sample]
        plan.of_sample[sample] = new
        link(plan, new, sink)
    return new


@inner
def move(plan, k, sink, amount):
    """Move `amount` units of cell k to `sink`. Returns (ok, the cell that joined `sink` or
    NONE)."""
    cells = plan.cells
    target = plan.of_sample[cells[k].sample]
    while target != NONE and cells[target].sink != sink:
        target = cells[target].sibling
    whole = amount == cells[k].units
    if target != NONE:
        cells[target].units += amount
        cells[k].units -= amount
        if whole:
            _unlink(plan, k)
            _retire(plan, k)
        return True, NONE
    if whole:
        _unlink(plan, k)
        link(plan, k, sink)
        return True, k
    new = _split(plan, k, sink, amount)
    return new != NONE, new


@entry
def collect(plan):
    """The plan as (sample, sink, units), sorted by sample."""
    cells = plan.cells
    total = 0
    for k in range(len(cells)):
        total += cells[k].units > 0
    rows, cols, units = (
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.empty(total, np.int64),
    )
    e = 0
    for i in range(len(plan.of_sample)):
        k = plan.of_sample[i]
        while k != NONE:
            if cells[k].units > 0:
                rows[e], cols[e], units[e] = i, cells[k].sink, cells[k].units
                e += 1
            k = cells[k].sibling
    return rows, cols, units
