"""The coreset classifier beside FedRep and FedPer, on autoencoded images with two classes per site.

Accuracies are means over sites, each on its own test rows: a fifth of its samples, which nothing
was trained on, and the same rows for all three methods. All sites share one coreset classifier,
which has all classes. The column "own" has the accuracy when predictions are restricted to the
site's own two classes, which is what the personal layers of FedRep and FedPer learn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedwad.datasets import partition
from fedwad.errors import InputError
from fedwad.federation import Dataset, local
from fedwad.learning import Algorithm, CoresetClassifier, TrainingOptions
from fedwad.learning import train as run_training
from fedwad.transport import Measure
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
    legend_below,
    mean_by,
    pick,
    plot_means,
    subplots,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Numbers of training samples: all of MNIST, and half of FashionMNIST, as in small copies of it.
_ROWS = {"mnist": 60000, "fashion_mnist": 30000}
_COMPETITIVE = 0.02  # a classifier is competitive if its accuracy is at most so much lower
_TITLES = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}
_METHODS = {"site": "coreset per client", "class": "coreset per class"}


def _tasks(size: Size) -> list[Settings]:
    counts, sizes, seeds, most_rows = {
        "quick": ((10, 40), (10, 50), 1, 6000),
        "reduced": ((10, 50), (10, 50), 1, 10000),
        "whole": ((10, 20, 50, 100), (10, 20, 50, 100), 2, 60000),
    }[size]
    tasks: list[Settings] = [
        {"data": data, "clients": clients, "seed": seed, "rows": min(rows, most_rows)}
        for (data, rows), clients, seed in product(_ROWS.items(), counts, range(seeds))
    ]
    algorithms = {"coresets": {"sizes": list(sizes)}, "fedrep": {}, "fedper": {}}
    return [
        task | {"algorithm": algorithm} | options
        for task in tasks
        for algorithm, options in algorithms.items()
    ]


@cache
def codes(data: str, rows: int) -> tuple[Any, Any]:
    """Codes and labels of the training samples that the autoencoder did not see."""
    from paper import autoencoder

    X, y = load(data, "train", samples=rows)
    halves = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    encoder = autoencoder.fit(X[halves[0]], seed=0)
    return encoder.encode(X[halves[1]]), y[halves[1]]


def _measure(
    data: str,
    clients: int,
    seed: int,
    rows: int | None,
    algorithm: Algorithm | Literal["coresets"],
    sizes: Sequence[int] = (),
) -> list[Row]:
    sites = partition.classes_per_client(
        *codes(data, rows), classes=2, clients=clients, samples=None, seed=seed, balanced=True
    )
    if algorithm != "coresets":
        start = time.perf_counter()
        training = TrainingOptions(algorithm, fraction_train=0.1, seed=seed)
        result = run_training(dict(sites), training, test_every_round=False)
        seconds = time.perf_counter() - start
        row = {"method": algorithm, "own": result.mean, "bytes_up": result.traffic.up}
        return [row | {"seconds": seconds}]
    train, test = split(sites, seed)
    measured = classifier_accuracy(train, test, sizes, ("site", "class"), seed=seed)
    return [
        {"method": _METHODS[row.atoms_per], "own": row.own_classes_accuracy, **asdict(row)}
        for row in measured
    ]


def split(sites: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The training and the test rows of each site, as FedRep and FedPer have them at this seed."""
    train, test = {}, {}
    for name, (points, labels) in sites.items():
        data = Dataset(Measure(points), labels).canonical()  # sites sort their rows
        points, codes = data.measure.points, data.require_class_codes()
        labels = np.asarray(data.names)[codes]
        rng, held_out = np.random.default_rng(seed), np.zeros(len(codes), dtype=bool)
        for code in range(len(data.names)):
            rows = rng.permutation(np.flatnonzero(codes == code))
            held_out[rows[: round(TrainingOptions.test_size * len(rows))]] = True
        train[name] = points[~held_out], labels[~held_out]
        test[name] = points[held_out], labels[held_out]
    return train, test


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
    "10000 training images instead of 60000, 10 and 50 clients, coresets of 10 and 50 points, one"
    " draw of the clients.",
)


@dataclass(frozen=True)
class ClassifierAccuracy:
    """The accuracy of the classifier with one choice of its options.

    Attributes
    ----------
    clients : int
        Number of sites.
    size, atoms_per, masses, n_neighbors, seed
        The options of the `CoresetClassifier`.
    accuracy : float
        Accuracy of the shared classifier on each site's own test samples, averaged over sites.
    own_classes_accuracy : float
        The same if each site's predictions are restricted to the classes of its training samples.
    atoms, bytes_up, seconds
        Number of atoms of the classifier, bytes that all sites sent, and seconds that `fit` took.
    """

    clients: int
    size: int
    atoms_per: str
    masses: str
    n_neighbors: int
    seed: int
    accuracy: float
    own_classes_accuracy: float
    atoms: int
    bytes_up: int
    seconds: float


def classifier_accuracy(
    train: Mapping[str, tuple[Any, Any]],
    test: Mapping[str, tuple[Any, Any]],
    sizes: Sequence[int] = (10, 100),
    atoms_per: Sequence[str] = ("class",),
    n_neighbors: Sequence[int] = (1,),
    masses: Sequence[str] = ("equal",),
    seed: int = 0,
) -> Iterator[ClassifierAccuracy]:
    """Fit the classifier with every combination of options, and yield the accuracy of each.

    One classifier is fitted to the training data of all sites. Each site tests it on its own test
    data, and the accuracies are averaged over sites. Personalised models such as FedRep and FedPer
    are tested in the same way, so their accuracies can be compared with these.
    """
    incomplete = sorted(set(train) ^ set(test))
    if incomplete:
        raise InputError(
            f"Site '{incomplete[0]}' has no training or no test data; give both for each.",
            "too-few-samples",
        )
    federation = local(train)
    for size, unit, mass in product(sizes, atoms_per, masses):
        model = CoresetClassifier(size=size, atoms_per=unit, masses=mass, seed=seed)
        start = time.perf_counter()
        model.fit(federation)
        seconds = time.perf_counter() - start
        for neighbors in n_neighbors:
            model.set_params(n_neighbors=neighbors)
            options = (len(train), size, unit, mass, neighbors, seed)
            accuracies = _mean_accuracies(model, train, test)
            atoms, sent = len(model.points_), model.traffic_.up
            yield ClassifierAccuracy(*options, *accuracies, atoms, sent, seconds)


def _mean_accuracies(
    model: CoresetClassifier, train: Mapping[str, Any], test: Mapping[str, Any]
) -> tuple[float, float]:
    """Mean accuracy over sites, and the same with predictions restricted to a site's classes."""
    all_classes, own_classes = [], []
    for site, (X, y) in test.items():
        labels = np.asarray(y)
        all_classes.append(np.mean(model.predict(X) == labels))
        classes = np.unique(np.asarray(train[site][1])).tolist()
        own_classes.append(np.mean(model.predict(X, classes=classes) == labels))
    return float(np.mean(all_classes)), float(np.mean(own_classes))
