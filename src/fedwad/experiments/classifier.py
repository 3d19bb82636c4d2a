"""A nearest-neighbour classifier made of coresets, on autoencoded images with two classes a client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.datasets import load, partition
from fedwad.experiments._experiment import OURS, PAPER, Claim, Experiment, Row, Settings, axes, mean_by, pick
from fedwad.learning import classifier_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "codes"]


def _tasks(quick: bool) -> list[Settings]:
    counts, sizes, seeds = ((10, 40), (10, 50), 1) if quick else ((10, 20, 50, 100), (10, 20, 50, 100), 3)
    rows = 6000 if quick else 60000
    return [
        {"data": data, "clients": clients, "seed": seed, "rows": rows, "sizes": list(sizes)}
        for data in ("mnist", "fashion_mnist")
        for clients in counts
        for seed in range(seeds)
    ]


@cache
def codes(data: str, rows: int = 60000) -> tuple[Any, Any, Any, Any]:
    """Codes and labels of the training samples that the autoencoder did not see, and of the test samples."""
    from fedwad.training import autoencoder

    X, y = load(data, "train", samples=rows)
    halves = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    encoder = autoencoder.fit(X[halves[0]], seed=0)
    test, test_labels = load(data, "test", samples=rows // 6)
    return encoder.encode(X[halves[1]]), y[halves[1]], encoder.encode(test), test_labels


def _measure(data: str, clients: int, seed: int, rows: int, sizes: list[int]) -> list[Row]:
    Z, y, Z_test, y_test = codes(data, rows)
    deal: dict[str, Any] = {"classes": 2, "clients": clients, "samples": None, "seed": seed, "balanced": True}
    train = partition.classes_per_client(Z, y, **deal)
    test = partition.classes_per_client(Z_test, y_test, **deal)  # the same seed draws the same classes
    found = classifier_accuracy(train, test, sizes, ("client", "class"), seed=seed)
    return [{"method": f"coreset per {row.per}", **asdict(row)} for row in found]


def _draw(rows: Sequence[Row]) -> Mapping[str, Figure]:
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, panels = axes(1, len(names), 5.4, 3.8)
    sizes = sorted({row["size"] for row in rows if row.get("size")})
    for panel, data in zip(panels, names, strict=True):
        for size, shade in zip(sizes, np.linspace(0.4, 1.0, len(sizes)), strict=True):
            for method, colour, style in (("coreset per client", PAPER, "--"), ("coreset per class", OURS, "-")):
                chosen = pick(rows, data=data, method=method, size=size)
                places, values = mean_by(chosen, "clients", "accuracy")
                label = f"{method}, {size} atoms" if size in (sizes[0], sizes[-1]) else None
                panel.plot(places, values, style, marker=".", color=colour, alpha=shade, label=label)
        panel.set(xlabel="clients", ylabel="accuracy", title=data)
    panels[0].legend(fontsize=7, frameon=False)
    return {"classifier": figure}


def _judge(rows: Sequence[Row]) -> list[Claim]:
    most, largest = max(row["clients"] for row in rows), max(row["size"] for row in rows)
    found = []
    better = []
    for data in dict.fromkeys(row["data"] for row in rows):
        papers, ours = (
            mean_by(
                pick(rows, data=data, clients=most, size=largest, method=f"coreset per {per}"), "clients", "accuracy"
            )[1][0]
            for per in ("client", "class")
        )
        found.append(f"{data}: {100 * papers:.1f}%, and {100 * ours:.1f}% with atoms made class by class")
        better.append(ours >= papers - 0.005)
    return [
        Claim(
            "A nearest-neighbour classifier of all clients' coresets is competitive when there are many clients.",
            all(better),
            f"{most} clients, {largest} atoms each; " + "; ".join(found),
        )
    ]


EXPERIMENT = Experiment(
    "classifier", "Coresets as a classifier", _tasks, _measure, _draw, _judge, ("mnist", "fashion_mnist")
)
