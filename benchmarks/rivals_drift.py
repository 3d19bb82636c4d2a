"""Drift and tests: random halves of one hospital, whose rows every peer gets in one place.

    python -m benchmarks rivals drift --peer Evidently=/path/to/python --peer NannyML=... \\
        --peer frouros=...

Each peer runs in an environment of its own, with its defaults: `pip install evidently "pandas<3"`,
`nannyml`, `frouros`. A peer that is not given is left out. Alibi Detect is not here: since 2024 its
Business Source License permits non-production use only.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fedwad
from benchmarks.living_health import shared
from benchmarks.living_watch import halves, ours, peer
from benchmarks.rivals import Given

Row = dict[str, Any]

RUNS, SHIFTS = 10, (0.0, 1.0)
#: The packages whose versions are shown.
PACKAGES = {
    "Evidently": "evidently",
    "NannyML": "nannyml",
    "frouros": "frouros",
}


def _version(python: str, package: str) -> str:
    words = [python, "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def _tested(task: tuple[int, float]) -> bool:
    """Our test between two sites that keep their rows, at 5%."""
    one, two = halves(*task)
    sites = fedwad.local({"one": one, "two": two})
    return bool(fedwad.permutation_test(sites["one"], sites["two"]).pvalue <= 0.05)


def measure(given: Given) -> list[Row]:
    """Share of pairs of halves in which something is flagged, by shift of two of 13 columns."""
    runs = given.runs or RUNS
    rows = [flagged_by_us(name, runs, given.jobs) for name in _OURS]
    return rows + [flagged_by(*peer, runs) for peer in given.peers.items() if peer[0] in PACKAGES]


_OURS: dict[str, Callable[[tuple[int, float]], bool]] = {
    "fedwad watch, 5%": ours,
    "fedwad test, 5%": _tested,
}


def _tasks(runs: int) -> list[tuple[int, float]]:
    return [(seed, shift) for shift in SHIFTS for seed in range(runs)]


def flagged_by_us(name: str, runs: int, jobs: int = 1) -> Row:
    """A row of ours: the watch against a reference, or the test between two sites."""
    found = np.array(shared(_OURS[name], _tasks(runs), jobs), dtype=float)
    return _row(name, fedwad.__version__, found)


def flagged_by(name: str, python: str, runs: int) -> Row:
    """A row of a peer, which gets all halves in one process."""
    begin = time.perf_counter()
    found = peer(name, python, _tasks(runs))
    row = _row(name, _version(python, PACKAGES[name]), found)
    return row | {"wall s": time.perf_counter() - begin}


def _row(name: str, version: str, found: np.ndarray) -> Row:
    row: Row = {"tool": name, "version": version, "halves": len(found) // len(SHIFTS)}
    for shift, flagged in zip(SHIFTS, found.reshape(len(SHIFTS), -1), strict=True):
        title = f"+{shift:g} sd" if shift else "same"
        row[title] = float((flagged > 0).mean())
        if name in PACKAGES:
            row[f"{title}, columns"] = float(flagged.mean())
    return row
