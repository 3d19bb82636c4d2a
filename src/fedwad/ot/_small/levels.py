"""The small-support solver on one set of samples, and its start from nested subsamples.

A *level* is the problem on one of the nested subsamples, or on all samples. Each level starts from
the potentials of the smaller one before it. Samples i send units of mass to sinks s, the points of
the support, at costs c_is; f_i and g_s are potentials of samples and sinks. Most of the work is in
the compiled modules `linked_plan` (the plan), `paths` (the potentials) and `auction`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._small.auction import auction, two_best
from fedwad.ot._small.compiled import compiled_entry, compiled_entry_min, compiled_inner
from fedwad.ot._small.linked_plan import LinkedPlan, new_plan
from fedwad.ot._small.paths import DONE, balance

__all__ = ["DONE", "TOO_FAR", "cold_potentials", "sample_potentials", "solve_level"]

GROWTH = 4  # ratio of the sizes of successive subsamples
COARSEST = 4  # samples per sink; potentials of smaller subsamples are too far from optimal
SHRINK = 5.0  # ratio of successive auction tolerances
FINEST = 0.07  # last auction tolerance, in units of the mean gap between a sample's two best sinks
BIDS = 6  # per sample and auction; from there on `solve_level` is faster than more bids
FEWEST_FOR_AUCTIONS = 32  # sinks; with fewer, auctions are not worth their time
STEPS = 50  # per sample and sink, after which a level gives up: ten times the most ever needed
TOO_FAR = -1  # status besides those in `paths`: the starting potentials were too far from optimal


def sample_potentials(cost: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
    """The potentials of samples for those of sinks: f_i = min over s of (c_is - g_s)."""
    f = np.empty(len(cost))
    _row_minima(cost, g, f)
    return f


@compiled_entry_min
def _row_minima(cost, g, f):
    """Write the minimum over s of c_is - g_s into f, for each i."""
    for i in range(len(f)):
        low = np.inf
        for s in range(len(g)):
            value = cost[i, s] - g[s]
            low = min(low, value)
        f[i] = low


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
    cost: NDArray[np.float64],
    units: NDArray[np.int64],
    capacity: NDArray[np.int64],
    g: NDArray[np.float64],
    floor: int,
    far: float = np.inf,
) -> tuple[int, LinkedPlan | None]:
    """Status and plan, which is optimal if the status is DONE.

    The solver starts from the potentials `g`, and overwrites them with optimal ones. Sinks whose
    excess is at most `floor` units count as balanced. The status is TOO_FAR, without a plan, if
    more than the fraction `far` of all units would have to move.
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
    max_steps = STEPS * (n + n_sinks)
    return balance(cost, plan, idle, first_gap, g, excess, floor, mean_units, max_steps), plan


def cold_potentials(
    cost: NDArray[np.float64], weight: NDArray[np.float64], capacity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Starting potentials where no similar problem gives any.

    Auctions give rough potentials for the smallest subsample. Then each subsample is solved
    exactly, starting from the potentials of the one before.
    """
    n, n_sinks = cost.shape
    sizes = [n]
    while sizes[-1] // GROWTH >= COARSEST * n_sinks:
        sizes.append(sizes[-1] // GROWTH)
    g = np.zeros(n_sinks)
    if len(sizes) == 1:
        _auctions(cost, weight, capacity, g)
    cumulative = np.cumsum(weight)
    for m in sizes[:0:-1]:
        part = cost[_subsample(cumulative, m)]
        if m == sizes[-1]:
            _auctions(part, np.ones(m), capacity, g)
        solve_level(part, np.ones(m, np.int64), _integer_capacities(capacity, m), g, 0)
    return g


def _subsample(cumulative: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Row numbers of m samples: the total mass is cut into m equal parts, and each gives one.

    `cumulative` has the cumulative weights of all samples.
    """
    # The position in each part is random, as equal steps could meet a period in the order of rows.
    positions = np.arange(m) + np.random.default_rng(m).random(m)
    rows = np.searchsorted(cumulative, positions * (cumulative[-1] / m))
    return np.asarray(np.minimum(rows, len(cumulative) - 1))


def _auctions(
    cost: NDArray[np.float64],
    weight: NDArray[np.float64],
    capacity: NDArray[np.float64],
    g: NDArray[np.float64],
) -> None:
    """Improve `g` by auctions of falling tolerance.

    The first tolerance is about the spread of the costs. The last is a fraction of the mean gap
    between the costs of a sample's two best sinks. With few sinks `g` stays as it is: the smallest
    subsample has at most some hundred rows, so `solve_level` needs no good start.
    """
    n, n_sinks = cost.shape
    if n_sinks < FEWEST_FOR_AUCTIONS:
        return
    some_rows = cost[:: max(1, n // 256)]
    nearest = np.partition(some_rows, min(1, n_sinks - 1), axis=1)
    finest = FINEST * float((nearest[:, min(1, n_sinks - 1)] - nearest[:, 0]).mean())
    tol = float(np.abs(some_rows - some_rows.mean(axis=1, keepdims=True)).mean()) / 4.0
    # The factor below 1 lets samples fit in spite of rounding.
    capacity = capacity * (weight.sum() / capacity.sum()) * (1.0 - 1e-9)
    while finest > 0.0 and tol >= finest:
        auction(cost, weight, capacity, g, tol, BIDS * n)
        tol /= SHRINK


def _integer_capacities(capacity: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Integers in proportion to `capacity` that sum to m; cumulative sums are rounded."""
    cumulative = np.rint(np.cumsum(capacity) * (m / capacity.sum())).astype(np.int64)
    cumulative[-1] = m
    return np.asarray(np.diff(cumulative, prepend=0))
