"""Watching for drift: time, false alarms over many comparisons, delay, peers on one hospital."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from benchmarks.living_health import shared
from fedwad._drift.sequential_test import compare_blocks, level_at
from fedwad.ot import Measure, block_means

Row = dict[str, Any]

_ALPHA, _COLUMNS, _TESTS, _CHANGE = 0.01, 20, 100, 25


def speed(runs: int = 0, _jobs: int = 1) -> list[Row]:
    """Seconds for one comparison of 100,000 rows with 20 columns, after imports."""
    rng = np.random.default_rng(0)
    small = fedwad.Reference.from_data(rng.normal(size=(500, _COLUMNS)))
    small.compare(rng.normal(size=(500, _COLUMNS)))  # imports and compiled functions
    small.compare(rng.normal(0.5, 1, (2000, _COLUMNS)))
    reference = fedwad.Reference.from_data(rng.normal(size=(100_000, _COLUMNS)))
    rows = []
    for name, shift in (("same", 0.0), ("one column +0.2", 0.2)):
        for _ in range(runs or 3):
            month = rng.normal(size=(100_000, _COLUMNS))
            month[:, 3] += shift
            wall, processor = time.perf_counter(), time.process_time()
            found = reference.compare(month)
            rows.append(
                {
                    "data": name,
                    "seconds": time.perf_counter() - wall,
                    "processor seconds": time.process_time() - processor,
                    "drift": str(found.drift),
                }
            )
    return rows


def _rows(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    if kind == "heavy tails":
        return np.asarray(rng.standard_t(3, (n, _COLUMNS)))
    if kind == "mixed":
        numbers = np.exp(rng.normal(size=(n, _COLUMNS // 2)))
        return np.concatenate([numbers, 1.0 * (rng.random((n, _COLUMNS // 2)) < 0.1)], axis=1)
    return rng.normal(size=(n, _COLUMNS))


def _first_alarm(task: tuple[str, int, int, float, int, int]) -> int:
    """The number of the first comparison with drift, from number `start` on, or 0."""
    kind, before, n, shift, start, seed = task
    rng = np.random.default_rng([seed, 11])
    reference = block_means(Measure(_rows(kind, rng, before)))
    for number in range(start, _TESTS + 1):
        month = _rows(kind, rng, n)
        month[:, 0] += shift * np.std(month[:, 0])
        level = level_at(_ALPHA, number)
        if compare_blocks(reference, block_means(Measure(month)), level, number).pvalue <= level:
            return number
    return 0


def alarms(runs: int = 0, jobs: int = 1) -> list[Row]:
    """False alarms at alpha = 0.01 in series of 100 comparisons with one reference."""
    rows = []
    for kind in ("normal", "heavy tails", "mixed"):
        tasks = [(kind, 600, 300, 0.0, 1, seed) for seed in range(runs or 1000)]
        found = np.array(shared(_first_alarm, tasks, jobs))
        share = float((found > 0).mean())
        error = float(np.sqrt(max(share * (1 - share), 1e-9) / len(tasks)))
        rows.append({"data": kind, "series": len(tasks), "false alarms": share, "error": error})
    return rows


def delay(runs: int = 0, jobs: int = 1) -> list[Row]:
    """Comparisons until a drift of 0.2 deviations in one of 20 columns is found, from number 26."""
    rows = []
    for before, n in ((1000, 500), (2000, 1000), (4000, 2000), (10_000, 5000)):
        tasks = [("normal", before, n, 0.2, _CHANGE + 1, seed) for seed in range(runs or 100)]
        found = np.array(shared(_first_alarm, tasks, jobs))
        late = np.where(found == 0, np.inf, found - _CHANGE)
        rows.append(
            {
                "reference": before,
                "rows": n,
                "median delay": float(np.median(late)),
                "90%": float(np.quantile(late, 0.9, method="higher")),
                "never in 75": float((found == 0).mean()),
            }
        )
    return rows


def halves(seed: int, shift: float) -> tuple[Any, Any]:
    """Two random halves of Cleveland; in one the named columns change by so many deviations."""
    import pandas as pd

    table = pd.read_csv(fedwad.datasets.load("heart")["cleveland"], na_values="?")
    table = table.drop(columns="num").dropna()
    order = np.random.default_rng([seed, 7]).permutation(len(table))
    one, two = table.iloc[order[::2]].copy(), table.iloc[order[1::2]].copy()
    for column in ("chol", "trestbps"):
        two[column] = two[column].astype(float) + shift * table[column].std()
    return one, two


def ours(task: tuple[int, float]) -> bool:
    one, two = halves(*task)
    return fedwad.Reference.from_data(one).compare(two, alpha=0.05).drift


def peers(runs: int = 0, jobs: int = 1, pythons: dict[str, str] | None = None) -> list[Row]:
    """Random halves of one hospital: how often drift is called where there is none, and where."""
    rows = []
    count = runs or 100
    for shift in (0.0, 0.5, 1.0):
        tasks = [(seed, shift) for seed in range(count)]
        row: Row = {"chol and trestbps": f"+{shift:g} sd" if shift else "same"}
        row["fedwad, 5%"] = float(np.mean(shared(ours, tasks, jobs)))
        for name, python in (pythons or {}).items():
            found = shared(partial(peer, name, python), _chunks(tasks, jobs), jobs)
            flagged = np.concatenate(found)
            row[f"{name}, any column"] = float((flagged > 0).mean())
            row[f"{name}, columns"] = float(flagged.mean())
        rows.append(row)
    return rows


def _chunks(tasks: list[Any], jobs: int) -> list[list[Any]]:
    return [tasks[k::jobs] for k in range(jobs) if tasks[k::jobs]]


_SCRIPTS = {
    "Evidently": """
