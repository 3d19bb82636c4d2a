"""The figures of the experiment `boosting`, and the paper's claims about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedwad.experiments._boosting_paper import PAPER_ACCURACY
from fedwad.experiments._experiment import Claim, Figures, Row, mean_by, pick
from fedwad.experiments._plots import (
    EXACT_COLOUR,
    OUR_COLOUR,
    PAPER_COLOUR,
    legend_below,
    plot_means,
    subplots,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ALGORITHMS", "DATA", "average_uplifts", "draw", "judge", "largest_uplift"]

ALGORITHMS = {"fedavg": "FedAvg", "fedrep": "FedRep", "fedper": "FedPer"}
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
_STRUCTURES = {"groups": "in groups", "none": "random pairs of classes"}
_AFFINITY = "paper 10 affinity"
#: Label, colour, line and marker of each way to cluster; the rows have these ways.
_WAYS = {
    "vanilla": ("vanilla", "#888888", "-", "o"),
    _AFFINITY: ("FedWaD, affinity", PAPER_COLOUR, "-", "s"),
    "paper 10 sparse 3": ("FedWaD, sparse 3", PAPER_COLOUR, "--", "^"),
    "paper 10 sparse 5": ("FedWaD, sparse 5", PAPER_COLOUR, ":", "v"),
    "ours": ("ours, one message", OUR_COLOUR, "-", "o"),
    "true groups": ("true groups", EXACT_COLOUR, ":", None),
}
_PRINTED = ("vanilla", _AFFINITY)  # the ways whose accuracies in the paper the figure shows


def draw(rows: Sequence[Row]) -> Figures:
    """One figure for each dataset: accuracy by number of clients, with a panel for each algorithm,
    with and without groups."""
    figures = {}
    for data in [name for name in DATA if pick(rows, data=name)]:
        figure, panels = subplots(2, 3, panel_size=(3.5, 2.9))
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
        printed = np.array([PAPER_ACCURACY[(*case, count, way)] for count in counts]).reshape(-1, 2)
        label = f"the paper's numbers, {_WAYS[way][0].removeprefix('FedWaD, ')}"
        bars: dict[str, Any] = {"fmt": "x", "capsize": 2, "linewidth": 0.8, "color": _WAYS[way][1]}
        panel.errorbar(counts, *printed.T, **bars, label=label)
    panel.set_xscale("log")
    panel.margins(x=0.08)
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.minorticks_off()


class _Entry(NamedTuple):
    """An entry of the table: the mean accuracy over seeds of one way to cluster, and of vanilla."""

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


def _table_column(rows: Sequence[Row], data: str, structure: str, way: str) -> list[_Entry]:
    """One column of the table: the entries of all algorithms and numbers of clients."""
    entries = []
    for algorithm in ALGORITHMS:
        case = {"data": data, "structure": structure, "algorithm": algorithm}
        own = pick(rows, **case, training="ours")
        vanilla = _mean_by_clients(own, "vanilla")
        entries += [
            _Entry(algorithm, n, accuracy, vanilla[n])
            for n, accuracy in _mean_by_clients(own, way).items()
        ]
    return entries


def _mean_by_clients(rows: Sequence[Row], way: str, column: str = "accuracy") -> dict[int, float]:
    """The mean over seeds for each number of clients."""
    return dict(zip(*mean_by(pick(rows, way=way), "clients", column), strict=True))


def _mean_uplift(entries: Sequence[_Entry]) -> float:
    return float(np.mean([entry.uplift for entry in entries]))


def judge(rows: Sequence[Row]) -> list[Claim]:
    """The paper's claims about boosting, for each dataset that was measured."""
    return [claim for data in DATA if pick(rows, data=data) for claim in _claims(rows, data)]


def _claims(rows: Sequence[Row], data: str) -> list[Claim]:
    name = DATA[data]
    paper, ours = (
        {structure: _table_column(rows, data, structure, way) for structure in _STRUCTURES}
        for way in (_AFFINITY, "ours")
    )
    uplift = {structure: _mean_uplift(entries) for structure, entries in paper.items()}
    our_uplift = {structure: _mean_uplift(entries) for structure, entries in ours.items()}
    return [
        _recovers_groups(rows, data),
        Claim(
            f"{name}: where clients are in groups, clustering always improves FedAvg, FedRep and"
            " FedPer.",
            all(entry.uplift > 0 for entry in paper["groups"]),
            f"average uplift {uplift['groups']:+.1f} points, ours {our_uplift['groups']:+.1f}; the"
            f" smallest: {min(paper['groups'], key=lambda entry: entry.uplift)}",
        ),
        _without_groups(name, paper["none"], uplift["none"], our_uplift["none"]),
        _fedrep_gains(rows, data, sorted({entry.clients for entry in paper["groups"]})),
        _most_efficient(rows, data),
    ]


def _recovers_groups(rows: Sequence[Row], data: str) -> Claim:
    parts, perfect = [], True
    for clients in sorted({row["clients"] for row in pick(rows, data=data, structure="groups")}):
        here = pick(rows, data=data, structure="groups", clients=clients, training="ours")
        paper, ours = (
            np.mean([row["ARI"] for row in pick(here, way=way)]) for way in (_AFFINITY, "ours")
        )
        parts.append(f"{clients} clients {paper:.2f}, ours {ours:.2f}")
        perfect &= bool(paper == 1)
    text = f"{DATA[data]}: where clients are in groups, FedWaD is able to recover them."
    return Claim(text, perfect, f"adjusted Rand index with the affinity: {'; '.join(parts)}")


