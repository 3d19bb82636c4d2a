"""The figures of the experiment `boosting`, and the paper's claims about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedwad.experiments._boosting_paper import PAPERS
from fedwad.experiments._experiment import Claim, Figures, Row, mean_by, pick
from fedwad.experiments._plots import EXACT, OURS, PAPER, axes, legend_below, plot_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ALGORITHMS", "DATA", "average_uplifts", "draw", "judge", "largest_uplift"]

ALGORITHMS = {"fedavg": "FedAvg", "fedrep": "FedRep", "fedper": "FedPer"}
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
_STRUCTURES = {"groups": "in groups", "none": "random pairs of classes"}
_AFFINITY = "paper 10 affinity"
#: Label, colour, line and marker of each clustering.
_WAYS = {
    "vanilla": ("vanilla", "#888888", "-", "o"),
    _AFFINITY: ("FedWaD, affinity", PAPER, "-", "s"),
    "paper 10 sparse 3": ("FedWaD, sparse 3", PAPER, "--", "^"),
    "paper 10 sparse 5": ("FedWaD, sparse 5", PAPER, ":", "v"),
    "ours": ("ours, one message", OURS, "-", "o"),
    "true groups": ("true groups", EXACT, ":", None),
}
_PRINTED = ("vanilla", _AFFINITY)  # whose numbers in the paper the figure shows


def draw(rows: Sequence[Row]) -> Figures:
    """One figure for each dataset: accuracy by number of clients, algorithm by algorithm, with and
    without groups."""
    figures = {}
    for data in [name for name in DATA if pick(rows, data=name)]:
        figure, panels = axes(2, 3, 3.5, 2.9)
        for panel, (structure, algorithm) in zip(
            panels, product(_STRUCTURES, ALGORITHMS), strict=True
        ):
            case = {"data": data, "structure": structure, "algorithm": algorithm}
            _plot(panel, pick(rows, **case, training="ours"), tuple(case.values()))
            panel.set_title(f"{ALGORITHMS[algorithm]}, {_STRUCTURES[structure]}", fontsize=9)
        for panel in panels[3:]:
            panel.set_xlabel("clients")
        for panel in panels[::3]:
            panel.set_ylabel(f"accuracy on {DATA[data]}, %")
        legend_below(figure, panels[0].get_legend_handles_labels()[0], 4)
        figures[f"boosting-{data}"] = figure
    return figures


def _plot(panel: Axes, rows: Sequence[Row], case: tuple[str, ...]) -> None:
    counts = sorted({row["clients"] for row in rows})
    for way, (label, colour, style, marker) in _WAYS.items():
        marks = {"marker": marker, "markersize": 3.5, "color": colour, "label": label}
        plot_means(panel, pick(rows, way=way), "clients", "accuracy", style, **marks)
    for way in _PRINTED:
        printed = np.array([PAPERS[(*case, count, way)] for count in counts]).reshape(-1, 2)
        label = f"the paper's numbers, {_WAYS[way][0].removeprefix('FedWaD, ')}"
        bars: dict[str, Any] = {"fmt": "x", "capsize": 2, "linewidth": 0.8, "color": _WAYS[way][1]}
        panel.errorbar(counts, *printed.T, **bars, label=label)
    panel.set_xscale("log")
    panel.margins(x=0.08)
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.minorticks_off()


class _Cell(NamedTuple):
    """A mean over seeds, what vanilla has there, and their difference."""

    algorithm: str
    clients: int
    accuracy: float
    vanilla: float

    @property
    def uplift(self) -> float:
        return self.accuracy - self.vanilla

    def __str__(self) -> str:
        return (
            f"{ALGORITHMS[self.algorithm]} with {self.clients} clients"
            f" {self.vanilla:.1f} to {self.accuracy:.1f}%"
        )


def _cells(rows: Sequence[Row], data: str, structure: str, way: str) -> list[_Cell]:
    """The cells of one column of the table, for all algorithms and numbers of clients."""
    cells = []
    for algorithm in ALGORITHMS:
        case = {"data": data, "structure": structure, "algorithm": algorithm}
        found = _by_clients(pick(rows, **case, training="ours"), way)
        vanilla = _by_clients(pick(rows, **case, training="ours"), "vanilla")
        cells += [_Cell(algorithm, n, accuracy, vanilla[n]) for n, accuracy in found.items()]
    return cells


def _by_clients(rows: Sequence[Row], way: str, what: str = "accuracy") -> dict[int, float]:
    """The mean accuracy over seeds for each number of clients."""
    return dict(zip(*mean_by(pick(rows, way=way), "clients", what), strict=True))


def _average(cells: Sequence[_Cell]) -> float:
    return float(np.mean([cell.uplift for cell in cells]))


def judge(rows: Sequence[Row]) -> list[Claim]:
    """The paper's claims about boosting, for each dataset that was measured."""
    return [claim for data in DATA if pick(rows, data=data) for claim in _claims(rows, data)]


