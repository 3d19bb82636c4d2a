"""Drift and tests: random halves of one hospital, whose rows every peer gets in one place.

    python -m benchmarks rivals drift --peer Evidently=/path/to/python --peer NannyML=... \\
        --peer frouros=...

Each peer runs in an environment of its own, with its defaults: `pip install evidently "pandas<3"`,
`nannyml`, `frouros`, `tableone`. A peer that is not given is left out. Alibi Detect
is not here: since 2024 its Business Source License permits non-production use only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from benchmarks.rivals import Given, shared

Row = dict[str, Any]

RUNS, SHIFTS = 10, (0.0, 1.0)
#: The packages whose versions are shown.
PACKAGES = {
    "Evidently": "evidently",
    "NannyML": "nannyml",
    "frouros": "frouros",
    "tableone": "tableone",
    "tableone, Bonferroni": "tableone",
}


def _version(python: str, package: str) -> str:
    words = [python, "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


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


def _table_one(task: tuple[int, float]) -> int:
    """Columns that Table 1 of two sites, which keep their rows, says differ."""
    return len(fedwad.columns(fedwad.local(dict(zip("ab", halves(*task), strict=True)))).causes)


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


_OURS: dict[str, Callable[[tuple[int, float]], int]] = {
    "fedwad watch, 5%": ours,
    "fedwad test, 5%": _tested,
    "fedwad columns, 5%": _table_one,
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
        if name in PACKAGES or flagged.max() > 1:
            row[f"{title}, columns"] = float(flagged.mean())
    return row


_TABLE_ONE = """
from tableone import TableOne
def flagged(one, two):
    rows = pd.concat([one.assign(half="a"), two.assign(half="b")], ignore_index=True)
    names = [name for name in rows.columns if name != "half"]
    codes = [name for name in names if rows[name].nunique() <= 10]
    found = TableOne(rows, names, codes, groupby="half", pval=True, pval_adjust=ADJUST)
    heads = found.tableone.columns.get_level_values(-1)
    texts = found.tableone.loc[:, [head.startswith("P-Value") for head in heads]].iloc[:, 0]
    return sum(text.startswith("<") or float(text) <= 0.05 for text in texts if text)
"""

_SCRIPTS = {
    "tableone": _TABLE_ONE.replace("ADJUST", "None"),
    "tableone, Bonferroni": _TABLE_ONE.replace("ADJUST", "'bonferroni'"),
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
