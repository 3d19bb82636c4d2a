"""The paper's estimate over the position t: fixed, drawn by each party, or drawn for all.

The paper leaves t open. In the authors' code each party draws its own in each round for distances
between datasets and between clients, and t is 1/2 in the toy and in the running times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

import numpy as np

import fedwad
from fedwad.compare import FedWaDLoop
from fedwad.methods import FedWaD
from fedwad.transport import Floats, Measure
from paper.data import load, random_code
from paper.experiment import (
    Claim,
    Experiment,
    Figures,
    Row,
    Settings,
    Size,
    legend_below,
    pick,
    plot_means,
    subplots,
)

T = float | Literal["own", "random"]
PAIRS = {
    "mnist kmnist": "MNIST, KMNIST",
    "mnist usps": "MNIST, USPS",
    "mnist fashion_mnist": "MNIST, Fashion",
    "kmnist fashion_mnist": "KMNIST, Fashion",
    "digits": "digits 0-4, 5-9",
    "cifar10": "CIFAR-10 codes 0-4, 5-9",
}
POSITIONS: tuple[T, ...] = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, "own", "random")
_ROUNDS = 20


def _tasks(size: Size) -> list[Settings]:
    quick = size == "quick"
    names, seeds, samples = (("digits",), 2, 40) if quick else (tuple(PAIRS), 10, 300)
    return [{"pair": name, "n": samples, "seed": k} for name in names for k in range(seeds)]


def samples_of(pair: str, n: int, seed: int) -> tuple[Floats, Floats]:
    """Two samples of n rows; of one dataset those with classes 0 to 4, and 5 to 9."""
    if " " in pair:
        x, y = (load(name, samples=n, seed=seed)[0].astype(np.float64) for name in pair.split())
        return x, y
    if pair == "digits":
        images, labels = fedwad.datasets.load("digits")
        order = np.random.default_rng(seed).permutation(len(images))
        images, labels = images[order], labels[order]
    else:
        images, labels = load(pair, samples=4 * n, seed=seed)
        images = random_code(images)
    return tuple(images[half][:n].astype(np.float64) for half in (labels < 5, labels >= 5))  # type: ignore[return-value]


def _measure(pair: str, n: int, seed: int) -> list[Row]:
    x, y = samples_of(pair, n, seed)
    # The server's step is nearer to the first site if t < 1/2, so both sites are first in turn.
    mu, nu = (Measure(one) for one in ((x, y) if seed % 2 == 0 else (y, x)))
    exact = fedwad.wasserstein(x, y)
    pooled = np.concatenate([x, y])
    rows = []
    for size, t in product((10, 50, 100, n), POSITIONS):
        if size > n:
            continue
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal((size, x.shape[1]))
        loop = FedWaDLoop(Measure(pooled.mean(0) + pooled.std(0) * noise), FedWaD(t=t), rng=rng)
        for _ in range(_ROUNDS):
            loop.request()
            loop.advance(loop.reply(mu), loop.reply(nu))
        rows.append({"S": size, "t": t, "error": loop.estimate(mu, nu) / exact - 1})
    return rows


def medians(rows: Sequence[Row], size: int, t: T) -> dict[str, tuple[float, float]]:
    """For each pair the median error over seeds, and the largest."""
    found = {}
    for pair in dict.fromkeys(row["pair"] for row in rows):
        errors = [row["error"] for row in pick(rows, pair=pair, S=size, t=t)]
        found[pair] = float(np.median(errors)), max(errors)
    return found


def losses(rows: Sequence[Row], size: int) -> dict[T, float]:
    """How much larger the median estimate is than with the best t, for the worst pair."""
    by_t = {t: {k: v[0] for k, v in medians(rows, size, t).items()} for t in POSITIONS}
    best = {k: min(by_t[t][k] for t in POSITIONS) for k in by_t[POSITIONS[0]]}
    return {
        t: max((1 + errors[pair]) / (1 + best[pair]) - 1 for pair in best)
        for t, errors in by_t.items()
    }


def _draw(rows: Sequence[Row]) -> Figures:
    sizes = sorted({row["S"] for row in rows})
    figure, panels = subplots(1, len(sizes), panel_size=(3.4, 3.4))
    fixed = [t for t in POSITIONS if not isinstance(t, str)]
    for panel, size in zip(panels, sizes, strict=True):
        for number, pair in enumerate(dict.fromkeys(row["pair"] for row in rows)):
            chosen = [
                {"t": t, "error": 100 * medians(pick(rows, pair=pair), size, t)[pair][0]}
                for t in POSITIONS
            ]
            marks: dict[str, Any] = {"color": f"C{number}", "markersize": 5}
            lines = [row for row in chosen if row["t"] in fixed]
            plot_means(panel, lines, "t", "error", ".-", **marks, label=PAIRS[pair])
            for word, place, marker in (("own", 1.06, "o"), ("random", 1.14, "x")):
                panel.plot([place], [pick(chosen, t=word)[0]["error"]], marker, **marks)
        panel.set(xlabel="t; at the right own (o), random (x)", title=f"S = {size}")
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel("error, %, median over seeds")
    legend_below(figure, panels[0].get_legend_handles_labels()[0], 6)
    return {"t": figure}


def _judge(_: Sequence[Row]) -> list[Claim]:
    return []  # the paper says nothing about which t is accurate


EXPERIMENT = Experiment(
    "t",
    "The paper's estimate over the position t",
    _tasks,
    _measure,
    _draw,
    _judge,
    ("mnist", "kmnist", "usps", "fashion_mnist", "cifar10"),
)
