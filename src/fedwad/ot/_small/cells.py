"""Compiled primal side of the small-support solver: which units of which sample lie in which sink.

A *cell* says that some units of a sample lie in a sink. Units are integers, so every sum of masses
is exact and no loop can stall on rounding. Two linked lists thread the cells: the members of a sink
(doubly linked, as cells come and go) and the cells of one sample (nearly always a list of one,
because an optimal plan splits fewer samples than there are sinks).

Most samples prefer their sink by far and never move. They stay *idle*, off the member lists that
the searches scan, until the potential of their sink has fallen so far that they might leave.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.compiled import inner

NONE = -1
_ROWS = 1 << 13  # of cells that are written at a time

# Columns of a cell: its sample, its sink (NONE in unused cells) and its units; the next member of
# the sink, or the next unused cell; the previous member of the sink; the next cell of the sample.
SAMPLE, SINK, UNITS, NEXT, PREV, SIBLING = range(6)


class CellPlan(NamedTuple):
    """The cells and the heads of their lists."""

    cells: NDArray[np.int64]  # (cells, 6); cell i < n starts as the one cell of sample i
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


def new_plan(
    sink_of: NDArray[np.int64], units: NDArray[np.int64], gap: NDArray[np.float64], n_sinks: int
) -> tuple[CellPlan, Idle]:
    """One cell per sample, with all of its units in `sink_of`, on no member list: all are idle."""
    n = len(sink_of)
    plan = CellPlan(
        np.empty((n + 8 * n_sinks + 1024, 6), np.int64),
        np.full(n_sinks, NONE),
        np.arange(n),
        np.full(1, n),
    )
    _write_cells(plan.cells, sink_of, units)
    stop = np.cumsum(np.bincount(sink_of, minlength=n_sinks))
    start = np.concatenate(([0], stop[:-1]))
    # Small integers are sorted by counting, which takes a time in proportion to their number.
    keys = sink_of.astype(np.int16) if n_sinks <= np.iinfo(np.int16).max else sink_of
    member = keys.argsort(kind="stable")
    return plan, Idle(member, gap[member], start, stop, np.full(n_sinks, -1.0))


def _write_cells(
    cells: NDArray[np.int64], sink_of: NDArray[np.int64], units: NDArray[np.int64]
) -> None:
    """Write the cells of samples and the unused ones, in blocks that fit the cache."""
    cells[len(sink_of) :] = NONE
    cells[len(sink_of) :, UNITS] = 0
    for start in range(0, len(sink_of), _ROWS):
        some = slice(start, min(start + _ROWS, len(sink_of)))
        cells[some, SAMPLE] = np.arange(some.start, some.stop)
        cells[some, SINK], cells[some, UNITS] = sink_of[some], units[some]
        cells[some, NEXT] = cells[some, PREV] = cells[some, SIBLING] = NONE
    cells[len(sink_of) : -1, NEXT] = np.arange(len(sink_of) + 1, len(cells))


@inner
def link(plan, k, sink):
    """Put cell k on the member list of `sink`."""
    cells, head = plan.cells, plan.member[sink]
    cells[k, SINK] = sink
    cells[k, NEXT] = head
    cells[k, PREV] = NONE
    if head != NONE:
        cells[head, PREV] = k
    plan.member[sink] = k


@inner
def _unlink(plan, k):
    """Take cell k off the member list of its sink."""
    cells = plan.cells
    after, before = cells[k, NEXT], cells[k, PREV]
    if before == NONE:
        plan.member[cells[k, SINK]] = after
    else:
        cells[before, NEXT] = after
    if after != NONE:
        cells[after, PREV] = before


@inner
def _retire(plan, k):
    """Make the emptied, unlinked cell k unused."""
    cells, of_sample = plan.cells, plan.of_sample
    sample, after = cells[k, SAMPLE], cells[k, SIBLING]
    before = of_sample[sample]
    if before == k:
        of_sample[sample] = after
    else:
        while cells[before, SIBLING] != k:
            before = cells[before, SIBLING]
        cells[before, SIBLING] = after
    cells[k, UNITS] = 0
    cells[k, SINK] = NONE
    cells[k, NEXT] = plan.unused[0]
    plan.unused[0] = k


@inner
def _split(plan, k, amount):
    """A new cell with `amount` units of cell k; NONE when the cells are used up."""
    cells, new = plan.cells, plan.unused[0]
    if new != NONE:
        plan.unused[0] = cells[new, NEXT]
        sample = cells[k, SAMPLE]
        cells[k, UNITS] -= amount
        cells[new, SAMPLE] = sample
        cells[new, UNITS] = amount
        cells[new, SIBLING] = plan.of_sample[sample]
        plan.of_sample[sample] = new
    return new


@inner
def move(plan, k, sink, amount):
    """Move `amount` units of cell k to `sink`. Returns (ok, the cell that joined `sink` or
    NONE)."""
    cells = plan.cells
    target = plan.of_sample[cells[k, SAMPLE]]
    while target != NONE and cells[target, SINK] != sink:
        target = cells[target, SIBLING]
    whole = amount == cells[k, UNITS]
    if whole:
        _unlink(plan, k)
    if target != NONE:
        cells[target, UNITS] += amount
        cells[k, UNITS] -= amount
        if whole:
            _retire(plan, k)
        return True, NONE
    joined = k if whole else _split(plan, k, amount)
    if joined != NONE:
        link(plan, joined, sink)
    return joined != NONE, joined


def collect(plan: CellPlan) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The plan as (sample, sink, units), sorted by sample."""
    cells = plan.cells
    used = np.flatnonzero(cells[:, UNITS])
    samples = cells[used, SAMPLE]
    order = samples.argsort(kind="stable")  # nearly sorted already
    used, samples = used[order], samples[order]
    split = np.unique(samples[1:][samples[1:] == samples[:-1]])
    for sample, position in zip(split.tolist(), samples.searchsorted(split).tolist(), strict=True):
        k = plan.of_sample[sample]  # the cells of one sample in the order of its list
        while k != NONE:
            if cells[k, UNITS] > 0:
                used[position] = k
                position += 1
            k = cells[k, SIBLING]
    return samples, cells[used, SINK], cells[used, UNITS]
