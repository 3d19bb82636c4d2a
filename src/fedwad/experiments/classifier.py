"""The coreset classifier beside FedRep and FedPer, on autoencoded images with two classes per site.

Accuracies are means over sites, each on its own test samples. All sites share one coreset
classifier, which has all classes. The column "own" has the accuracy when predictions are restricted
to the site's own two classes, which is what the personal layers of FedRep and FedPer learn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedwad.datasets import load, partition
from fedwad.experiments._experiment import Claim, Experiment, Figures, Row, Settings, mean_by, pick
from fedwad.experiments._plots import (
    EXACT_COLOUR,
    OUR_COLOUR,
    PAPER_COLOUR,
    legend_below,
    plot_means,
    subplots,
)
from fedwad.learning import Algorithm, TrainingOptions, classifier_accuracy
from fedwad.learning._train import train_with

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EXPERIMENT", "codes"]

#: Numbers of training samples: all of MNIST, and half of FashionMNIST, as in small copies of it.
_ROWS = {"mnist": 60000, "fashion_mnist": 30000}
_COMPETITIVE = 0.02  # a classifier is competitive if its accuracy is at most so much lower
_TITLES = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}
_METHODS = {"site": "coreset per client", "class": "coreset per class"}


def _tasks(quick: bool) -> list[Settings]:
    counts, sizes, seeds = (
        ((10, 40), (10, 50), 1) if quick else ((10, 20, 50, 100), (10, 20, 50, 100), 2)
    )
    tasks: list[Settings] = [
        {"data": data, "clients": clients, "seed": seed, "rows": 6000 if quick else _ROWS[data]}
        for data, clients, seed in product(_ROWS, counts, range(seeds))
    ]
    algorithms = {"coresets": {"sizes": list(sizes)}, "fedrep": {}, "fedper": {}}
    return [
        task | {"algorithm": algorithm} | options
        for task in tasks
        for algorithm, options in algorithms.items()
    ]


@cache
def codes(data: str, rows: int) -> tuple[Any, Any, Any, Any]:
    """Codes and labels of the training samples that the autoencoder did not see, and of the test
    samples."""
    from fedwad.learning.local import autoencoder

    X, y = load(data, "train", samples=rows)
    halves = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    encoder = autoencoder.fit(X[halves[0]], seed=0)
    test, test_labels = load(data, "test", samples=rows // 6)
    return encoder.encode(X[halves[1]]), y[halves[1]], encoder.encode(test), test_labels


def _measure(
    data: str,
    clients: int,
    seed: int,
    rows: int | None,
    algorithm: Algorithm | Literal["coresets"],
    sizes: Sequence[int] = (),
) -> list[Row]:
    Z, y, Z_test, y_test = codes(data, rows)
    options: dict[str, Any] = {"classes": 2, "clients": clients, "samples": None}
    options |= {"seed": seed, "balanced": True}
    train = partition.classes_per_client(Z, y, **options)
    if algorithm != "coresets":
        start = time.perf_counter()
        training = TrainingOptions(algorithm, seed=seed)
        result = train_with(dict(train), training, test_every_round=False)
        seconds = time.perf_counter() - start
        row = {"method": algorithm, "own": result.mean, "bytes_up": result.traffic.up}
        return [row | {"seconds": seconds}]
    # The same seed draws the same classes.
    test = partition.classes_per_client(Z_test, y_test, **options)
    measured = classifier_accuracy(train, test, sizes, ("site", "class"), seed=seed)
    return [
        {"method": _METHODS[row.atoms_per], "own": row.own_classes_accuracy, **asdict(row)}
        for row in measured
    ]


def _draw(rows: Sequence[Row]) -> Figures:
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, panels = subplots(1, len(names), panel_size=(5.4, 3.8))
    sizes = sorted({row["size"] for row in rows if row.get("size")})
    counts = sorted({row["clients"] for row in rows})
    for panel, data in zip(panels, names, strict=True):
        _plot(panel, pick(rows, data=data), sizes)
        panel.set(xscale="log", xlabel="clients", ylabel="accuracy on own classes")
        panel.set_title(_TITLES[data])
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.minorticks_off()
    legend_below(figure, panels[0].get_legend_handles_labels()[0], 3)
    return {"classifier": figure}


def _plot(panel: Axes, rows: Sequence[Row], sizes: Sequence[int]) -> None:
    for size, shade in zip(sizes, np.linspace(0.4, 1.0, len(sizes)), strict=True):
        for method, words, colour, style in (
            ("coreset per client", "the paper's coresets", PAPER_COLOUR, "--"),
            ("coreset per class", "coresets by class", OUR_COLOUR, "-"),
        ):
            label = f"{words}, {size} atoms" if size in (sizes[0], sizes[-1]) else None
            marks = {"marker": ".", "color": colour, "alpha": shade, "label": label}
            plot_means(
                panel, pick(rows, method=method, size=size), "clients", "own", style, **marks
            )
    for method, style in (("fedrep", "-"), ("fedper", ":")):
        label = f"Fed{method.removeprefix('fed').title()}"
        marks = {"marker": "s", "color": EXACT_COLOUR, "markersize": 4, "label": label}
        plot_means(panel, pick(rows, method=method), "clients", "own", style, **marks)


def _judge(rows: Sequence[Row]) -> list[Claim]:
    def mean(column: str, **values: Any) -> float:
        return mean_by(pick(rows, **values), "data", column)[1][0]

    few, many = min(row["clients"] for row in rows), max(row["clients"] for row in rows)
    largest = max(row["size"] for row in rows if row.get("size"))

    def compare(data: str, clients: int) -> tuple[bool, str]:
        """Whether the claim holds with this number of clients, and the accuracies in words."""
        here = {"data": data, "clients": clients}
        paper, ours = (
            mean("own", **here, size=largest, method=f"coreset per {per}")
            for per in ("client", "class")
        )
        all_classes = mean("accuracy", **here, size=largest, method="coreset per client")
        rival = max(mean("own", **here, method=name) for name in ("fedrep", "fedper"))
        sentence = (
            f"{clients} clients: coresets {100 * paper:.1f}% as in the paper"
            f" ({100 * all_classes:.1f}% among all classes), {100 * ours:.1f}% by class, the better"
            f" of FedRep and FedPer {100 * rival:.1f}%"
        )
        return paper > (rival - _COMPETITIVE if clients == few else rival), sentence

    verdicts, parts = [], []
    for data in dict.fromkeys(row["data"] for row in rows):
        compared = [compare(data, clients) for clients in (few, many)]
        verdicts += [held for held, _ in compared]
        parts.append(f"{_TITLES[data]}, {'; '.join(sentence for _, sentence in compared)}")
    return [
        Claim(
            "A nearest-neighbour classifier of all clients' coresets is competitive with FedRep and"
            " FedPer, and outperforms them when there are many clients.",
            all(verdicts),
            f"{largest} atoms a client, on each client's own two classes. {'. '.join(parts)}",
        )
    ]


EXPERIMENT = Experiment(
    "classifier",
    "Coresets as a classifier",
    _tasks,
    _measure,
    _draw,
    _judge,
    ("mnist", "fashion_mnist"),
)
