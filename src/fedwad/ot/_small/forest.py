"""Remove cycles from a transport plan whose entries all are optimal, so that few entries remain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]


def remove_cycles(rows: _Ints, cols: _Ints, units: _Ints, n: int) -> tuple[_Ints, _Ints, _Ints]:
    """A plan of the same cost whose bipartite graph is a forest: at most n + S - 1 entries.

    All entries of an optimal plan have reduced cost zero. So shifting units around a cycle of
    entries, plus and minus in turn, costs nothing, and the shift that empties an entry removes the
    cycle. Only split samples can be on a cycle. Ties that produce cycles are rare, so plain Python
    is fast enough.
    """
    units = units.copy()
    entry_counts = np.bincount(rows, minlength=n)
    # Node -> neighbour -> the entry between them. Sample i is node i, sink s is node n + s.
    neighbours: dict[int, dict[int, int]] = {}
    for entry in np.flatnonzero(entry_counts[rows] > 1):
        sample, sink = int(rows[entry]), n + int(cols[entry])
        path = _path(neighbours, sample, sink)
        if path is not None:
            emptied = _cancel(units, [int(entry), *path])
            for other in emptied:
                if other != entry:
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


def _cancel(units: _Ints, cycle: list[int]) -> list[int]:
    """Shift units from the even to the odd entries of the cycle; return the entries it empties."""
    amount = units[cycle[0::2]].min()
    units[cycle[0::2]] -= amount
    units[cycle[1::2]] += amount
    return [entry for entry in cycle if units[entry] == 0]