from evidently import Report
from evidently.presets import DataDriftPreset
def flagged(one, two):
    found = Report([DataDriftPreset()]).run(two, one).dict()["metrics"]
    return int(next(m["value"]["count"] for m in found if "DriftedColumns" in m["metric_name"]))
""",
    "NannyML": """
import nannyml
def flagged(one, two):
    names = list(one.columns)
    calc = nannyml.UnivariateDriftCalculator(column_names=names, chunk_number=5).fit(one)
    frame = calc.calculate(two).filter(period="analysis").to_df()
    return sum(bool(frame[column].any()) for column in frame.columns if column[-1] == "alert")
""",
    "frouros": """
from frouros.callbacks import PermutationTestDistanceBased
from frouros.detectors.data_drift import MMD
def flagged(one, two):
    a, b = (((z - one.mean()) / one.std()).to_numpy() for z in (one, two))
    test = PermutationTestDistanceBased(num_permutations=100, random_state=0, num_jobs=1, name="t")
    detector = MMD(callbacks=[test])
    detector.fit(X=a)
    return int(detector.compare(X=b)[1]["t"]["p_value"] <= 0.05)
""",
}


def peer(name: str, python: str, tasks: list[Any]) -> np.ndarray:
    """How many columns a peer flags in each pair of halves, in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        for k, task in enumerate(tasks):
            for half, table in zip("ab", halves(*task), strict=True):
                table.to_csv(Path(folder) / f"{k}{half}.csv", index=False)
        script = (
            "import sys, warnings; warnings.filterwarnings('ignore'); import pandas as pd\\n"
            + _SCRIPTS[name]
            + "\\nfor k in range(int(sys.argv[2])):\\n"
            "    one, two = (pd.read_csv(f'{sys.argv[1]}/{k}{h}.csv') for h in 'ab')\\n"
            "    print('flagged', flagged(one, two))\\n"
        ).replace("\\n", "\n")
        done = subprocess.run(  # noqa: S603 - ours
            [python, "-c", script, folder, str(len(tasks))],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{name} failed: {done.stderr[-500:]}")
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("flagged")]
    return np.array([int(words[1]) for words in lines], dtype=float)
