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
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwad
from fedwad.datasets import Partition, load, partition
from fedwad.experiments._coreset_claims import (
    COLOURS,
    LABELS,
    METHODS,
    PAPER_EPOCHS,
    PAPER_METHODS,
    POOLED,
    judge,
    with_most_epochs,
)
from fedwad.experiments._experiment import Experiment, Figures, Row, Settings, has_cuda, pick
from fedwad.experiments._plots import subplots
from fedwad.ot import Floats, Measure, ground_cost, solve
from fedwad.report.coresets import sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "METHODS",
    "count_classes",
    "divide_images",
    "measure_method",
    "pooled_coreset",
]

_SIZE = 10  # points of a coreset
#: In a run of 1000 epochs, the distance to all data is computed after these and after the last.
_EVALUATED_EPOCHS = (40, *range(100, 1000, 100))
_LEARNING_RATE = 0.06  # in the first epoch of the paper's method
_NEIGHBOURS = 50  # nearest samples of a point; it represents their most frequent class
#: Images of points do not show their weights, so free weights are left out.
_DRAWN_METHODS = [method for method in METHODS if "free" not in method]


def _tasks(quick: bool) -> list[Settings]:
    clients, samples, epochs = (20, 100, 15) if quick else (100, 200, 40)
    sizes = {"clients": clients, "samples": samples, "epochs": epochs}
    cases = [
        {"data": data, "K": K}
        for data in (("mnist",) if quick else ("mnist", "fashion_mnist"))
        for K in (8, 2)
    ]
    tasks = [case | {"method": method, **sizes} for case in cases for method in METHODS]
    if not quick:
        many = sizes | {"epochs": PAPER_EPOCHS}
        tasks += [case | {"method": method, **many} for case in cases for method in PAPER_METHODS]
    slowest = PAPER_METHODS[1]
    return sorted(tasks, key=lambda task: task["method"] == slowest)  # it runs last


def _skip_reason(epochs: int, **_: Any) -> str | None:
    """A reason for 1000 epochs without a GPU, which would take hours."""
    if epochs < PAPER_EPOCHS or has_cuda():
        return None
    return f"{PAPER_EPOCHS} epochs run only on a CUDA device."


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
    from fedwad.experiments._coreset_epochs import run_epochs

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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.4, 4.4), layout="constrained")
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
    _skip_reason,
)
