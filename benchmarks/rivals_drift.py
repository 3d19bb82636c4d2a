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
from typing import Any

import numpy as np

import fedwad
from benchmarks.living_watch import halves, ours, peer
from benchmarks.rivals import Given

Row = dict[str, Any]

RUNS, SHIFTS = 50, (0.0, 0.5, 1.0)
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
    tasks = {shift: [(seed, shift) for seed in range(given.runs or RUNS)] for shift in SHIFTS}
    rows = []
    for name, flags in (("fedwad watch, 5%", ours), ("fedwad test, 5%", _tested)):
        found = {
            shift: np.array([float(flags(task)) for task in own]) for shift, own in tasks.items()
        }
        rows.append(_row(name, fedwad.__version__, found))
    for name, python in given.peers.items():
        if name not in PACKAGES:
            continue
        begin = time.perf_counter()
        found = {shift: peer(name, python, own) for shift, own in tasks.items()}
        row = _row(name, _version(python, PACKAGES[name]), found)
        rows.append(row | {"wall s": time.perf_counter() - begin})
    return rows


def _row(name: str, version: str, found: dict[float, np.ndarray]) -> Row:
    row: Row = {"tool": name, "version": version}
    for shift, flagged in found.items():
        title = f"+{shift:g} sd" if shift else "same"
        row[title] = float((flagged > 0).mean())
        if name in PACKAGES:
            row[f"{title}, columns"] = float(flagged.mean())
    return row
