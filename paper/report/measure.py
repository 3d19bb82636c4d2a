"""What the report shows, measured; each part is kept in numbers/NAME.json."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from fedwad.compare import FedWaDLoop
from fedwad.methods import FedWaD
from fedwad.transport import Floats, Measure

KEPT = Path(__file__).with_name("numbers")
ROOT = Path(__file__).parents[2]
Rows = list[dict[str, Any]]


def counterexample() -> Rows:
    """FedWaD from the midpoints of the counterexample to Theorem 2: the error after 200 rounds."""
    mu, nu = Measure([[0.0, 0.0], [1.0, 0.0]]), Measure([[0.5, 2.0], [0.0, 1.0]])
    exact = fedwad.wasserstein(mu.points, nu.points)
    rows = []
    places: list[Any] = [round(0.02 * k, 2) for k in range(1, 50)]
    for t, seed in [*product(places, [0]), *product(["random", "own"], range(20))]:
        start = 0.5 if isinstance(t, str) else t
        first = Measure((1 - start) * mu.points + start * nu.points)
        loop = FedWaDLoop(first, FedWaD(t=t), rng=np.random.default_rng(seed))
        for number in range(1, 201):
            loop.request()
            loop.advance(loop.reply(mu), loop.reply(nu))
            if isinstance(t, str) and number in (5, 20, 200):
                error = loop.estimate(mu, nu) / exact - 1
                rows.append({"t": t, "seed": seed, "rounds": number, "error": error})
        if not isinstance(t, str):
            rows.append({"t": t, "rounds": 200, "error": loop.estimate(mu, nu) / exact - 1})
    return rows


def attacks() -> Rows:
    """Records of 200 digits that a curious server reconstructs, by policy and attack."""
    points = fedwad.datasets.load("digits", samples=200, seed=0)[0]
    policies = {"all requests answered": None, "policy for rounds": "rounds"}
    policies |= {"policy to start with": "summary"}
    rows = []
    for name, file in policies.items():
        policy = None if file is None else ROOT / f"docs/policies/{file}.toml"
        for method in ("fedwad", "summary", "test"):
            for row in fedwad.audit(points, policy, method).rows:
                if row.attack != "membership":
                    kept = {"policy": name, "method": method, "attack": row.attack}
                    rows.append(kept | {"records": row.score.exact, "messages": row.answered})
    return rows


def populations() -> Rows:
    """One population, and a shift of 0.2 in each of 20 columns: what is estimated from n rows."""
    rows = []
    for shift, n, seed in product((0.0, 0.2), (50, 100, 200, 500, 1000, 2000), range(10)):
        rng = np.random.default_rng([n, seed])
        x, y = rng.normal(size=(n, 20)), rng.normal(shift, 1, (n, 20))
        found = fedwad.distance(x, y)
        low, high = found.population_interval or (np.nan, np.nan)
        kept: dict[str, Any] = {"shift": shift, "n": n, "seed": seed, "truth": shift * 20**0.5}
        kept |= {"exact": fedwad.wasserstein(x, y), "value": found.value, "differs": found.differs}
        rows.append(kept | {"population": found.population, "low": low, "high": high})
    return rows


def _families() -> dict[str, tuple[Callable[[Any, int], Floats], Callable[[Any, int], Floats]]]:
    """Two populations for each name; those whose distance is known in closed form have it below."""
    root = np.linalg.cholesky(0.5 * np.eye(10) + 0.5)

    def ring(rng: Any, n: int) -> Floats:
        points: Floats = rng.normal(size=(n, 2))
        return np.asarray(np.sqrt(2) * points / np.linalg.norm(points, axis=1)[:, None])

    return {
        "shift of 0.5 in each of 5": (
            lambda rng, n: rng.normal(size=(n, 5)),
            lambda rng, n: rng.normal(0.5, 1, (n, 5)),
        ),
        "scale 1.5 in each of 5": (
            lambda rng, n: rng.normal(size=(n, 5)),
            lambda rng, n: rng.normal(0, 1.5, (n, 5)),
        ),
        "exponential and its mirror, d = 2": (
            lambda rng, n: rng.exponential(size=(n, 2)) - 1,
            lambda rng, n: 1 - rng.exponential(size=(n, 2)),
        ),
        "correlation 0.5, d = 10": (
            lambda rng, n: rng.normal(size=(n, 10)),
            lambda rng, n: rng.normal(size=(n, 10)) @ root.T,
        ),
        "circle and normal, d = 2": (ring, lambda rng, n: rng.normal(size=(n, 2))),
    }


def families() -> Rows:
    """Distances between populations of 300 rows; the truth is exact or of 4000 rows a side."""
    roots = np.sqrt(np.array([5.5] + [0.5] * 9))
    grid = (np.arange(100_000) + 0.5) / 100_000
    quantiles = -np.log1p(-grid) - 1
    skewed = np.mean((quantiles + quantiles[::-1]) ** 2)
    radius = np.sqrt(-2 * np.log1p(-grid))
    truth = {
        "shift of 0.5 in each of 5": (5 * 0.25) ** 0.5,
        "scale 1.5 in each of 5": (5 * 0.25) ** 0.5,
        "exponential and its mirror, d = 2": float((2 * skewed) ** 0.5),
        "correlation 0.5, d = 10": float(((roots - 1) ** 2).sum() ** 0.5),
        "circle and normal, d = 2": float(np.mean((radius - 2**0.5) ** 2) ** 0.5),
    }
    rows = []
    for (name, (first, second)), seed in product(_families().items(), range(20)):
        rng = np.random.default_rng(seed)
        x, y = first(rng, 300), second(rng, 300)
        found = fedwad.distance(x, y)
        low, high = found.population_interval or (np.nan, np.nan)
        kept: dict[str, Any] = {
            "family": name,
            "seed": seed,
            "truth": truth[name],
            "value": found.value,
        }
        kept |= {"exact": fedwad.wasserstein(x, y), "differs": found.differs}
        rows.append(kept | {"population": found.population, "low": low, "high": high})
    return rows


def _energy(x: Floats, y: Floats, rng: np.random.Generator, draws: int = 199) -> float:
    """The p-value of the energy distance by permutations of pooled rows."""
    pooled = np.concatenate([x, y])
    apart = np.linalg.norm(pooled[:, None] - pooled[None], axis=2)
    n = len(x)
    signs = np.repeat([1 / n, -1 / len(y)], [n, len(y)])
    mixed = np.array([signs] + [rng.permutation(signs) for _ in range(draws)])
    found = -np.einsum("ki,ij,kj->k", mixed, apart, mixed)
    return float((found >= found[0] - 1e-12).mean())


def power() -> Rows:
    """P-values of the block test, and of the energy distance with pooled rows, n = 100, d = 5."""
    rows = []
    cases = [("shift", size, 60) for size in (0.1, 0.2, 0.3, 0.4, 0.5)]
    cases += [("scale", size, 60) for size in (0.1, 0.2, 0.3, 0.4, 0.5)]
    for kind, size, runs in [("none", 0.0, 300), *cases]:
        for seed in range(runs):
            rng = np.random.default_rng([seed, round(100 * size)])
            x, y = rng.normal(size=(100, 5)), rng.normal(size=(100, 5))
            y = y * (1 + size) if kind == "scale" else y + size
            kept = {"kind": kind, "size": size, "seed": seed, "energy": _energy(x, y, rng)}
            rows.append(kept | {"blocks": fedwad.permutation_test(x, y).pvalue})
    return rows


PARTS: dict[str, Callable[[], Rows]] = {
    "counterexample": counterexample,
    "attacks": attacks,
    "populations": populations,
    "families": families,
    "power": power,
}


def numbers(name: str, fresh: bool = False) -> Rows:
    """The rows of a part, measured if they are not kept or if `fresh`."""
    path = KEPT / f"{name}.json"
    if fresh or not path.exists():
        KEPT.mkdir(exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fedwad.errors.DataWarning)
            found = PARTS[name]()
        lines = ",\n".join(json.dumps(row, default=float) for row in found)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    rows: Rows = json.loads(path.read_text(encoding="utf-8"))
    return rows
