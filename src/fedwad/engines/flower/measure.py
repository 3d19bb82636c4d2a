"""Seconds per round of FedWaD in process, in Flower's simulation and between processes of this
machine.

    python -m fedwad.engines.flower.measure

prints the table of docs/deploy-flower.md. Two sites of 1000 samples; median (fastest) of the rounds
after the first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedwad.engines.flower.loopback import Loopback
from fedwad.engines.flower.simulate import simulate
from fedwad.engines.job import Job, run
from fedwad.federation import local

__all__ = ["main", "measure"]

CASES = ((10, 2), (1000, 784))
_POLICY = 'name = "{}"\nallow = ["describe", "moments", "transport", "cells"]\nsmallest_cell = 1\n'
_NAMES = ("oslo", "paris")


def measure(
    folder: Path, rounds: int, ways: Sequence[str], on_line: Callable[[str], None]
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of the median and of the fastest round of each way, for each case."""
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number, (support, features) in enumerate(CASES):
        data = _write(folder, number, features)
        job = Job("distance", _NAMES, {"support": support, "rounds": rounds})
        for way in ways:
            home = folder / f"{number}-{way}"
            home.mkdir()
            result = _WAYS[way](job, data, folder, home)
            taken = [record["seconds"] for record in result["history"][1:]]
            seconds[way].append((statistics.median(taken), min(taken)))
            on_line(
                f"{way}, S={support}, d={features}: {min(taken):.3f} to {max(taken):.3f} s a round"
            )
    return seconds


def _write(folder: Path, number: int, features: int) -> dict[str, Path]:
    rng = np.random.default_rng(number)
    paths = {}
    for place, name in enumerate(_NAMES):
        paths[name] = folder / f"{name}-{number}.npy"
        np.save(paths[name], rng.normal(place, 1.0, (1000, features)))
        (folder / f"{name}.toml").write_text(_POLICY.format(name), encoding="utf-8")
    return paths


def _in_process(job: Job, data: dict[str, Path], folder: Path, home: Path) -> dict[str, Any]:  # noqa: ARG001
    return run(job, local(data))


def _simulated(job: Job, data: dict[str, Path], folder: Path, home: Path) -> dict[str, Any]:  # noqa: ARG001
    return simulate(job, data)


def _deployed(job: Job, data: dict[str, Path], folder: Path, home: Path) -> dict[str, Any]:
    with Loopback(home) as loopback:
        for name, path in data.items():
            loopback.site(name, path, folder / f"{name}.toml")
        return loopback.submit(job)


def _stock(job: Job, data: dict[str, Path], folder: Path, home: Path) -> dict[str, Any]:
    with Loopback(home) as loopback:
        for name, path in data.items():
            loopback.stock_site(name, path, folder / f"{name}.toml")
        return loopback.submit(job)


_WAYS: dict[str, Callable[[Job, dict[str, Path], Path, Path], dict[str, Any]]] = {
    "in process": _in_process,
    "simulation": _simulated,
    "our node": _deployed,
    "stock SuperNode": _stock,
}


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m fedwad.engines.flower.measure", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=8, help="rounds to measure (8)")
    parser.add_argument("--ways", nargs="+", choices=list(_WAYS), default=list(_WAYS))
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        found = measure(
            Path(name), options.rounds, options.ways, lambda line: print(line, file=sys.stderr)
        )
    print(
        "| seconds per round |"
        + "".join(f" S={support}, d={features} |" for support, features in CASES)
    )
    print("|---|" + "---|" * len(CASES))
    for way, seconds in found.items():
        print(
            f"| {way} |"
            + "".join(f" {median:.2g} ({fastest:.2g}) |" for median, fastest in seconds)
        )


if __name__ == "__main__":
    main()
