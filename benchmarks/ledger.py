"""A ledger of many lines: how long it takes to open, and what a query costs besides its work."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from fedwad.federation import FileLedger

__all__ = ["measure"]

LINES = (0, 10_000, 100_000)
QUERIES = 200


def measure() -> list[dict[str, Any]]:
    """Seconds to open a ledger, and milliseconds of a query: medians, on the disk of TMPDIR."""
    with tempfile.TemporaryDirectory() as folder:
        return [_measured(Path(folder) / f"{lines}.sqlite", lines) for lines in LINES]


def _measured(path: Path, lines: int) -> dict[str, Any]:
    _write(path, lines)
    started, used = time.perf_counter(), time.process_time()
    ledger = FileLedger(path)
    opening, processor = time.perf_counter() - started, time.process_time() - used
    seconds = [_query(ledger, number) for number in range(QUERIES)]
    return {
        "lines": lines,
        "open s": opening,
        "open, processor s": processor,
        "query ms": 1e3 * statistics.median(wall for wall, _ in seconds),
        "query, processor ms": 1e3 * statistics.median(cpu for _, cpu in seconds),
        "query, slowest of 100 ms": 1e3 * sorted(wall for wall, _ in seconds)[-QUERIES // 100],
    }


def _write(path: Path, lines: int) -> None:
    """A ledger of so many entries, in one transaction."""
    ledger = FileLedger(path)
    with ledger.lock():
        for number in range(lines):
            ledger.record("summary", "answered", 1000, 10, f"{number:064x}", "data")


def _query(ledger: FileLedger, number: int) -> tuple[float, float]:
    """All that a client asks of its ledger for one new query, and its line on disk."""
    started, used = time.perf_counter(), time.process_time()
    with ledger.lock():
        ledger.first_entry(f"never asked {number}")
        ledger.totals.distinct.get("summary")
        ledger.record("summary", "answered", digest=f"{number}", request=f"n{number}")
    return time.perf_counter() - started, time.process_time() - used