def _claims(rows: Sequence[Row], data: str) -> list[Claim]:
    name = DATA[data]
    found = {structure: _cells(rows, data, structure, _AFFINITY) for structure in _STRUCTURES}
    uplift = {structure: _average(cells) for structure, cells in found.items()}
    ours = {structure: _average(_cells(rows, data, structure, "ours")) for structure in _STRUCTURES}
    return [
        _recovers_groups(rows, data),
        Claim(
            f"{name}: where clients are in groups, clustering always improves FedAvg, FedRep and"
            " FedPer.",
            all(cell.uplift > 0 for cell in found["groups"]),
            f"average uplift {uplift['groups']:+.1f} points, ours {ours['groups']:+.1f}; the"
            f" smallest: {min(found['groups'], key=lambda cell: cell.uplift)}",
        ),
        _without_groups(name, found["none"], uplift["none"], ours["none"]),
        _fedrep_gains(rows, data, found),
        _most_efficient(rows, data),
    ]


def _recovers_groups(rows: Sequence[Row], data: str) -> Claim:
    found, perfect = [], True
    for clients in sorted({row["clients"] for row in pick(rows, data=data, structure="groups")}):
        here = pick(rows, data=data, structure="groups", clients=clients, training="ours")
        paper, ours = (
            np.mean([row["ARI"] for row in pick(here, way=way)]) for way in (_AFFINITY, "ours")
        )
        found.append(f"{clients} clients {paper:.2f}, ours {ours:.2f}")
        perfect &= bool(paper == 1)
    text = f"{DATA[data]}: where clients are in groups, FedWaD is able to recover them."
    return Claim(text, perfect, f"adjusted Rand index with the affinity: {'; '.join(found)}")


def _without_groups(name: str, cells: Sequence[_Cell], uplift: float, ours: float) -> Claim:
    worse = [cell for cell in cells if cell.uplift < 0]
    exceptions = f"worse: {'; '.join(str(cell) for cell in worse)}" if worse else "nowhere worse"
    return Claim(
        f"{name}: without groups clustering almost always improves performance, except in some"
        " cases of FedPer.",
        len(worse) <= len(cells) / 4 and {cell.algorithm for cell in worse} <= {"fedper"},
        f"better in {len(cells) - len(worse)} of {len(cells)} cells, average uplift"
        f" {uplift:+.1f} points, ours {ours:+.1f}; {exceptions}",
    )


