"""The figures of the report, drawn from its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from paper.report.measure import ROOT, numbers

TEAL, ORANGE, GREY, DARK = "#0f766e", "#c2410c", "#94a3b8", "#1e293b"
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": DARK,
    "xtick.color": DARK,
    "ytick.color": DARK,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.4,
    "svg.hashsalt": "report",
}


def _empty(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def counterexample() -> Figure:
    """The points of the counterexample, and the error over t."""
    figure, (plane, errors) = _empty(5.6, 1.8, 2)
    mu, nu = np.array([[0, 0], [1, 0]]), np.array([[0.5, 2], [0, 1]])
    for k in range(2):
        plane.plot(*zip(mu[k], nu[k], strict=True), color=GREY, lw=1, zorder=0)
        plane.plot(*zip(mu[k], nu[1 - k], strict=True), color=TEAL, lw=1, ls=":", zorder=0)
    for points, colour, name in (
        (mu, TEAL, r"$\mu$"),
        (nu, ORANGE, r"$\nu$"),
        ((mu + nu) / 2, DARK, r"$\xi$"),
    ):
        plane.plot(*points.T, "o", color=colour, ms=5, label=name)
    plane.set(aspect="equal", xlim=(-0.5, 2.2), ylim=(-0.2, 2.2), xticks=[], yticks=[])
    plane.legend(loc="center right")
    plane.set_title("grey: FedWaD's plan, dotted: the optimal one", fontsize=8)
    rows = numbers("counterexample")
    fixed = [row for row in rows if not isinstance(row["t"], str)]
    errors.plot([row["t"] for row in fixed], [100 * row["error"] for row in fixed], color=TEAL)
    errors.set(xlabel="fixed t", ylabel="above the distance, %", xlim=(0, 1))
    errors.set_title("after 200 rounds", fontsize=8)
    return figure


def attacks() -> Figure:
    """Records that each attack reconstructs where everything is answered, and under a policy."""
    rows = numbers("attacks")
    names = {"a site that answers everything": "all requests answered"}
    names |= {"under a policy for rounds": "policy for rounds"}
    names |= {"under the policy to start with": "policy to start with"}
    marks = zip(names.items(), ((ORANGE, "o", 30), (TEAL, "D", 16), (DARK, "|", 60)), strict=True)
    order = list(dict.fromkeys((row["method"], row["attack"]) for row in rows))
    order = [one for one in order if any(_found(rows, one, name) for name in names.values())]
    figure, axes = _empty(6.2, 0.24 * len(order) + 0.8)
    found = [_found(rows, one, "all requests answered") for one in order]
    axes.hlines(range(len(order)), 0, found, color=GREY, lw=1)
    for (name, policy), (colour, mark, size) in marks:
        values = [_found(rows, one, policy) for one in order]
        axes.scatter(values, range(len(order)), size, colour, mark, label=name, zorder=3)
    for k, value in enumerate(found):
        axes.annotate(str(value), (value, k), (6, -2.5), textcoords="offset points", fontsize=7)
    words = {"fedwad": "rounds", "summary": "summary", "test": "test"}
    axes.set_yticks(range(len(order)), [f"{attack} ({words[m]})" for m, attack in order])
    axes.invert_yaxis()
    axes.set(xlabel="records reconstructed, of 200", xlim=(-6, 220))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _found(rows: list[dict[str, Any]], one: tuple[str, str], policy: str) -> int:
    method, attack = one
    return max(
        int(row["records"])
        for row in rows
        if (row["method"], row["attack"], row["policy"]) == (method, attack, policy)
    )


def estimates() -> Figure:
    """Errors of one-message estimates with their certified bounds, beside the paper's."""
    kept = json.loads((ROOT / "benchmarks/kept/accuracy.json").read_text(encoding="utf-8"))
    rows = kept["rows"]
    figure, axes = _empty(6.4, 2.4)
    for k, row in enumerate(rows):
        low, high = (float(end) / row["exact"] for end in row["its interval"].split(" to "))
        axes.plot(
            [low, min(high, 2.6)], [k, k], color=TEAL, lw=5, alpha=0.25, solid_capstyle="butt"
        )
        axes.plot(1 + row["one message"], k, "o", color=TEAL, ms=5)
        axes.plot(1 + row["paper, S=10"], k, "|", color=ORANGE, ms=9, mew=2)
        axes.plot(1 + row["paper, S=100"], k, "x", color=ORANGE, ms=5)
    axes.axvline(1, color=DARK, lw=0.7)
    axes.set_yticks(
        range(len(rows)),
        [row["problem"].replace("every other digit", "half of the digits") for row in rows],
    )
    axes.invert_yaxis()
    axes.set(xlabel="distance, relative to the exact one between the same samples", xlim=(0, 2.6))
    handles = [
        mpl.lines.Line2D([], [], color=TEAL, marker="o", ls="", label="one message, estimate"),
        mpl.lines.Line2D([], [], color=TEAL, lw=5, alpha=0.25, label="its certified bounds"),
        mpl.lines.Line2D([], [], color=ORANGE, marker="x", ls="", label="FedWaD, S = 100"),
        mpl.lines.Line2D([], [], color=ORANGE, marker="|", mew=2, ls="", label="FedWaD, S = 10"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def populations() -> Figure:
    """What is estimated from n rows, for one population and for two."""
    rows = numbers("populations")
    figure, panels = _empty(5.9, 2.4, 2)
    sizes = sorted({row["n"] for row in rows})
    for axes, shift in zip(panels, (0.2, 0.0), strict=True):
        own = [row for row in rows if row["shift"] == shift]
        median = {
            key: [np.median([row[key] for row in own if row["n"] == n]) for n in sizes]
            for key in ("exact", "value", "low", "high")
        }
        axes.fill_between(sizes, median["low"], median["high"], color=TEAL, alpha=0.2, lw=0)
        axes.plot(sizes, median["exact"], color=GREY, label="exact between the samples")
        axes.plot(sizes, median["value"], "x", color=ORANGE, label="the same from one message")
        known = [
            [row["population"] for row in own if row["n"] == n and row["differs"]] for n in sizes
        ]
        places = [n for n, found in zip(sizes, known, strict=True) if len(found) >= 5]
        middle = [np.median(found) for found in known if len(found) >= 5]
        axes.plot(places, middle, "o", color=TEAL, ms=4, label="population, 95% interval shaded")
        axes.axhline(own[0]["truth"], color=DARK, lw=0.7, ls="--", label="truth")
        axes.set(xscale="log", xlabel="rows at each site", ylim=(-0.1, 6.8))
        axes.set_title("a shift of 0.2 in each of 20" if shift else "one population", fontsize=8)
    panels[0].set_ylabel("distance")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def power() -> Figure:
    """P-values without a difference, and how often differences are found."""
    rows = numbers("power")
    figure, panels = _empty(6.1, 2.0, 3)
    null = sorted(row["blocks"] for row in rows if row["kind"] == "none")
    panels[0].plot([0, 1], [0, 1], color=GREY, lw=0.8)
    panels[0].step(null, np.arange(1, len(null) + 1) / len(null), color=TEAL)
    panels[0].set(xlabel="p-value, nothing differs", ylabel="fraction of runs")
    for axes, kind in zip(panels[1:], ("shift", "scale"), strict=True):
        own = [row for row in rows if row["kind"] == kind]
        sizes = sorted({row["size"] for row in own})
        for test, colour, name in (
            ("blocks", TEAL, "blocks, no row leaves"),
            ("energy", GREY, "energy, pooled rows"),
        ):
            found = [np.mean([row[test] <= 0.05 for row in own if row["size"] == s]) for s in sizes]
            axes.plot(sizes, found, "o-", ms=3, color=colour, label=name)
        axes.set(xlabel=f"{kind} of each of 5 columns", ylim=(0, 1.02))
    panels[1].set_ylabel("found at 5%")
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower right", ncols=2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "counterexample": counterexample,
    "attacks": attacks,
    "estimates": estimates,
    "populations": populations,
    "power": power,
}


def draw(folder: Path) -> None:
    """Write all figures as SVG."""
    folder.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        for name, make in FIGURES.items():
            make().savefig(folder / f"{name}.svg", metadata={"Date": None})
