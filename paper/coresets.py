"""Coresets of ten points for 20000 images on 100 clients, by several methods:

- "pooled, exact": all data in one place and exact transport; the better of two local optima;
- "union": ours, one coreset of all clients' samples, found from sums that clients send;
- "union, free weights": the same, but the weight of a point is the mass that is nearest to it,
  whereas all points of the other coresets weigh the same;
- "one summary each": ours, from one summary of each client;
- "fedwad, support 10" and "fedwad, support 100": the paper's, in epochs of gradient steps;
- "direct": as the paper's, but with the exact distance to a client instead of FedWaD.

As in the paper, an epoch asks ten random clients; FedWaD makes 20 rounds with each of them. The
paper makes 1000 epochs. We make 40 with an exact solver and, if there is a CUDA device, also 1000
with an entropic solver. "direct" makes 200 with an exact solver. The learning rate decreases from
epoch to epoch, so that the points converge. Times are processor times.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwad
from fedwad._files import new_figure
from fedwad.datasets import Partition, partition
from fedwad.report.pictures import sheet
from fedwad.transport import Floats, Measure, ground_cost, solve
from paper.data import load
from paper.experiment import (
    EXACT_COLOUR,
    OUR_COLOUR,
    PAPER_COLOUR,
    Claim,
    Experiment,
    Figures,
    Row,
    Settings,
    Size,
    pick,
    subplots,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PAPER_EPOCHS = 1000  # the paper's number
PAPER_METHODS = ("fedwad, support 10", "fedwad, support 100")
COLOURS = {
    "pooled, exact": EXACT_COLOUR,
    "union": OUR_COLOUR,
    "union, free weights": "#12b5a5",
    "one summary each": "#8e6fb8",
    "direct": "#7fb3c8",
    PAPER_METHODS[0]: "#e07b39",
    PAPER_METHODS[1]: PAPER_COLOUR,
}
METHODS = tuple(COLOURS)
POOLED = METHODS[0]
LABELS = {
    POOLED: "exact, all data in one place",
    "union": "ours, union",
    "union, free weights": "ours, union, free weights",
    "one summary each": "ours, one message",
    "direct": "exact distance to ten clients at a time",
    PAPER_METHODS[0]: "FedWaD with support 10",
    PAPER_METHODS[1]: "FedWaD with support 100",
}


def with_most_epochs(rows: Sequence[Row]) -> list[Row]:
    """For each method and dataset, the rows with the most epochs."""
    most: dict[tuple[str, int, str], int] = {}
    for row in rows:
        key = row["data"], row["K"], row["method"]
        most[key] = max(most.get(key, 0), row["epochs"])
    return [row for row in rows if row["epochs"] == most[row["data"], row["K"], row["method"]]]


@dataclass(frozen=True)
class _Comparison:
    """Methods compared on all datasets; a client holds K classes."""

    rows: Sequence[Row]

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(row["data"] for row in self.rows))

    def values(self, K: int, method: str, column: str) -> list[float]:
        """The value of a column for each dataset."""
        return [pick(self.rows, data=data, K=K, method=method)[0][column] for data in self.datasets]

    def excess(self, K: int, method: str) -> list[float]:
        """By which fraction W2 to all data exceeds that of the pooled optimum, for each dataset."""
        pairs = zip(self.values(K, method, "W2"), self.values(K, POOLED, "W2"), strict=True)
        return [distance / best - 1 for distance, best in pairs]

    def classes(self, K: int, *methods: str) -> str:
        """How many classes the methods cover, in words."""
        listed = []
        for method in methods:
            counts = (format(number, "d") for number in self.values(K, method, "classes"))
            listed.append(f"{' and '.join(counts)} ({LABELS[method]})")
        return f"K = {K}: {', '.join(listed)}"

    @property
    def with_large_support(self) -> list[int]:
        """The values of K for which FedWaD ran with the larger support."""
        last = self.datasets[-1]
        return [row["K"] for row in pick(self.rows, data=last, method=PAPER_METHODS[1])]


def judge(rows: Sequence[Row]) -> list[Claim]:
    """The paper's claims about coresets, by the rows with the most epochs."""
    methods = _Comparison(with_most_epochs(rows))
    lead = f"classes of 10 that are covered ({', '.join(methods.datasets)}), "
    covered_2, covered_8 = (methods.values(K, PAPER_METHODS[0], "classes") for K in (2, 8))
    return [
        Claim(
            "With 8 classes at each client FedWaD captures the 10 modes of the data.",
            all(number == 10 for number in covered_8),
            lead + methods.classes(8, *PAPER_METHODS, POOLED),
        ),
        Claim(
            "With fewer classes at each client FedWaD has more difficulty to capture them.",
            all(a < b for a, b in zip(covered_2, covered_8, strict=True)),
            lead + "; ".join(methods.classes(K, PAPER_METHODS[0]) for K in (8, 2)),
        ),
        _exact_distance_fails_too(methods, lead),
        _support_hardly_matters(methods),
        _worse_minimum(methods),
    ]


