"""One big pair: ours by one message, and tools that need both samples in one place.

Each tool runs in a process of its own, on one thread, after a warm-up, so that its processor time
and its memory are its own. A normal sample is compared with one of a mixture of four.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedwad

Floats = NDArray[np.float64]
Way = Callable[[Floats, Floats], tuple[float, ...]]

PAIRS = ((4000, 5), (2000, 50))
_LARGEST = {"OTT-JAX, a tenth of it": 2000}  # rows; it takes minutes beyond
_SMALL = 300
_PIVOTS = 10**8
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def pair(n: int, d: int, seed: int) -> tuple[Floats, Floats]:
    """A standard normal sample, and one of a mixture of four narrower normals."""
    rng = np.random.default_rng([n, d, seed])
    centres = rng.standard_normal((4, d))
    mixed = centres[rng.integers(4, size=n)] + 0.6 * rng.standard_normal((n, d))
    return rng.standard_normal((n, d)), mixed


# ---- The tools: each is prepared for n rows of d features, and returns the function to measure.


def _ours(*_: int) -> Way:
    def found(x: Floats, y: Floats) -> tuple[float, ...]:
        result = fedwad.distance(x, y)
        return result.value, result.lower, result.upper

    return found


def _ours_exact(*_: int) -> Way:
    return lambda x, y: (fedwad.wasserstein(x, y),)


def _pot(**options: Any) -> Callable[[int, int], Way]:
    def made(*_: int) -> Way:
        solve_sample = import_module("ot").solve_sample
        return lambda x, y: (math.sqrt(solve_sample(x, y, **options).value),)

    return made


def _geomloss(*_: int) -> Way:
    torch = import_module("torch")
    torch.set_num_threads(1)
    loss = import_module("geomloss").SamplesLoss("sinkhorn", p=2, backend="tensorized")

    def found(x: Floats, y: Floats) -> tuple[float, ...]:
        half = loss(*(torch.tensor(side, dtype=torch.float32) for side in (x, y)))
        return (math.sqrt(2 * half.item()),)  # its cost is half the squared distance

    return found


def _ott(part: float) -> Callable[[int, int], Way]:
    """Sinkhorn with `part` of OTT-JAX's default regularisation; the cost is that of its plan."""

    def made(n: int, d: int) -> Way:
        jax, linear = import_module("jax"), import_module("ott.solvers.linear")
        cloud = import_module("ott.geometry.pointcloud").PointCloud

        @jax.jit  # type: ignore[untyped-decorator]
        def cost(x: Any, y: Any) -> Any:
            default = cloud(x, y).epsilon
            return linear.solve(cloud(x, y, epsilon=part * default), max_iterations=10_000)

        side = jax.ShapeDtypeStruct((n, d), np.float32)
        compiled = cost.lower(side, side).compile()

        def found(x: Floats, y: Floats) -> tuple[float, ...]:
            call = compiled if len(x) == n else cost
            solved = call(x.astype(np.float32), y.astype(np.float32))
            assert bool(solved.converged)
            return (math.sqrt(float(solved.primal_cost)),)

        return found

    return made


_REGULARISED = "regularised, single precision"
# name: what it computes, whether rows are pooled, the package, the function
TOOLS: dict[str, tuple[str, str, str, Callable[[int, int], Way]]] = {
    "fedwad.distance": ("estimate, certified interval", "no", "fedwad", _ours),
    "fedwad.wasserstein": ("exact", "yes", "fedwad", _ours_exact),
    "POT": ("exact", "yes", "ot", _pot(max_iter=_PIVOTS)),
    "POT, lazy": ("exact", "yes", "ot", _pot(max_iter=_PIVOTS, lazy=True)),
    "POT, BSP": ("a good assignment", "yes", "ot", _pot(method="bsp")),
    "GeomLoss": (_REGULARISED + ", debiased", "yes", "geomloss", _geomloss),
    "OTT-JAX": (_REGULARISED, "yes", "ott", _ott(1.0)),
    "OTT-JAX, a tenth of it": (_REGULARISED, "yes", "ott", _ott(0.1)),
}


def _peak() -> float:
    """Largest memory of this program so far in MB, where Linux says so.

    `getrusage` would include that of the process that started it.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return found[0] / 1024 if found else math.nan


def _alone(tool: str, n: int, d: int) -> dict[str, Any]:
    """Measure one tool in this process; what it compiles for this size is compiled before."""
    way = TOOLS[tool][3](n, d)
    way(*pair(_SMALL, d, 0))
    before = _peak()
    if tool.startswith("fedwad"):
        way(*pair(n, d, 1))
    x, y = pair(n, d, 0)
    start = time.process_time()
    value, *interval = way(x, y)
    taken = time.process_time() - start
    return {"s": taken, "value": value, "interval": interval, "MB": _peak() - before}


def _measured(tool: str, n: int, d: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.big_pair", tool, str(n), str(d)]
    done = subprocess.run(  # noqa: S603 - this Python
        command, env=os.environ | _ONE_THREAD, check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(full: bool = False) -> Iterator[dict[str, Any]]:
    """One row for each tool and pair; errors and ratios are relative to POT's exact solver."""
    for n, d in PAIRS if full else PAIRS[-1:]:
        exact = _measured("POT", n, d)
        for tool, (computes, pooled, package, _) in TOOLS.items():
            if n > _LARGEST.get(tool, n):
                continue
            row = {"pair": f"{n} a side, d={d}", "tool": tool, "computes": computes}
            if find_spec(package) is None:
                yield row | {"computes": f"left out: {package} is not installed"}
                continue
            found = exact if tool == "POT" else _measured(tool, n, d)
            yield row | {"rows pooled": pooled} | _figures(found, exact)


def _figures(found: dict[str, Any], exact: dict[str, Any]) -> dict[str, Any]:
    interval = ", ".join(f"{100 * (end / exact['value'] - 1):+.0f}%" for end in found["interval"])
    return {
        "s": found["s"],
        "ratio": exact["s"] / found["s"],
        "error": f"{100 * (found['value'] / exact['value'] - 1):+.1f}%",
        "interval": interval,
        "MB": found["MB"],
    }


if __name__ == "__main__":
    print(json.dumps(_alone(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
