"""Where the seconds of a round on Flower go, with our nodes, TLS and keys on this machine.

    python -m benchmarks.engines_parts

prints median milliseconds of a round of FedWaD between two sites, by part, in the order in which
they come. Parts of a node are means over both nodes.
"""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.engines import _NAMES, CASES, _write_sites
from fedwad.engines.job import Job

ROUNDS = 20

#: Every process of Flower loads this at its start: it notes when some calls began and ended.
_NOTE = """
import importlib.abc, importlib.util, json, os, sys, time

NOTED = {
    "fedwad.engines.flower.grid": [("MessageQueue", "send"), ("MessageQueue", "collect")],
    "fedwad.engines.flower._internals": [
        ("SuperLinkClient", "receive"), ("SuperLinkClient", "fetch"), ("SuperLinkClient", "send")
    ],
}


def noting(owner, name):
    plain = getattr(owner, name)

    def call(*arguments, **options):
        began = time.time()
        found = plain(*arguments, **options)
        if found or name == "send":
            line = [owner.__name__, name, os.getpid(), began, time.time()]
            with open(os.path.join(os.environ["NOTES"], str(os.getpid())), "a") as file:
                file.write(json.dumps(line) + "\\n")
        return found

    setattr(owner, name, call)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in NOTED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        run = spec.loader.exec_module

        def run_and_patch(module):
            run(module)
            for owner, method in NOTED[name]:
                noting(getattr(module, owner), method)

        spec.loader.exec_module = run_and_patch
        return spec


sys.meta_path.insert(0, Finder())
"""


def run(folder: Path, support: int, features: int) -> list[list[Any]]:
    """The noted calls of a job, in the order of their beginnings."""
    from tests.engines.flower_loopback import Loopback

    notes = folder / "notes"
    notes.mkdir()
    (notes / "sitecustomize.py").write_text(_NOTE, encoding="utf-8")
    path = os.pathsep.join([str(notes), *filter(None, [os.environ.get("PYTHONPATH")])])
    data, policies = _write_sites(folder / "sites", features)
    job = Job("distance", _NAMES, {"method": "fedwad", "support": support, "rounds": ROUNDS})
    home = folder / "flower"
    home.mkdir()
    with Loopback(home, {"NOTES": str(notes), "PYTHONPATH": path}) as loopback:
        for name, file in data.items():
            loopback.site(name, file, policies[name])
        loopback.submit(job)
    lines = [line for file in notes.glob("[0-9]*") for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda call: call[3])


def parts(calls: list[list[Any]]) -> dict[str, float]:
    """Median milliseconds of a round by part."""
    sends = [call for call in calls if call[:2] == ["MessageQueue", "send"]][-ROUNDS:]
    found: dict[str, list[float]] = {}
    for (*_, began, _), (*_, following, _) in pairwise(sends):
        own = [call for call in calls if began <= call[3] and call[4] <= following]
        nodes: dict[int, dict[str, tuple[float, float]]] = {}
        for owner, name, process, start, end in own:
            if owner == "SuperLinkClient":
                nodes.setdefault(process, {})[name] = start, end
        collected = max(call[4] for call in own if call[1] == "collect")
        if len(nodes) < len(_NAMES) or any(len(one) < 3 for one in nodes.values()):
            continue  # a call was cut off
        fetched = np.mean([one["fetch"][1] for one in nodes.values()])
        computed, replied = np.mean([one["send"] for one in nodes.values()], axis=0)
        row = {
            "until a node has the message": fetched - began,
            "a node computes": computed - fetched,
            "a node sends its reply": replied - computed,
            "until the server has all replies": collected - replied,
            "the server computes": following - collected,
            "together": following - began,
        }
        for name, seconds in row.items():
            found.setdefault(name, []).append(1000 * float(seconds))
    return {name: float(np.median(values)) for name, values in found.items()}


def main() -> None:
    """Print a table for each case."""
    for support, features in CASES:
        with TemporaryDirectory(prefix="fedwad-", ignore_cleanup_errors=True) as name:
            found = parts(run(Path(name), support, features))
        print(f"| S={support}, d={features} | ms |\n|---|---|")
        for part, milliseconds in found.items():
            print(f"| {part} | {milliseconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