def _exact_distance_fails_too(methods: _Comparison, lead: str) -> Claim:
    covered_classes = [
        number for method in (POOLED, "direct") for number in methods.values(2, method, "classes")
    ]
    paper, direct, union = (
        " and ".join(f"{100 * number:+.1f}%" for number in methods.excess(2, method))
        for method in (PAPER_METHODS[0], "direct", "union")
    )
    return Claim(
        "The exact Wasserstein distance does not recover the modes of K = 2 either, so the coreset"
        " itself is to blame.",
        all(number < 10 for number in covered_classes),
        f"{lead}{methods.classes(2, POOLED, 'direct', 'union')}. But W2 to all data at K = 2 is"
        f" above the pooled optimum by {paper} for FedWaD and {direct} for the exact distance to a"
        f" few clients at a time, and by {union} for our union",
    )


def _support_hardly_matters(methods: _Comparison) -> Claim:
    epochs = min(row["epochs"] for row in methods.rows if row["method"] in PAPER_METHODS)
    changes = [
        large / small - 1
        for K in methods.with_large_support
        for small, large in zip(*(methods.values(K, m, "W2") for m in PAPER_METHODS), strict=True)
    ]
    return Claim(
        "The support of the interpolating measure has little impact on the coreset.",
        max(map(abs, changes)) < 0.02 if epochs >= PAPER_EPOCHS else None,
        f"after {epochs} of the paper's {PAPER_EPOCHS} epochs, a support of 100 in place of 10"
        f" changes W2 to all data by {100 * min(changes):+.1f} to {100 * max(changes):+.1f}%",
    )


def _worse_minimum(methods: _Comparison) -> Claim:
    excess = [methods.excess(K, PAPER_METHODS[0]) for K in (8, 2)]
    excess += [methods.excess(K, PAPER_METHODS[1]) for K in methods.with_large_support]
    least, most = min(map(min, excess)), max(map(max, excess))
    return Claim(
        "FedWaD ends in a worse minimum than the exact distance, for both datasets.",
        least > 0,
        f"W2 to all data is {100 * least:.1f} to {100 * most:.1f}% above the pooled optimum",
    )


_SIZE = 10  # points of a coreset
#: In a run of 1000 epochs, the distance to all data is computed after these and after the last.
_EVALUATED_EPOCHS = (40, *range(100, 1000, 100))
_LEARNING_RATE = 0.06  # in the first epoch of the paper's method
_NEIGHBOURS = 50  # nearest samples of a point; it represents their most frequent class
#: Images of points do not show their weights, so free weights are left out.
_DRAWN_METHODS = [method for method in METHODS if "free" not in method]


