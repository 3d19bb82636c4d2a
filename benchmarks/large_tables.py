"""Large tables in batches: time and memory beside DuckDB's SUMMARIZE and pandas' describe.

`python -m benchmarks.large_tables` runs each tool in a process of its own on 1, 5 and 20 million
rows x 20 columns in 8 Parquet files, and on a CSV file of 2 million rows x 15 columns, with two
threads, and prints the table of benchmarks/large_tables.md. With `--seeds 12` it compares the
estimate `value` of two sites in batches with that in memory, over so many seeds.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_WORDS = np.array(["red", "green", "blue", "grey"])
_TOOLS = {
    "table 1": "fedwad: Table 1",
    "summary": "fedwad: Table 1 and summary",
    "duckdb": "DuckDB: SUMMARIZE",
    "pandas": "pandas: describe",
}
_TITLES = ("table", "tool", "seconds", "processor seconds", "peak memory, GB")


def columns_of(rows: int, seed: int, numbers: int = 12) -> dict[str, Any]:
    """Columns of normal numbers, 3 of counts, 2 of codes and 3 of words."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"x{k}": rng.normal(size=rows) * (k + 1) for k in range(numbers)}
    columns |= {f"i{k}": rng.poisson(30 + k, rows) for k in range(3)}
    columns |= {f"c{k}": rng.integers(1, 6, rows).astype(np.int8) for k in range(2)}
    columns |= {f"t{k}": pa.array(_WORDS[rng.integers(0, 4, rows)]) for k in range(3)}
    return columns


def write_parquet(folder: Path, rows: int) -> None:
    """20 columns in 8 files."""
    import pyarrow as pa
    from pyarrow import parquet

    for seed in range(8):
        table = pa.table(columns_of(rows // 8, seed))
        parquet.write_table(table, folder / f"part{seed}.parquet")


def write_csv(folder: Path, rows: int) -> None:
    """15 columns in one file."""
    import pyarrow as pa
    from pyarrow import csv

    with csv.CSVWriter(folder / "table.csv", pa.table(columns_of(1, 0, 7)).schema) as writer:
        for seed in range(8):
            writer.write_table(pa.table(columns_of(rows // 8, seed, 7)))


def describe(tool: str, folder: str) -> None:
    """Table 1 by one tool; prints its seconds and the most memory that it took."""
    start, processor = time.perf_counter(), time.process_time()
    path = next(Path(folder).glob("*.csv"), Path(folder))
    if tool in ("table 1", "summary"):
        import fedwad
        from fedwad.federation import SummaryReply, SummaryRequest
        from fedwad.site.columns import Columns
        from fedwad.site.reading import read_raw

        data = read_raw(path, "site", Columns.of(schema="auto"))
        if tool == "table 1":
            data.profile(10)  # type: ignore[union-attr]
        else:
            fed = fedwad.local({"site": data})
            reply = fed.ask({"site": SummaryRequest(10, "auto", 2.0, 0)})["site"]
            assert isinstance(reply, SummaryReply), reply
    elif tool == "duckdb":
        import duckdb

        duckdb.sql("SET threads = 2")
        files = path if path.suffix else f"{folder}/*.parquet"
        duckdb.sql(f"SUMMARIZE SELECT * FROM '{files}'").fetchall()  # noqa: S608
    else:
        import pandas as pd

        frame = pd.read_csv(path) if path.suffix else pd.read_parquet(path)
        frame.describe(include="all")
    # `ru_maxrss` of a new process is at least that of the one that started it.
    status = Path("/proc/self/status").read_text()
    found = {
        "seconds": time.perf_counter() - start,
        "processor seconds": time.process_time() - processor,
        "peak memory, GB": int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1e6,
    }
    print(json.dumps(found))


def measure(rows: int, kind: str) -> None:
    """Print a line of the table for each tool."""
    title = f"{rows / 1e6:g} million x {20 if kind == 'parquet' else 15}, {kind}"
    with tempfile.TemporaryDirectory() as folder:
        (write_parquet if kind == "parquet" else write_csv)(Path(folder), rows)
        for tool, name in _TOOLS.items():
            words = ["-m", "benchmarks.large_tables", "--tool", tool, "--folder", folder]
            done = subprocess.run([sys.executable, *words], check=True, capture_output=True)  # noqa: S603
            found = json.loads(done.stdout)
            numbers = " | ".join(f"{found[key]:.1f}" for key in _TITLES[2:])
            print(f"| {title} | {name} | {numbers} |", flush=True)


def scatter(seeds: int, rows: int = 9000, held: int = 2000) -> None:
    """Print means and standard deviations of `value` over seeds, in memory and in batches."""
    import pyarrow as pa
    from pyarrow import parquet

    import fedwad

    print("| shift of x0, SD | | mean | SD | smallest | largest |\n|---|---|---|---|---|---|")
    for shift in (0.0, 0.1, 0.8):
        with tempfile.TemporaryDirectory() as folder:
            files = {f"site{seed}": Path(folder) / f"{seed}.parquet" for seed in range(2)}
            for seed, file in enumerate(files.values()):
                columns = columns_of(rows, seed, 3)
                columns["x0"] += shift * seed
                parquet.write_table(pa.table(columns), file)
            for title, options in (("in memory", {}), ("in batches", {"max_rows": held})):
                fed = fedwad.local(files, **options)
                a, b = (fed[site] for site in files)
                values = [fedwad.distance(a, b, seed=seed).value for seed in range(seeds)]
                found = np.mean(values), np.std(values, ddof=1), min(values), max(values)
                print(f"| {shift} | {title} | {' | '.join(f'{one:.3f}' for one in found)} |")


def main() -> None:
    """Measure the tools one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_tables", description=__doc__)
    parser.add_argument("rows", type=int, nargs="*", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument(
        "--csv", type=int, default=2_000_000, metavar="ROWS", help="of the CSV file"
    )
    parser.add_argument("--seeds", type=int, help="compare batches with memory over these")
    parser.add_argument("--tool", choices=_TOOLS)
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.tool is not None:
        return describe(options.tool, options.folder)
    if options.seeds is not None:
        return scatter(options.seeds)
    print(f"| {' | '.join(_TITLES)} |\n|{'---|' * len(_TITLES)}", flush=True)
    for rows in options.rows:
        measure(rows, "parquet")
    if options.csv:
        measure(options.csv, "csv")
    return None


if __name__ == "__main__":
    main()
