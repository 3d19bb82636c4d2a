"""Seconds per round of FedWaD in process, in simulations and between processes of this machine.

    python -m benchmarks.engines                   # Flower and FLARE
    python -m benchmarks.engines --ways in-process flare-mtls

prints the table of docs/engines.md. There are two sites with 1000 samples each. A cell of the table
is the median (and the fastest) of all rounds but the first.
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

from fedwad.engines.job import Job, run
from fedwad.federation import local

__all__ = ["main", "measure"]

CASES = ((10, 2), (1000, 784))  # points of the support, features
_NAMES = ("oslo", "paris")
_POLICY = """\
name = "{}"
allow = ["describe", "columns", "transport", "cells"]
min_cell_size = 1
"""


def measure(
    folder: Path, rounds: int, ways: Sequence[str], on_progress: Callable[[str], None]
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of the median and of the fastest round of each way, for each case."""
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number, (support, features) in enumerate(CASES):
        data, policies = _write_sites(folder / str(number), features)
        job = Job("distance", _NAMES, {"method": "fedwad", "support": support, "rounds": rounds})
        for way in ways:
            home = folder / f"{number}-{way}"
            home.mkdir()
            result = _WAYS[way](job, data, policies, home)
            taken = [record["seconds"] for record in result["history"][1:]]
            seconds[way].append((statistics.median(taken), min(taken)))
            on_progress(
                f"{way}, S={support}, d={features}: {min(taken):.3f} to {max(taken):.3f} s a round"
            )
    return seconds


Paths = dict[str, Path]


def _write_sites(folder: Path, features: int) -> tuple[Paths, Paths]:
    """Files with the data and with the policies of the sites."""
    folder.mkdir()
    rng = np.random.default_rng(features)
    data = {name: folder / f"{name}.npy" for name in _NAMES}
    policies = {name: folder / f"{name}.toml" for name in _NAMES}
    for number, name in enumerate(_NAMES):
        np.save(data[name], rng.normal(number, 1.0, (1000, features)))
        policies[name].write_text(_POLICY.format(name), encoding="utf-8")
    return data, policies


def _in_process(job: Job, data: Paths, policies: Paths, home: Path) -> dict[str, Any]:  # noqa: ARG001
    return run(job, local(data))


def _flower_simulation(job: Job, data: Paths, policies: Paths, home: Path) -> dict[str, Any]:  # noqa: ARG001
    from fedwad.engines.flower import simulate

    return simulate(job, data)


def _flower_node(job: Job, data: Paths, policies: Paths, home: Path) -> dict[str, Any]:
    from tests.engines.flower_loopback import Loopback

    with Loopback(home) as loopback:
        for name, path in data.items():
            loopback.site(name, path, policies[name])
        return loopback.submit(job)


def _flower_stock(job: Job, data: Paths, policies: Paths, home: Path) -> dict[str, Any]:
    from tests.engines.flower_loopback import Loopback

    with Loopback(home) as loopback:
        for name, path in data.items():
            loopback.stock_site(name, path, policies[name])
        return loopback.submit(job)


def _flare_simulator(job: Job, data: Paths, policies: Paths, home: Path) -> dict[str, Any]:  # noqa: ARG001
    from fedwad.engines.flare import simulate

    return simulate(job, data)


def _flare_mtls(job: Job, data: Paths, policies: Paths, home: Path) -> dict[str, Any]:
    from tests.engines.flare_loopback import Loopback

    from fedwad.engines.flare import submit

    with Loopback(home, data, policies) as federation:
        return submit(job, connect=federation.connect)


_WAYS: dict[str, Callable[[Job, Paths, Paths, Path], dict[str, Any]]] = {
    "in-process": _in_process,
    "flower-simulation": _flower_simulation,
    "flower-node": _flower_node,
    "flower-stock-supernode": _flower_stock,
    "flare-simulator": _flare_simulator,
    "flare-mtls": _flare_mtls,
}


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engines",
        description="Seconds per round of FedWaD, by engine.",
    )
    parser.add_argument("--rounds", type=int, default=8, help="rounds to measure (8)")
    parser.add_argument("--ways", nargs="+", choices=list(_WAYS), default=list(_WAYS))
    options = parser.parse_args()
    with TemporaryDirectory(prefix="fedwad-", ignore_cleanup_errors=True) as name:
        found = measure(
            Path(name), options.rounds, options.ways, lambda line: print(line, file=sys.stderr)
        )
    cases = "".join(f" S={support}, d={features} |" for support, features in CASES)
    print(f"| seconds per round |{cases}")
    print("|---|" + "---|" * len(CASES))
    for way, seconds in found.items():
        cells = "".join(f" {median:.2g} ({fastest:.2g}) |" for median, fastest in seconds)
        print(f"| {way} |{cells}")


if __name__ == "__main__":
    main()
