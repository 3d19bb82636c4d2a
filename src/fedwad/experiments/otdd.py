"""Distances between four real datasets, and how rounds, support and samples change them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwad
from fedwad.datasets import load
from fedwad.experiments._experiment import EXACT, OURS, PAPER, Claim, Experiment, Row, Settings, axes, mean_by, pick

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
_PAIRS = [f"{a} {b}" for a, b in combinations(_NAMES, 2)]


def _tasks(quick: bool) -> list[Settings]:
    n, draws = (300, 1) if quick else (5000, 3)
    small, large, many = (60, 300, 20) if quick else (1000, 5000, 500)
    rounds = 5 if quick else 20
    tasks: list[Settings] = []
    for pair in _PAIRS:
        for seed in range(draws):
            common = {"part": "datasets", "pair": pair, "n": n, "seed": seed}
            tasks += [common | {"method": "exact"}, common | {"method": "summary"}]
            tasks.append(common | {"method": "fedwad", "support": small, "rounds": rounds})
        one = {"part": "datasets", "pair": pair, "n": n, "seed": 0, "method": "fedwad"}
        tasks += [one | {"support": small, "rounds": many}, one | {"support": large, "rounds": rounds}]
    ablation = {"pair": _PAIRS[0], "seed": 0}
    for k in (1, 5, 10, 20) if quick else (1, 2, 5, 10, 20, 50):
        tasks.append(ablation | {"part": "rounds", "n": n, "method": "fedwad", "support": small, "rounds": k})
    for support in (10, 60) if quick else (10, 50, 100, 500, 1000, 2000):
        tasks.append(ablation | {"part": "support", "n": n, "method": "fedwad", "support": support, "rounds": 10})
    for size in (100, 300) if quick else (100, 300, 1000, 3000, 5000):
        chosen = ablation | {"part": "samples", "n": size}
        tasks += [chosen | {"method": "exact"}, chosen | {"method": "summary"}]
        supports = (10, 60) if quick else (100, 1000)
        tasks += [chosen | {"method": "fedwad", "support": s, "rounds": 10} for s in supports]
    return tasks


def _measure(
    pair: str,
    n: int,
    seed: int,
    method: str,
    part: str,  # noqa: ARG001 (the same setting may belong to two figures)
    support: int = 0,
    rounds: int = 0,
) -> list[Row]:
    first, second = (load(name, samples=n, seed=seed) for name in pair.split())
    start = time.perf_counter()
    if method == "exact":
        value: float | None = fedwad.ot.dataset_distance(*first, *second)
        extra: dict[str, Any] = {}
    elif method == "summary":
        result = fedwad.otdd(first, second, seed=seed)
        value, extra = result.value, {"lower": result.lower, "upper": result.upper, "bytes": result.traffic.up}
    else:
        result = fedwad.otdd(
            first, second, method="fedwad", support=support, rounds=rounds, seed=seed, form="isotropic"
        )
        value, extra = result.fedwad, {"upper": result.upper, "bytes": result.traffic.up}
    return [{"value": value, "seconds": time.perf_counter() - start, **extra}]


def _ways(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """What is compared over the four datasets: exact, ours, and the paper's settings in the order of its figure."""
    settings = dict.fromkeys((row["support"], row["rounds"]) for row in pick(rows, part="datasets", method="fedwad"))
    ways: list[tuple[str, dict[str, Any]]] = [("exact", {"method": "exact"})]
    ways.append(("ours, one message", {"method": "summary"}))
    ways += [(f"FedWaD, S = {s}, {k} rounds", {"method": "fedwad", "support": s, "rounds": k}) for s, k in settings]
    return ways


def _over_pairs(rows: Sequence[Row], wanted: dict[str, Any]) -> list[float]:
    return [mean_by(pick(rows, part="datasets", pair=pair, **wanted), "n", "value")[1][0] for pair in _PAIRS]