def _tasks(size: Size) -> list[Settings]:
    quick = size == "quick"
    clients, samples, epochs = (20, 100, 15) if quick else (100, 200, 40)
    sizes = {"clients": clients, "samples": samples, "epochs": epochs}
    cases = [
        {"data": data, "K": K}
        for data in (("mnist",) if quick else ("mnist", "fashion_mnist"))
        for K in (8, 2)
    ]
    tasks = [case | {"method": method, **sizes} for case in cases for method in METHODS]
    if size == "whole":
        many = sizes | {"epochs": PAPER_EPOCHS}
        tasks += [case | {"method": method, **many} for case in cases for method in PAPER_METHODS]
    slowest = PAPER_METHODS[1]
    return sorted(tasks, key=lambda task: task["method"] == slowest)  # it runs last


@cache
def divide_images(data: str, K: int, clients: int, samples: int, seed: int = 0) -> Partition:
    """Images with pixels in 0..1, divided among clients that hold K classes each."""
    X, y = load(data, pixels="unit")
    return partition.classes_per_client(X, y, K, clients, samples, seed)


def pooled_coreset(
    points: Floats, size: int, starts: int = 2, seed: int = 0, max_steps: int = 60
) -> tuple[Floats, float]:
    """A Wasserstein coreset of pooled data by exact transport, and its distance to them.

    A step solves for the optimal plan, then moves each atom to the mean of the samples it gets,
    until a local optimum is reached. Of the optima from a few random starts, the best is returned.
    The first steps use 2000 of the samples, which saves time.
    """
    candidates = []
    for number in range(starts):
        rng = np.random.default_rng([seed, number])
        subsample = points[rng.choice(len(points), min(len(points), 2000), replace=False)]
        atoms, potentials = subsample[:size], None
        for data, steps in ((subsample, 40), (points, max_steps)):
            cost = np.inf
            for _ in range(steps):
                plan = solve(Measure(data), Measure(atoms), start=potentials)
                potentials = plan.g
                if plan.cost >= cost * (1 - 1e-5):
                    break
                cost, atoms = plan.cost, plan.target_means()
        candidates.append((plan.distance, plan.target.points))
    distance, atoms = min(candidates, key=lambda pair: pair[0])
    return atoms, distance


def count_classes(points: Floats, X: Floats, y: Any) -> int:
    """The number of classes that the points represent: a point represents the most frequent class
    among its 50 nearest samples."""
    nearest = np.argsort(ground_cost(np.asarray(points), X), axis=1)[:, :_NEIGHBOURS]
    return len({int(np.bincount(labels).argmax()) for labels in y[nearest]})


def measure_method(
    data: str, K: int, method: str, clients: int, samples: int, epochs: int
) -> list[Row]:
    """The row of one method, for clients with K classes each."""
    parts = divide_images(data, K, clients, samples)
    sites = {name: np.asarray(parts[name][0], dtype=np.float64) for name in parts}
    X, y = np.concatenate(list(sites.values())), np.concatenate([parts[name][1] for name in parts])
    if epochs >= PAPER_EPOCHS:
        return _measure_many_epochs(np.stack(list(sites.values())), X, y, method, epochs)
    start = time.process_time()
    costs: Row = {}
    if method == POOLED:
        points, value = pooled_coreset(X, _SIZE)
        seconds = time.process_time() - start
    else:
        result = fedwad.coreset(sites, _SIZE, **_coreset_options(method, epochs))
        seconds = time.process_time() - start
        # Not every method computes its distance to all data; here it is exact for all methods.
        points = result.points
        value = solve(Measure(X), Measure(points, result.weights)).distance
        costs = {
            "rounds": len(result.history),
            "MB up": result.traffic.up / 1e6,
            "curve": [round(float(record.loss), 5) for record in result.history],
        }
    row = {"W2": value, "classes": count_classes(points, X, y), "seconds": seconds, **costs}
    return [row | {"points": np.round(np.asarray(points, dtype=np.float64), 3).tolist()}]


