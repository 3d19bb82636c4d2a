"""What the first distance, the first rounds and the first matrix on a machine compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

CALLS = {
    "first distance": "fedwad.distance(X[:400], Y[:400])",
    "first rounds": "fedwad.distance(X, Y, method='fedwad', support=20, rounds=2)",
    "first matrix": "fedwad.matrix({f's{k}': X[60 * k : 60 * k + 60] for k in range(35)})",
    "labelled matrix": (
        "fedwad.matrix({f's{k}': (X[60 * k : 60 * k + 60], y) for k in range(35)}, labels=True)"
    ),
    "warm-up": "fedwad.transport.warm_up()",
}

_PROGRAM = """
import json, time
from numba.core import event
import numpy as np, fedwad, fedwad.transport
class Clock(event.Listener):
    depth, seconds, functions = 0, 0.0, 0
    def on_start(self, event):
        self.functions += 1
        if not self.depth:
            self.began = time.process_time()
        self.depth += 1
    def on_end(self, event):
        self.depth -= 1
        if not self.depth:
            self.seconds += time.process_time() - self.began
clock = Clock()
event.register("numba:compile", clock)
X, Y = np.random.default_rng(0).normal(size=(2, 6000, 3))
y = np.arange(60) % 3
start = time.process_time()
CALL
print(json.dumps([clock.seconds, clock.functions, time.process_time() - start]))
"""


def measure() -> list[dict[str, Any]]:
    """One row for each call, in one empty cache, each in a process of its own."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | {"NUMBA_CACHE_DIR": folder}
        for name, call in CALLS.items():
            done = subprocess.run(  # noqa: S603 - this Python
                [sys.executable, "-c", _PROGRAM.replace("CALL", call)],
                env=variables,
                check=True,
                capture_output=True,
                text=True,
            )
            seconds, functions, total = json.loads(done.stdout.splitlines()[-1])
            rows.append(
                {
                    "call": name,
                    "compiling, processor s": seconds,
                    "functions": functions,
                    "call in all, processor s": total,
                }
            )
    return rows
