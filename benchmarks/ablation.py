"""What each fixed number that is statistical or tuned does: half, twice, or taken away.

    python -m benchmarks.ablation [--only TEXT]
    python -m benchmarks calibration

The first patches a copy of the package, one number at a time, and runs a task with it in a process
of its own: seconds, and errors or power where the task has them. The second tries variants of the
calibration of `value` on families that set nothing in it.
"""

# ruff: noqa: B023 - functions are called before their variables change

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks import truth

Row = dict[str, Any]
Result = dict[str, float]
SOURCE = Path(__file__).parents[1] / "src"


def best(work: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU seconds of some calls, after one that compiles."""
    work()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def small_supports() -> Result:
    """Many samples against few sinks, cold and warm, equal and unequal weights."""
    from fedwad.transport import ground_cost
    from fedwad.transport._small import small_support

    found = {}
    problems = (10_000, 10, 20), (10_000, 100, 20), (10_000, 300, 2), (3000, 1000, 2), (4000, 40, 2)
    for n, size, d in problems:
        rng = np.random.default_rng(n + size)
        x, y = rng.normal(size=(n, d)), rng.normal(size=(size, d)) + 0.5
        cost, a, b = ground_cost(x, y), np.full(n, 1 / n), np.full(size, 1 / size)
        cold = small_support(cost, a, b)
        near = ground_cost(x, y + 0.05 * rng.normal(size=y.shape))
        found[f"{n} x {size}"] = best(lambda: small_support(cost, a, b))
        found[f"{n} x {size}, warm"] = best(lambda: small_support(near, a, b, cold.g))
        if n == 4000:
            weights = rng.random(n)
            weights /= weights.sum()
            found["weights"] = best(lambda: small_support(cost, weights, b))
    return found


def assignments() -> Result:
    """Proven and nearly optimal assignments, and many small transports."""
    from fedwad.transport import Measure, pair_distances, solve
    from fedwad.transport.nearly import near_squares

    rng = np.random.default_rng(0)
    found = {}
    for n in (400, 1500):
        a, b = Measure(rng.normal(size=(n, 10))), Measure(rng.normal(size=(n, 10)))
        found[f"proven {n}"] = best(lambda: solve(a, b), 2)
        exact = solve(a, b).cost
        found[f"nearly {n}"] = best(lambda: list(near_squares({0: a, 1: b}, [(0, 1)])))
        found[f"error {n}"] = next(near_squares({0: a, 1: b}, [(0, 1)]))[1] / exact - 1
    many = {k: Measure(rng.normal(size=(10, 8)) + 0.1 * k) for k in range(60)}
    pairs = [(i, j) for i in many for j in range(i)]
    found["1770 small pairs"] = best(lambda: list(pair_distances(many, pairs)))
    return found


def costs() -> Result:
    """Costs between points, k-means cells and summaries."""
    from fedwad.statistics import summarise
    from fedwad.transport import Measure, ground_cost

    rng = np.random.default_rng(0)
    found = {}
    for n, m, d in ((20_000, 100, 5), (20_000, 100, 50), (3000, 1000, 784)):
        x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
        found[f"cost {n} x {m}, d={d}"] = best(lambda: ground_cost(x, y), 5)
    for n, d in ((1500, 30), (50_000, 20), (3000, 200)):
        one = Measure(rng.normal(size=(n, d)))
        found[f"summary {n}, d={d}"] = best(lambda: summarise(one))
    return found


def estimates() -> Result:
    """Estimates of `value` with the calibration: seconds, and errors over harsh families."""
    found = [_case(name, n, kind) for name in HARSH for n in (60, 300) for kind in ("full", "diag")]
    errors = np.abs([one["value"] / one["exact"] - 1 for one in found])
    return {
        "site": sum(one["site s"] for one in found),
        "server": sum(one["server s"] for one in found),
        "median error": float(np.median(errors)),
        "above 5%": float(np.mean(errors > 0.05)),
        "above 20%": float(np.mean(errors > 0.2)),
    }


def pairs() -> Result:
    """Estimates of large pairs and of many pairs: seconds and errors."""
    from fedwad.statistics import summarise
    from fedwad.statistics.synthetic import synthetic_distances
    from fedwad.transport import Measure, solve

    found = {}
    rng = np.random.default_rng(0)
    errors = []
    for d, shift in ((5, 0.3), (30, 0.1)):
        x, y = (Measure(rng.normal(size=(3000, d)) + k * shift) for k in (0, 1))
        two = [summarise(x), summarise(y)]
        found[f"3000 rows, d={d}"] = best(lambda: synthetic_distances(two, [(0, 1)]), 1)
        errors.append(synthetic_distances(two, [(0, 1)])[0, 1] / solve(x, y).distance - 1)
    x, y = (Measure(rng.normal(size=(n, 10)) + k * 0.3) for k, n in ((0, 1000), (1, 1200)))
    two = [summarise(x), summarise(y)]
    found["1000 and 1200 rows"] = best(lambda: synthetic_distances(two, [(0, 1)]), 1)
    errors.append(synthetic_distances(two, [(0, 1)])[0, 1] / solve(x, y).distance - 1)
    for sites in (15, 60):
        data = [Measure(rng.normal(size=(150, 5)) + 0.1 * k) for k in range(sites)]
        some = [summarise(one) for one in data]
        every = [(i, j) for i in range(sites) for j in range(i)]
        found[f"{sites} sites"] = best(lambda: synthetic_distances(some, every), 1)
        values = synthetic_distances(some, every)
        errors += [
            values[i, j] / solve(data[i], data[j]).distance - 1
            for i, j in every[:: max(1, len(every) // 60)]
        ]
    return found | {"median error": float(np.median(np.abs(errors)))}


def tests() -> Result:
    """The test and the order statistics: seconds, power over six alternatives, lower ends."""
    from fedwad.statistics.order import order_statistics
    from fedwad.statistics.populations import population_distances
    from fedwad.statistics.testing import permutation_test

    names = "t4 tails", "zero-inflated", "one of 100 columns", "shift, 30/300", "shift", "ring"
    found, seconds = [], 0.0
    for name in names:
        first, second, sizes, _ = truth.ALTERNATIVES[name]
        for run in range(30):
            rng = np.random.default_rng([run, 20])
            x, y = first(rng, sizes[0]), second(rng, sizes[1])
            start = time.process_time()
            two = truth.blocks([x, y], rng)
            found.append(permutation_test(two, seed=run).pvalue <= 0.05)
            seconds += time.process_time() - start
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100_000, 20))
    halves = [order_statistics(rows[k::2], rng) for k in (0, 1)]
    return {
        "power": float(np.mean(found)),
        "tests": seconds,
        "order statistics": best(lambda: order_statistics(rows, rng), 1),
        "populations": best(lambda: population_distances(halves)),
    }


def clusters() -> Result:
    """Numbers of clusters that are suggested for exact distances of planted groups, and of none."""
    from fedwad.compare.clusters import suggest
    from fedwad.transport import Measure, solve

    wrong, chains = [], []
    for run in range(20):
        rng = np.random.default_rng([run, 35])
        for sites, groups, apart in ((3, 1, 0), (3, 2, 3), (8, 1, 0), (8, 2, 2), (12, 3, 2)):
            centres = apart * rng.normal(size=(groups, 4))
            data = [Measure(rng.normal(size=(40, 4)) + centres[k % groups]) for k in range(sites)]
            table = np.zeros((sites, sites))
            for i, j in zip(*np.triu_indices(sites, 1), strict=True):
                table[i, j] = table[j, i] = solve(data[i], data[j]).distance
            wrong.append(suggest(table).k != groups)
        line = np.arange(10.0) + 0.1 * rng.normal(size=10)
        chains.append(suggest(np.abs(line[:, None] - line)).k != 1)
    return {"error of groups": float(np.mean(wrong)), "error of chains": float(np.mean(chains))}


def hubs() -> Result:
    """Matrices through a hub with 40 and 100 features: seconds and errors of both bounds."""
    import fedwad
    from fedwad.methods import Hub
    from fedwad.transport import Measure, solve

    found, errors = {}, []
    for d in (40, 100):
        rng = np.random.default_rng(d)
        scales = 1 / np.sqrt(1 + np.arange(d))
        data = {f"s{k}": rng.normal(size=(300, d)) * scales + 0.1 * (k % 3) for k in range(8)}
        found[f"hub, d={d}"] = best(lambda: fedwad.matrix(data, Hub(), n_jobs=1), 1)
        m = fedwad.matrix(data, Hub(), n_jobs=1)
        for i, j in ((0, 1), (0, 2), (3, 4)):
            exact = solve(*(Measure(data[f"s{k}"]) for k in (i, j))).distance
            errors.append(abs(m.value[i, j] / exact - 1))
    return found | {"mean error": float(np.mean(errors))}


TASKS: dict[str, Callable[[], Result]] = {
    one.__name__: one
    for one in (small_supports, assignments, costs, estimates, pairs, tests, clusters, hubs)
}


# Families that set nothing in the calibration.


def _laplace(d: int, shift: float) -> truth.Sample:
    return lambda rng, n: rng.laplace(size=(n, d)) + shift * (np.arange(d) == 0)


def _cube(d: int) -> truth.Sample:
    return lambda rng, n: rng.uniform(-1, 1, (n, d))


def _swiss(shift: float) -> truth.Sample:
    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        u = 1.5 * np.pi * (1 + 2 * rng.random(n))
        return np.column_stack([u * np.cos(u) / 5, 3 * rng.random(n) + shift, u * np.sin(u) / 5])

    return draw


def _low_rank(scale: float) -> truth.Sample:
    loadings = np.random.default_rng(3).normal(size=(3, 40))
    return lambda rng, n: (
        scale * rng.normal(size=(n, 3)) @ loadings + 0.1 * rng.normal(size=(n, 40))
    )


def _blobs(spread: float) -> truth.Sample:
    places = 4 * np.random.default_rng(8).normal(size=(15, 6))
    return lambda rng, n: places[rng.integers(0, 15, n)] + spread * rng.normal(size=(n, 6))


def _counts(rate: float) -> truth.Sample:
    return lambda rng, n: rng.poisson(rate, (n, 12)) / np.sqrt(2)


HARSH: dict[str, tuple[truth.Sample, truth.Sample]] = {
    "Laplace, same": (_laplace(10, 0), _laplace(10, 0)),
    "Laplace, shift": (_laplace(10, 0), _laplace(10, 1)),
    "cube, same": (_cube(8), _cube(8)),
    "cube and normal": (_cube(8), lambda rng, n: rng.normal(size=(n, 8)) / np.sqrt(3)),
    "swiss roll, same": (_swiss(0), _swiss(0)),
    "swiss roll, shift": (_swiss(0), _swiss(1)),
    "low rank, same": (_low_rank(1), _low_rank(1)),
    "low rank, scale": (_low_rank(1), _low_rank(1.4)),
    "blobs, same": (_blobs(0.3), _blobs(0.3)),
    "blobs, wider": (_blobs(0.3), _blobs(1)),
    "counts, same": (_counts(1), _counts(1)),
    "counts, rate": (_counts(1), _counts(1.4)),
    "normal, d=100, same": (truth.normal(100), truth.normal(100)),
    "heteroscedastic": (truth.heteroscedastic, truth.heteroscedastic),
    "log-normal": (truth.log_normal(4), truth.log_normal(4)),
    "t3, d=20": (truth.student(3, 20), truth.student(3, 20)),
}


def _case(name: str, n: int, kind: Any, m: int = 0, **options: Any) -> Row:
    """What is known of one pair: the exact distance, the estimates and the calibrations."""
    from fedwad.statistics import beyond_chance, calibrate, estimate, summarise
    from fedwad.transport import Measure
    from fedwad.transport.nearly import near_squares

    first, second = HARSH[name]
    rng = np.random.default_rng([n, m, list(HARSH).index(name)])
    x, y = Measure(first(rng, n)), Measure(second(rng, m or n))
    exact = next(near_squares({0: x, 1: y}, [(0, 1)], compiled=lambda _: False))[1] ** 0.5
    start = time.process_time()
    two = [summarise(one, 10, kind) for one in (x, y)]
    calibrations = [calibrate(one, 10, kind, **options) for one in (x, y)]
    middle = time.process_time()
    plain = estimate(two)
    found = beyond_chance(plain.value, two, calibrations)
    assert found is not None
    end = time.process_time()
    value = float(np.clip(found.value, plain.lower, plain.upper)[0, 1])
    return {
        "exact": exact, "plain": plain.value[0, 1], "value": value, "noise": found.noise[0, 1],
        "site s": (middle - start) / 2, "server s": end - middle,
    }  # fmt: skip


VARIANTS: dict[str, dict[str, int]] = {
    "4 splits, halves of 150": {},
    "2 splits": {"splits": 2},
    "8 splits": {"splits": 8},
    "halves of 75": {"largest_half": 75},
    "halves of 300": {"largest_half": 300},
}


def value_variants() -> Iterator[Row]:
    """Errors of `value` by variants of the calibration on families that set nothing in it."""
    for variant, options in VARIANTS.items():
        cases = [
            _case(name, n, kind, **options)
            for name in HARSH
            for n in (60, 200, 400)
            for kind in ("full", "diag")
        ]
        if not options:
            yield _errors("no calibration", cases, "plain")
        yield _errors(variant, cases, "value")


def _errors(variant: str, cases: list[Row], key: str) -> Row:
    errors = np.array([one[key] / one["exact"] - 1 for one in cases])
    return {
        "variant": variant,
        "median error %": 100 * float(np.median(np.abs(errors))),
        "above 5% of cases": 100 * float(np.mean(np.abs(errors) > 0.05)),
        "above 20%": 100 * float(np.mean(np.abs(errors) > 0.2)),
        "mean error %": 100 * float(np.mean(np.minimum(np.abs(errors), 1))),
        "site ms": 1000 * float(np.mean([one["site s"] for one in cases])),
    }


#: Fixed numbers: file, text with the number, value that takes it away (if one does), task.
NUMBERS: tuple[tuple[str, str, str | None, str], ...] = (
    ("transport/_small/__init__.py", "far: float = 0.06", "0.0", "small_supports"),
    ("transport/_small/levels.py", "growth: int = 4", None, "small_supports"),
    ("transport/_small/levels.py", "coarsest: int = 4", None, "small_supports"),
    ("transport/_small/levels.py", "shrink: float = 5.0", None, "small_supports"),
    ("transport/_small/levels.py", "finest: float = 0.07", None, "small_supports"),
    ("transport/_small/levels.py", "bids: int = 6", None, "small_supports"),
    ("transport/_small/levels.py", "fewest: int = 32", "10**6", "small_supports"),
    ("transport/dense.py", "tolerance: float = 0.008", None, "assignments"),
    ("transport/dense.py", "coarsest: int = 64", "10**6", "assignments"),
    ("transport/dense.py", "growth: int = 4", None, "assignments"),
    ("transport/dense.py", "shrink: float = 5.0", None, "assignments"),
    ("transport/dense.py", "lanes: int = 32", None, "assignments"),
    ("transport/solving.py", "direct: int = 256", "10**6", "assignments"),
    ("transport/measures.py", "numbers: int = 1 << 17", None, "costs"),
    ("statistics/cells.py", "iterations: int = 25", None, "estimates"),
    ("statistics/cells.py", "sampled: int = 4096", "10**9", "costs"),
    ("statistics/calibration.py", "splits: int = 4", None, "estimates"),
    ("statistics/calibration.py", "largest_half: int = 150", "10**6", "estimates"),
    ("statistics/summaries.py", "RANK = 40", None, "estimates"),
    ("statistics/synthetic.py", "    points: int = 4000", None, "estimates"),
    ("statistics/synthetic.py", "    near: float = 1.25", "1.0", "pairs"),
    ("statistics/synthetic.py", "    sizes: tuple[int, ...] = (125, 250, 500, 1500)",
     "(500, 1500)", "pairs"),
    ("statistics/synthetic.py", "    few_pairs: int = 10", None, "pairs"),
    ("statistics/synthetic.py", "    some_pairs: int = 200", None, "pairs"),
    ("statistics/synthetic.py", "    many_pairs: int = 1000", "10**9", "pairs"),
    ("statistics/synthetic.py", "    few_points: int = 100", None, "pairs"),
    ("statistics/synthetic.py", "    sampled: int = 24", None, "pairs"),
    ("statistics/synthetic.py", "    many_points: int = 512", "0", "estimates"),
    ("statistics/synthetic.py", "    worth_compiling: int = 500", "10**9", "pairs"),
    ("statistics/synthetic.py", "    kept_numbers: int = 1 << 25", "0", "pairs"),
    ("statistics/populations.py", "points: int = 64", None, "tests"),
    ("statistics/populations.py", "    splits: int = 5", None, "tests"),
    ("statistics/order.py", "    max_level: int = 32", None, "tests"),
    ("statistics/order.py", "    max_parts: int = 256", None, "tests"),
    ("statistics/order.py", "tolerance: float = 1e-6", None, "tests"),
    ("statistics/blocking.py", "    far: float = 9.0", "1e9", "tests"),
    ("statistics/blocking.py", "    clip: float = 2.0", "6.0", "tests"),
    ("statistics/blocking.py", "PAIRED = 8", "0", "tests"),
    ("transport/costs.py", "cancelled: float = 1e-4", "0.0", "costs"),
    ("transport/dense.py", "bids: int = 1000", None, "assignments"),
    ("transport/_small/levels.py", "    steps: int = 50", None, "small_supports"),
    ("compare/clusters.py", "largest_gap >= (0.5 if count > 3 else 1.5)",
     "(0.0 if count > 3 else 1.5)", "clusters"),
    ("compare/clusters.py", "largest_gap >= (0.5 if count > 3 else 1.5)", "0.5", "clusters"),
    ("compare/clusters.py", "least_bandwidth: float = 0.1", "0.0", "clusters"),
    ("compare/clusters.py", "ratio: float = 1.5", "1.0", "clusters"),
    ("compare/hub.py", "MAX_FULL_FEATURES = 64", "0", "hubs"),
    ("statistics/blocking.py", "per_size: int = 32", None, "tests"),
    ("statistics/blocking.py", "joint: int = 8", None, "tests"),
    ("statistics/blocking.py", "grid: float = 1 / 3", "0.0", "tests"),
    ("statistics/testing.py", "_WEIGHTS = (2.0, 2.0, 1.0, 1.0, 1.0, 1.0)",
     "(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)", "tests"),
)  # fmt: skip


def patches(text: str, without: str | None) -> Iterator[tuple[str, str]]:
    """Half and twice a single number, and what takes it away."""
    name, _, value = text.rpartition("=")
    if "," not in value and " if " not in value:
        for label, factor in (("half", 0.5), ("twice", 2.0)):
            number = factor * eval(value)  # noqa: S307 - of the list above
            is_whole = "." not in value and "/" not in value
            yield label, f"{name}= {max(1, round(number)) if is_whole else number}"
    if without is not None:
        yield "without", f"{name}= {without}"


def patched(folder: Path, change: tuple[str, str, str] | None, task: str) -> Result:
    """The result of a task with a change of one file, in a process of its own.

    The file is put back as it was, so what was compiled of the others stays in `folder`.
    """
    if change is not None:
        path = folder / "fedwad" / change[0]
        code, times = path.read_text(), path.stat()
        assert code.count(change[1]) == 1, change
        path.write_text(code.replace(change[1], change[2]))
    root = str(Path(__file__).parents[1])
    keep = {"PYTHONPATH": os.pathsep.join([str(folder), root]), "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "benchmarks.ablation", "--task", task],
        env=os.environ | keep, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if change is not None:
        path.write_text(code)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return json.loads(done.stdout) if done.returncode == 0 else {}


def verdict(before: Result, after: Result) -> tuple[str, str]:
    """The largest effects on seconds and on errors, and whether the number matters.

    Seconds count from 15% on, errors and power from one percentage point on.
    """
    if not after:
        return "does not run", "needed"
    errors = [key for key in before if "error" in key or "above" in key or key == "power"]
    times = {key: after[key] / before[key] - 1 for key in before if key not in errors}
    slow = max(times, key=lambda key: abs(times[key]), default="")
    mean = sum(times.values()) / len(times) if times else 0.0
    texts = [f"{slow} {times[slow]:+.0%} (mean {mean:+.0%})"] if times else []
    if errors:
        worst = max(errors, key=lambda key: abs(after[key] - before[key]))
        texts.append(f"{worst} {before[worst]:.1%} to {after[worst]:.1%}")
        if abs(after[worst] - before[worst]) >= 0.01:
            return "; ".join(texts), "matters"
    matters = bool(times) and abs(times[slow]) >= 0.15
    return "; ".join(texts), "matters" if matters else "no effect"


def numbers(only: str = "") -> Iterator[Row]:
    """What each fixed number does: half, twice, or taken away."""
    before: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(SOURCE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.nb?"))
        for path, text, without, task in NUMBERS:
            if only not in path + text:
                continue
            if task not in before:
                before[task] = patched(folder, None, task)
            for label, new in patches(text, without):
                effect, says = verdict(before[task], patched(folder, (path, text, new), task))
                yield {"number": f"{path}: {text.strip()}", "is": label, "effect": effect,
                       "verdict": says}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--task", choices=[*TASKS])
    given = parser.parse_args()
    if given.task:
        print(json.dumps(TASKS[given.task]()))
        return
    for row in numbers(given.only):
        print("|", " | ".join(row.values()), "|", flush=True)


if __name__ == "__main__":
    main()