def _coreset_options(method: str, epochs: int) -> dict[str, Any]:
    """The options of `fedwad.coreset` for a method of this experiment."""
    if method in PAPER_METHODS:
        sizes = {"support": _support(method), "rounds": epochs}  # `rounds` counts epochs here
        return {"method": "fedwad", **sizes, "learning_rate": _LEARNING_RATE}
    options: dict[str, dict[str, Any]] = {
        "union": {"method": "union"},
        "union, free weights": {"method": "union", "weights": "free"},
        "one summary each": {"method": "summary"},
        "direct": {"method": "direct", "rounds": 5 * epochs},
    }
    return options[method]


def _support(paper_method: str) -> int:
    return int(paper_method.split()[-1])


def _measure_many_epochs(clients: Floats, X: Floats, y: Any, method: str, epochs: int) -> list[Row]:
    """The row of the paper's method with its number of epochs, on a GPU."""
    from paper.entropic import run_epochs

    start = time.process_time()
    keep = tuple(epoch for epoch in _EVALUATED_EPOCHS if epoch < epochs)
    samples = clients.astype(np.float32)
    result = run_epochs(samples, _SIZE, _support(method), epochs, _LEARNING_RATE, keep)
    seconds = time.process_time() - start
    distances = {
        epoch: solve(Measure(X), Measure(points)).distance
        for epoch, points in result.points.items()
    }
    points = result.points[epochs]
    return [
        {
            "W2": distances[epochs],
            "classes": count_classes(points, X, y),
            "seconds": seconds,
            "rounds": len(result.curve),
            "curve": [round(float(loss), 5) for loss in result.curve],
            "W2 by epoch": [[epoch, round(value, 5)] for epoch, value in sorted(distances.items())],
            "points": np.round(points, 3).tolist(),
        }
    ]


def _draw(rows: Sequence[Row]) -> Figures:
    figures: dict[str, Figure] = {}
    for data in dict.fromkeys(row["data"] for row in rows):
        chosen = pick(with_most_epochs(rows), data=data)
        loss, panels = subplots(1, 2, panel_size=(5.0, 3.6))
        for panel, K in zip(panels, (8, 2), strict=True):
            _plot_losses(panel, pick(chosen, K=K))
            panel.set_title(f"K = {K}")
        panels[1].legend(fontsize=7, frameon=False)
        name = f"coresets-{data.replace('_', '-')}"
        figures |= {name: _draw_points(chosen), f"{name}-loss": loss}
    return figures


def _draw_points(rows: Sequence[Row]) -> Figure:
    """The points of each coreset as a row of images."""
    figure = new_figure(9.4, 4.4)
    for panel, (method, K) in zip(
        figure.subplots(len(_DRAWN_METHODS), 2).flat, product(_DRAWN_METHODS, (8, 2)), strict=True
    ):
        panel.set_axis_off()
        for row in pick(rows, K=K, method=method):
            images = sheet(np.array(row["points"]), (28, 28), _SIZE, 0.0, 1.0)
            panel.imshow(images, cmap="gray", vmin=0, vmax=1, interpolation="none")
            title = f"K = {K}, {LABELS[method]}: W2 {row['W2']:.3f}, {row['classes']} classes"
            panel.set_title(title, fontsize=7.5, loc="left", pad=2)
    return figure


def _plot_losses(panel: Axes, rows: Sequence[Row]) -> None:
    for row in rows:
        options: dict[str, Any] = {"color": COLOURS[row["method"]], "label": LABELS[row["method"]]}
        curve = row.get("curve")
        if curve:
            marker = "o" if len(curve) == 1 else None
            panel.plot(range(1, len(curve) + 1), curve, marker=marker, **options)
        else:
            panel.axhline(row["W2"], **options)
    panel.set(xscale="log", xlabel="round or epoch", ylabel="loss that the method minimises")


EXPERIMENT = Experiment(
    "coresets",
    "Ten points for 100 clients",
    _tasks,
    measure_method,
    _draw,
    judge,
    ("mnist", "fashion_mnist"),
    f"40 epochs instead of {PAPER_EPOCHS}.",
)