def _draw(rows: Sequence[Row]) -> Mapping[str, Figure]:
    ways = _ways(rows)
    figure, panels = axes(1, len(ways), 3.2, 3.2)
    for panel, (title, wanted) in zip(panels, ways, strict=True):
        square = np.zeros((4, 4))
        square[np.triu_indices(4, 1)] = _over_pairs(rows, wanted)
        square += square.T
        np.fill_diagonal(square, np.nan)  # zero, and of no interest
        panel.grid(False)
        panel.imshow(square, cmap="viridis")
        low, high = np.nanmin(square), np.nanmax(square)
        for i, j in ((i, j) for i, j in np.ndindex(4, 4) if i != j):
            shade = "white" if square[i, j] < (low + high) / 2 else "black"
            panel.text(j, i, f"{square[i, j]:.1f}", ha="center", va="center", fontsize=8, color=shade)
        panel.set_title(title, fontsize=9)
        panel.set_xticks(range(4), _NAMES, rotation=30, fontsize=7)
        panel.set_yticks(range(4), _NAMES, fontsize=7)
    ablation, (by_rounds, by_support, by_samples) = axes(1, 3, 4.8, 3.6)
    n = max(row["n"] for row in rows)
    exact = pick(rows, part="samples", method="exact", n=n)[0]["value"]
    ours = pick(rows, part="samples", method="summary", n=n)[0]["value"]
    for panel, part, x in ((by_rounds, "rounds", "rounds"), (by_support, "support", "support")):
        chosen = pick(rows, part=part)
        panel.plot(*mean_by(chosen, x, "value"), "o-", color=PAPER, label="FedWaD, distance")
        panel.axhline(exact, color=EXACT, label="exact")
        panel.axhline(ours, color=OURS, linestyle="--", label="ours, one message")
        other = panel.twinx()
        other.plot(*mean_by(chosen, x, "seconds"), "s:", color="#999999", label="seconds")
        other.set_ylabel("seconds (dotted)")
        panel.set(xscale="log", xlabel=x, ylabel="distance MNIST - KMNIST")
        panel.legend(fontsize=7, frameon=False)
    for method, colour in (("exact", EXACT), ("summary", OURS)):
        chosen = pick(rows, part="samples", method=method)
        by_samples.plot(*mean_by(chosen, "n", "value"), "o-", color=colour, label=method)
    for support in sorted({row["support"] for row in pick(rows, part="samples", method="fedwad")}):
        chosen = pick(rows, part="samples", method="fedwad", support=support)
        by_samples.plot(
            *mean_by(chosen, "n", "value"),
            "o-",
            color=PAPER,
            alpha=0.5 if support < 1000 else 1,
            label=f"FedWaD, S = {support}",
        )
    by_samples.set(xscale="log", xlabel="samples n", ylabel="distance MNIST - KMNIST")
    by_samples.legend(fontsize=7, frameon=False)
    return {"otdd": figure, "otdd-ablation": ablation}


def _judge(rows: Sequence[Row]) -> list[Claim]:
    from scipy.stats import spearmanr

    exact = _over_pairs(rows, {"method": "exact"})
    found = {title: _over_pairs(rows, wanted) for title, wanted in _ways(rows)[1:]}
    ranks = {title: float(spearmanr(exact, values).statistic) for title, values in found.items()}
    errors = {title: float(np.mean(np.array(values) / exact - 1)) for title, values in found.items()}
    told = [f"{title}: rank correlation {ranks[title]:.2f}, error {100 * errors[title]:+.1f}%" for title in found]
    paper = [title for title in found if title.startswith("FedWaD")]
    by_rounds = dict(zip(*mean_by(pick(rows, part="rounds"), "rounds", "value"), strict=True))
    by_support = mean_by(pick(rows, part="support"), "support", "value")[1]
    last = max(by_rounds)
    late = abs(by_rounds[10] / by_rounds[last] - 1)
    at = {n: pick(rows, part="samples", n=n) for n in {row["n"] for row in pick(rows, part="samples")}}
    above = all(
        row["value"] >= pick(chosen, method="exact")[0]["value"]
        for chosen in at.values()
        for row in pick(chosen, method="fedwad")
    )
    return [
        Claim(
            "The order of the distances between datasets is kept for most pairs.",
            all(ranks[title] >= 0.8 for title in paper),
            "; ".join(told),
        ),
        Claim(
            "20 rounds already uncover the order; more rounds help slightly.",
            ranks[paper[0]] >= ranks[paper[1]] - 1e-9 and errors[paper[1]] <= errors[paper[0]] + 1e-3,
            f"error {100 * errors[paper[0]]:+.1f}% after few rounds, {100 * errors[paper[1]]:+.1f}% after many",
        ),
        Claim(
            "The number of rounds has very little impact; 10 suffice.",
            late < 0.01,
            f"after 10 rounds it is {100 * late:.1f}% from where it is after {last}",
        ),
        Claim(
            "The support is more critical: the estimate falls as it grows.",
            all(a >= b for a, b in pairwise(by_support)),
            " > ".join(f"{value:.2f}" for value in by_support),
        ),
        Claim(
            "FedWaD is above the exact distance for every number of samples.",
            above,
            "at each size" if above else "not at each size",
        ),
    ]


EXPERIMENT = Experiment("otdd", "Distances between four datasets, ablations", _tasks, _measure, _draw, _judge, _NAMES)
