"""Exact optimal transport between many samples and a small support of sinks."""

from __future__ import annotations

import math

import numpy as np

from fedwad.errors import CertificateError
from fedwad.transport.measures import Floats, Indices
from fedwad.transport.plans import Solution, row_potentials


def small_support(
    cost: Floats, a: Floats, b: Floats, start: Floats | None = None, far: float = 0.06
) -> Solution:
    """Exact plan between n samples (rows, weights `a`) and few sinks (columns, weights `b`).

    Each sample i is assigned to the sink s that minimises c_is - g_s, with cost c and potentials g.
    The excess mass of over-full sinks is moved along shortest paths between sinks, which lowers
    potentials until all sinks are balanced. This is the method of successive shortest paths on a
    graph whose S nodes are the sinks. With good initial potentials there is little to move. They
    are `start`, the potentials of a similar problem, or come from nested subsamples of the rows.

    The potentials f in the solution are min_s c_is - g_s. With more than the fraction `far` of the
    mass in wrong sinks, `start` is slower than subsamples (benchmarks/ablation.md). Raises
    CertificateError when the number of steps exceeds its bound; callers then try another solver.
    """
    from fedwad.transport._small.levels import TOO_FAR, cold_potentials, solve_level
    from fedwad.transport._small.paths import DONE, collect

    sample_units, sink_units, floor = _integer_units(a, b)
    status, plan = TOO_FAR, None
    if start is not None:
        g = start.copy()
        status, plan = solve_level(cost, sample_units, sink_units, g, floor, far)
    if status == TOO_FAR:
        g = cold_potentials(cost, sample_units.astype(np.float64), sink_units.astype(np.float64))
        status, plan = solve_level(cost, sample_units, sink_units, g, floor)
    if status != DONE or plan is None:
        raise CertificateError(
            f"The small-support solver did not finish (status {status}).", "not-finished"
        )
    rows, cols, amount = collect(plan)
    if len(rows) > len(a) + len(b) - 1:
        rows, cols, amount = remove_cycles(rows, cols, amount, len(a))
    mass = a[rows]  # the masses of each sample sum to its weight
    split = amount < sample_units[rows]
    mass[split] *= amount[split] / sample_units[rows[split]]
    return Solution(rows, cols, mass, row_potentials(cost, g), g)


def _integer_units(a: Floats, b: Floats, total: int = 2**60) -> tuple[Indices, Indices, int]:
    """The weights of samples and sinks in integer units, with the same total: integer ratios
    exactly, others to 1 / `total` of all; and how many units of imbalance are rounding errors.

    For rounded weights these are 2**8 units (2e-16 of all mass).
    """
    n, n_sinks = len(a), len(b)
    uniform = bool((a == a[0]).all())
    if uniform and (b == b[0]).all():
        common = math.gcd(n, n_sinks)
        return np.full(n, n_sinks // common), np.full(n_sinks, n // common), 0
    if uniform:
        in_samples = b * (n / b.sum())
        rounded = np.rint(in_samples).astype(np.int64)
        # what is left is rounding
        if np.abs(in_samples - rounded).max() <= 1e-15 * n and rounded.sum() == n:
            return np.ones(n, np.int64), rounded, 0
        sample = np.full(n, total // n)
        return sample, _proportional(b, int(sample.sum())), 2**8
    return _proportional(a, total), _proportional(b, total), 2**8


def _proportional(weights: Floats, total: int) -> Indices:
    """Integers in proportion to `weights` that sum to `total` exactly."""
    units = np.floor(weights * (total / weights.sum())).astype(np.int64)
    large = np.flatnonzero(units >= units.max() // 2)  # a unit more or less matters least there
    each, remainder = divmod(total - int(units.sum()), len(large))
    units[large] += each
    units[large[:remainder]] += 1
    return np.asarray(units)


def remove_cycles(
    rows: Indices, cols: Indices, units: Indices, n: int
) -> tuple[Indices, Indices, Indices]:
    """A plan of the same cost whose bipartite graph is a forest: at most n + S - 1 entries.

    All entries of an optimal plan have reduced cost zero. So shifting units around a cycle of
    entries, plus and minus in turn, costs nothing, and the shift that empties an entry removes the
    cycle. Only split samples can be on a cycle, and these are few, so plain Python is fast enough.
    Repeated rows make cycles in most plans.
    """
    units = units.copy()
    entry_counts = np.bincount(rows, minlength=n)
    # Node -> neighbour -> the entry between them. Sample i is node i, sink s is node n + s.
    neighbours: dict[int, dict[int, int]] = {}
    for entry in np.flatnonzero(entry_counts[rows] > 1):
        sample, sink = int(rows[entry]), n + int(cols[entry])
        path = _path(neighbours, sample, sink)
        if path is not None:
            cycle = [int(entry), *path]
            amount = units[cycle[0::2]].min()
            units[cycle[0::2]] -= amount
            units[cycle[1::2]] += amount
            for other in path:
                if units[other] == 0:
                    u, v = int(rows[other]), n + int(cols[other])
                    del neighbours[u][v], neighbours[v][u]
            if units[entry] == 0:
                continue
        neighbours.setdefault(sample, {})[sink] = int(entry)
        neighbours.setdefault(sink, {})[sample] = int(entry)
    positive = units > 0
    return rows[positive], cols[positive], units[positive]


def _path(neighbours: dict[int, dict[int, int]], start: int, goal: int) -> list[int] | None:
    """Entries on the path from `goal` back to `start` in the forest; None if there is no path."""
    if start not in neighbours or goal not in neighbours:
        return None
    came_from: dict[int, tuple[int, int]] = {start: (-1, -1)}
    queue = [start]
    for node in queue:
        for other, entry in neighbours[node].items():
            if other not in came_from:
                came_from[other] = (node, entry)
                queue.append(other)
        if goal in came_from:
            break
    if goal not in came_from:
        return None
    path, node = [], goal
    while node != start:
        node, entry = came_from[node]
        path.append(entry)
    return path