def _without_groups(
    name: str, entries: Sequence[_Entry], uplift: float, our_uplift: float
) -> Claim:
    worse = [entry for entry in entries if entry.uplift < 0]
    exceptions = f"worse: {'; '.join(map(str, worse))}" if worse else "nowhere worse"
    return Claim(
        f"{name}: without groups clustering almost always improves performance, except in some"
        " cases of FedPer.",
        len(worse) <= len(entries) / 4 and {entry.algorithm for entry in worse} <= {"fedper"},
        f"better in {len(entries) - len(worse)} of {len(entries)} cells, average uplift"
        f" {uplift:+.1f} points, ours {our_uplift:+.1f}; {exceptions}",
    )


def _fedrep_gains(rows: Sequence[Row], data: str, counts: Sequence[int]) -> Claim:
    """The largest uplifts of FedRep over these numbers of clients.

    They are judged where the paper's own largest uplift is at one of these numbers.
    """
    claimed = {"mnist": {"groups": 29, "none": 36}, "cifar10": {"groups": 9, "none": 19}}[data]
    most = {structure: largest_uplift(rows, data, structure, "fedrep") for structure in claimed}
    printed = {
        structure: max(_printed_uplift(data, structure, clients) for clients in counts)
        for structure in claimed
    }
    sentence = (
        f"at most {most['groups']:+.1f} and {most['none']:+.1f} points, where the paper's table has"
        f" {printed['groups']:+.1f} and {printed['none']:+.1f}"
    )
    if 10 not in counts:
        ten = " and ".join(f"{_printed_uplift(data, key, 10):+.1f}" for key in claimed)
        sentence += f"; with 10 clients (paper {ten}) it was not measured"
    holds = _all_of(
        most[structure] > gain / 2 if _largest_printed(data, structure) in counts else None
        for structure, gain in claimed.items()
    )
    text = f"{DATA[data]}: FedRep gains up to {claimed['groups']} points in groups and"
    return Claim(
        f"{text} {claimed['none']} without.", holds, sentence + _as_in_their_code(rows, data)
    )


def _all_of(parts: Iterable[bool | None]) -> bool | None:
    """Whether all parts of a claim hold: False if one fails, else None if one was not tested."""
    verdicts = list(parts)
    return False if False in verdicts else None if None in verdicts else True


def _largest_printed(data: str, structure: str) -> int:
    """The number of clients at which the paper's table has the largest uplift of FedRep."""
    return max((10, 20, 40, 100), key=lambda clients: _printed_uplift(data, structure, clients))


def _printed_uplift(data: str, structure: str, clients: int) -> float:
    """The uplift of FedRep in the paper's table."""
    affinity, vanilla = (
        PAPER_ACCURACY[data, structure, "fedrep", clients, way].mean
        for way in (_AFFINITY, "vanilla")
    )
    return affinity - vanilla


def _as_in_their_code(rows: Sequence[Row], data: str) -> str:
    """The end of a sentence: the largest uplifts of FedRep when it is trained as in the authors'
    code, and their numbers of clients."""
    theirs = pick(rows, data=data, training="authors", algorithm="fedrep")
    parts = []
    for structure, words in (("groups", "in groups"), ("drawn", "without")):
        chosen = pick(theirs, structure=structure)
        vanilla, clustered = (
            _mean_by_clients(chosen, way, "mean of clusters") for way in ("vanilla", _AFFINITY)
        )
        if clustered:
            most, clients = max((clustered[n] - vanilla[n], n) for n in clustered)
            parts.append(f"{most:+.1f} {words} ({clients} clients)")
    if not parts:
        return ""
    return (
        ". Trained, dealt and averaged over clusters as in the authors' code, at most"
        f" {', '.join(parts)}"
    )


def largest_uplift(rows: Sequence[Row], data: str, structure: str, algorithm: str) -> float:
    """The largest uplift of an algorithm by the paper's affinity, over numbers of clients."""
    entries = _table_column(rows, data, structure, _AFFINITY)
    return max(entry.uplift for entry in entries if entry.algorithm == algorithm)


def average_uplifts(rows: Sequence[Row], data: str) -> dict[str, dict[str, float]]:
    """For each structure, the mean uplift of each of the paper's three ways to cluster.

    The means are over the algorithms and numbers of clients that were measured for all three.
    """
    uplifts = {}
    for structure in _STRUCTURES:
        columns = {
            way: {entry[:2]: entry for entry in _table_column(rows, data, structure, way)}
            for way in _WAYS
            if way.startswith("paper")
        }
        common = set.intersection(*map(set, columns.values()))
        uplifts[structure] = {
            _WAYS[way][0].removeprefix("FedWaD, "): _mean_uplift(
                [entry for key, entry in entries.items() if key in common]
            )
            for way, entries in columns.items()
        }
    return uplifts


def _most_efficient(rows: Sequence[Row], data: str) -> Claim:
    parts, is_best = [], True
    for structure, means in average_uplifts(rows, data).items():
        listed = ", ".join(f"{way} {value:+.1f}" for way, value in means.items())
        parts.append(f"{_STRUCTURES[structure]}: {listed}")
        is_best &= means["affinity"] >= max(means.values()) - 0.05
    text = (
        f"{DATA[data]}: of the three ways to cluster, the affinity is the most efficient and"
        " robust."
    )
    return Claim(text, is_best, f"average uplift in points, {'; '.join(parts)}")
