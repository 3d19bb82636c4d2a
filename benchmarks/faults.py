"""What is lost, and after how many seconds who says what, when a site or the server goes away.

    python -m benchmarks.faults [flower|flare]

Two sites run 40 rounds between processes with TLS. In round 3 one thing happens, and a row of the
table says what became of the run: the digits of a run in process, or the error.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tests.engines.deployments import SITES

import fedwad
from fedwad.engines.job import Job, run
from fedwad.errors import FedwadError

NAMES = ("oslo", "paris")
_POLICY = """\
name = "{}"
allow = ["describe", "columns", "summary", "transport", "cells"]
min_cell_size = 1
rounding = 0.0
"""


def job(seed: int) -> Job:
    """Rounds of a seed of their own, so that no reply is repeated from an earlier run."""
    options = {"method": "fedwad", "support": 6, "rounds": 40, "reveal": "every", "seed": seed}
    return Job("distance", NAMES, options)


def run_disturbed(sites: Any, what: Job, disturb: Callable[[], None], **options: Any) -> str:
    """Disturb a run in round 3; the outcome in words.

    Seconds are the longest time without an answered round from then on, or those to the error.
    """
    said: list[tuple[float, str]] = []
    found: dict[str, Any] = {}

    def submit() -> None:
        try:
            found["result"] = sites.submit(
                what,
                timeout=400.0,
                round_timeout=120.0,
                on_progress=lambda line: said.append((time.monotonic(), line)),
                **options,
            )
        except FedwadError as error:
            found["error"] = error
        found["end"] = time.monotonic()

    def answered() -> list[float]:
        return [when for when, line in said if "answered" in line]

    thread = threading.Thread(target=submit)
    thread.start()
    while len(answered()) < 5 and thread.is_alive():
        time.sleep(0.02)
    start = time.monotonic()
    disturb()
    thread.join()
    if "error" in found:
        seconds = found["end"] - start
        return f"the run, {seconds:.0f} s: `{found['error']}` ({found['error'].code})"
    rounds = [start, *(when for when in answered() if when > start)]
    seconds = max((b - a for a, b in pairwise(rounds)), default=0.0)
    expected = run(what, fedwad.local(sites.data))["value"]
    same = "the same digits" if found["result"]["value"] == expected else "OTHER DIGITS"
    sentence = [f": `{line[:160]}`" for _, line in said if "return" in line or "back" in line]
    return f"nothing ({same}), {seconds:.0f} s" + "".join(sentence[:1])


def undisturbed() -> None:
    """Nothing happens."""


def main() -> None:
    """Print a table in Markdown, row by row."""
    engine = sys.argv[1] if len(sys.argv) > 1 else "flower"
    with TemporaryDirectory(prefix="fedwad-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        data = {site: folder / f"{site}.npy" for site in NAMES}
        policies = {site: folder / f"{site}.toml" for site in NAMES}
        for number, site in enumerate(NAMES):
            rows = np.random.default_rng(number).normal(number, 1.0, (80, 3))
            np.save(data[site], rows)
            policies[site].write_text(_POLICY.format(site), encoding="utf-8")
        print(
            f"| in round 3 of 40 | lost on {engine}, seconds from then on |\n|---|---|", flush=True
        )

        def row(text: str, outcome: str) -> None:
            print(f"| {text} | {outcome} |", flush=True)

        with SITES[engine](folder / "engine", data, policies) as sites:

            def stop() -> None:
                stopped = sites.processes("oslo")
                for process in stopped:
                    process.suspend()
                time.sleep(40)
                for process in stopped:
                    process.resume()

            def restart() -> None:
                sites.kill("oslo")
                time.sleep(3)
                sites.start("oslo")

            def restart_server() -> None:
                sites.kill_server()
                time.sleep(3)
                sites.start_server()

            def change() -> None:
                np.save(data["oslo"], np.load(data["oslo"])[1:])

            row("nothing happens", run_disturbed(sites, job(1), undisturbed))
            row("the node is stopped for 40 s", run_disturbed(sites, job(2), stop))
            row(
                "the node is killed and starts again 3 s later",
                run_disturbed(sites, job(3), restart),
            )
            server = run_disturbed(sites, job(4), restart_server)
            row("the server is killed and starts again 3 s later", server)
            again = run_disturbed(sites, job(4), undisturbed, resume=True)
            row("the same question with `--resume`", again)
            gone = run_disturbed(sites, job(5), lambda: sites.kill("oslo"))
            row("the node is killed for good", gone)
            sites.start("oslo")
            row("the data file changes", run_disturbed(sites, job(6), change))
            row("the next question", run_disturbed(sites, job(7), undisturbed))


if __name__ == "__main__":
    main()