def _fedrep_gains(rows: Sequence[Row], data: str, found: Mapping[str, Sequence[_Cell]]) -> Claim:
    """The largest uplifts of FedRep, judged where the paper's own largest was measured."""
    claimed = {"mnist": {"groups": 29, "none": 36}, "cifar10": {"groups": 9, "none": 19}}[data]
    most = {structure: largest_uplift(rows, data, structure, "fedrep") for structure in found}
    counts = sorted({cell.clients for cell in found["groups"]})
    printed = {
        key: max(_printed_uplift(data, key, clients) for clients in counts) for key in claimed
    }
    sentence = (
        f"at most {most['groups']:+.1f} and {most['none']:+.1f} points, where the paper's table has"
        f" {printed['groups']:+.1f} and {printed['none']:+.1f}"
    )
    if 10 not in counts:
        ten = " and ".join(f"{_printed_uplift(data, key, 10):+.1f}" for key in claimed)
        sentence += f"; with 10 clients (paper {ten}) it was not measured"
    holds = _all_of(
        most[key] > claimed[key] / 2 if _largest_printed(data, key) in counts else None
        for key in claimed
    )
    text = f"{DATA[data]}: FedRep gains up to {claimed['groups']} points in groups and"
    return Claim(
        f"{text} {claimed['none']} without.", holds, sentence + _as_in_their_code(rows, data)
    )


def _all_of(parts: Iterable[bool | None]) -> bool | None:
    """Whether all parts of a claim hold: one that fails decides, one that is unknown leaves it
    open."""
    known = list(parts)
    return False if False in known else None if None in known else True


def _largest_printed(data: str, structure: str) -> int:
    """The number of clients at which the paper's table has the largest uplift of FedRep."""
    return max((10, 20, 40, 100), key=lambda clients: _printed_uplift(data, structure, clients))


def _printed_uplift(data: str, structure: str, clients: int) -> float:
    affinity, vanilla = (
        PAPERS[data, structure, "fedrep", clients, way].mean for way in (_AFFINITY, "vanilla")
    )
    return affinity - vanilla


def _as_in_their_code(rows: Sequence[Row], data: str) -> str:
    """The largest uplifts of FedRep as in the authors' code, and their numbers of clients."""
    theirs = pick(rows, data=data, training="authors", algorithm="fedrep")
    found = []
    for structure, words in (("groups", "in groups"), ("drawn", "without")):
        chosen = pick(theirs, structure=structure)
        vanilla, clustered = (
            _by_clients(chosen, way, "mean of clusters") for way in ("vanilla", _AFFINITY)
        )
        if clustered:
            most, clients = max((clustered[n] - vanilla[n], n) for n in clustered)
            found.append(f"{most:+.1f} {words} ({clients} clients)")
    if not found:
        return ""
    return (
        ". Trained, dealt and averaged over clusters as in the authors' code, at most"
        f" {', '.join(found)}"
    )


def largest_uplift(rows: Sequence[Row], data: str, structure: str, algorithm: str) -> float:
    """The largest uplift of an algorithm by the paper's affinity, over numbers of clients."""
    cells = _cells(rows, data, structure, _AFFINITY)
    return max(cell.uplift for cell in cells if cell.algorithm == algorithm)


def average_uplifts(rows: Sequence[Row], data: str) -> dict[str, dict[str, float]]:
    """For each structure the average uplift of the paper's three ways, over the same cells."""
    found = {}
    for structure in _STRUCTURES:
        columns = {
            way: _cells(rows, data, structure, way) for way in _WAYS if way.startswith("paper")
        }
        common = set.intersection(*({cell[:2] for cell in cells} for cells in columns.values()))
        found[structure] = {
            _WAYS[way][0].removeprefix("FedWaD, "): _average(
                [cell for cell in cells if cell[:2] in common]
            )
            for way, cells in columns.items()
        }
    return found


def _most_efficient(rows: Sequence[Row], data: str) -> Claim:
    uplifts, first = [], True
    for structure, means in average_uplifts(rows, data).items():
        listed = ", ".join(f"{way} {value:+.1f}" for way, value in means.items())
        uplifts.append(f"{_STRUCTURES[structure]}: {listed}")
        first &= means["affinity"] >= max(means.values()) - 0.05
    text = (
        f"{DATA[data]}: of the three ways to cluster, the affinity is the most efficient and"
        " robust."
    )
    return Claim(text, first, f"average uplift in points, {'; '.join(uplifts)}")
