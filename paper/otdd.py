"""Distances between four real datasets, and how rounds, support and samples change them.

Each party draws its own t, as in the authors' code. The paper averages over five draws of 5000
samples; of that size we take one draw with 5000 support points or 500 rounds, since a pair takes
minutes there. Times are processor times.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwad
from fedwad.transport import Floats
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
    square_matrix,
    subplots,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
PAIRS = [f"{a} {b}" for a, b in combinations(NAMES, 2)]
#: The two pairs whose distances the paper compares for several numbers of samples. The other
#: ablations use the first pair only.
COMPARED = ("mnist kmnist", "mnist usps")
#: How often samples are drawn from the datasets; each draw has its own seed.
DRAWS = 5


def compared_settings(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """Title of each method that is compared on the four datasets, and values that pick its rows.

    The first is the exact distance and the second our summary. The paper's method follows, with its
    settings in the order of the paper's figure.
    """
    settings = dict.fromkeys(
        (row["support"], row["rounds"]) for row in pick(rows, part="datasets", method="fedwad")
    )
    return [
        ("exact", {"method": "exact"}),
        ("ours, one message", {"method": "summary"}),
        *(
            (f"FedWaD, S = {s}, {k} rounds", {"method": "fedwad", "support": s, "rounds": k})
            for s, k in settings
        ),
    ]


def mean_by_pair(rows: Sequence[Row], setting: dict[str, Any], column: str = "value") -> Floats:
    """The mean over draws of a column, for each pair; only rows with the values of `setting`."""
    chosen = [pick(rows, part="datasets", pair=pair, **setting) for pair in PAIRS]
    return np.array([np.mean([row[column] for row in of_pair]) for of_pair in chosen])


def exact_for_same_draws(rows: Sequence[Row], setting: dict[str, Any]) -> Floats:
    """The mean exact distance of each pair, over the draws for which the setting was measured."""
    seeds = {row["seed"] for row in pick(rows, part="datasets", **setting)}
    return mean_by_pair([row for row in rows if row["seed"] in seeds], {"method": "exact"})


@dataclass(frozen=True)
class _Sizes:
    """Numbers of samples, draws, support points (few, many) and rounds (few, many) on the four
    datasets; then the rounds and supports of the ablation, and samples and supports of the last."""

    n: int
    draws: int
    supports: tuple[int, int]
    rounds: tuple[int, int]
    over_rounds: tuple[int, ...]
    over_support: tuple[int, ...]
    over_samples: tuple[int, ...]
    sample_supports: tuple[int, int]


_SIZES = {
    "quick": _Sizes(60, 1, (20, 60), (5, 20), (1, 5, 10, 20), (10, 30), (30, 60), (10, 50)),
    "reduced": _Sizes(
        150,
        2,
        (30, 150),
        (20, 60),
        (1, 2, 5, 10, 20, 40),
        (10, 30, 75, 150),
        (50, 100, 150),
        (20, 120),
    ),
    "whole": _Sizes(
        5000,
        DRAWS,
        (1000, 5000),
        (20, 500),
        (1, 2, 5, 10, 20, 50),
        (10, 50, 100, 500, 1000, 2000),
        (100, 300, 1000, 3000, 5000),
        (100, 1000),
    ),
}


def _tasks(size: Size) -> list[Settings]:
    sizes = _SIZES[size]
    (small, large), (few, many), n = sizes.supports, sizes.rounds, sizes.n
    ours = [{"method": "exact"}, {"method": "summary"}]
    paper: dict[str, Any] = {"method": "fedwad", "t": "own"}
    tasks = [
        {"part": "datasets", "pair": pair, "n": n, "seed": seed} | method
        for pair, seed in product(PAIRS, range(sizes.draws))
        for method in (*ours, paper | {"support": small, "rounds": few})
    ]
    first = {"pair": COMPARED[0], "seed": 0, "n": n} | paper
    tasks += [first | {"part": "rounds", "support": small, "rounds": k} for k in sizes.over_rounds]
    tasks += [first | {"part": "support", "support": s, "rounds": 10} for s in sizes.over_support]
    tasks += [
        {"part": "samples", "pair": pair, "n": count, "seed": 0} | method
        for count, pair in product(sizes.over_samples, COMPARED)
        for method in (
            *ours,
            *(paper | {"support": s, "rounds": 10} for s in sizes.sample_supports),
        )
    ]
    return tasks + [
        {"part": "datasets", "pair": pair, "n": n, "seed": 0, "support": s, "rounds": k} | paper
        for s, k in ((small, many), (large, few))
        for pair in PAIRS
    ]


def _measure(
    pair: str,
    n: int,
    seed: int,
    method: str,
    part: str,  # noqa: ARG001 (it says to which figure the row belongs)
    support: int = 0,
    rounds: int = 0,
    t: Any = 0.5,
) -> list[Row]:
    first, second = (load(name, samples=n, seed=seed) for name in pair.split())
    start = time.process_time()
    if method == "exact":
        value: float | None = fedwad.transport.dataset_distance(*first, *second)
        extra: Row = {}
    elif method == "summary":
        result = fedwad.distance(first, second, labels=True, seed=seed)
        value, extra = result.value, {"lower": result.lower}
    else:
        options: dict[str, Any] = {"support": support, "rounds": rounds}
        options |= {"method": "fedwad", "covariance_type": "spherical", "t": t}
        options |= {} if support == n else {"reveal": "distance"}
        result = fedwad.distance(first, second, labels=True, seed=seed, **options)
        value, extra = result.fedwad, {}
    if method != "exact":
        extra |= {"upper": result.upper, "bytes": result.traffic.up}
    return [{"value": value, "seconds": time.process_time() - start, **extra}]


def draw(rows: Sequence[Row]) -> Figures:
    return {
        "otdd": _matrices(rows),
        "otdd-ablation": _ablation(rows),
        "otdd-samples": _samples(rows),
    }


def literal_embedding(X: Floats, y: Any) -> Floats:
    """Samples (x, m_y, diag(S_y^(1/2))) as in the authors' code, without their jitter of 1e-6.

    `fedwad.distance(..., labels=True)` has sqrt(diag(S_y)) instead.
    """
    means, roots = np.zeros_like(X), np.zeros_like(X)
    for label in np.unique(y):
        rows = y == label
        values, vectors = np.linalg.eigh(np.cov(X[rows].T, bias=True))
        means[rows] = X[rows].mean(axis=0)
        roots[rows] = (vectors**2 * np.sqrt(np.maximum(values, 0))).sum(axis=1)
    return np.concatenate([X, means, roots], axis=1)


def _matrices(rows: Sequence[Row]) -> Figure:
    squares = {
        title: square_matrix(mean_by_pair(rows, setting), 4)
        for title, setting in compared_settings(rows)
    }
    figure, panels = subplots(1, len(squares), panel_size=(3.0, 3.0))
    names = [name.replace("fashion_mnist", "fashion").upper() for name in NAMES]
    low, high = (limit(list(squares.values())) for limit in (np.nanmin, np.nanmax))
    for panel, (title, square) in zip(panels, squares.items(), strict=True):
        panel.grid(False)
        panel.imshow(square, cmap="viridis", vmin=low, vmax=high)
        for i, j in np.argwhere(np.isfinite(square)):
            shade = "white" if square[i, j] < (low + high) / 2 else "black"
            place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
            panel.text(j, i, f"{square[i, j]:.1f}", color=shade, **place)
        panel.set_title(title, fontsize=8)
        panel.set_xticks(range(4), names, rotation=30, fontsize=7)
        panel.set_yticks(range(4), names if panel is panels[0] else [], fontsize=7)
    return figure


def _ablation(rows: Sequence[Row]) -> Figure:
    figure, panels = subplots(1, 2, panel_size=(5.2, 3.6))
    n = max(row["n"] for row in rows)
    first = pick(rows, pair=COMPARED[0], n=n, seed=0)
    exact = pick(first, method="exact")[0]
    ours = pick(first, method="summary")[-1]  # the time of the first includes compilation
    ours_seconds: dict[str, Any] = {"color": OUR_COLOUR, "linestyle": ":", "alpha": 0.6}
    for panel, part, label in (
        (panels[0], "rounds", "rounds"),
        (panels[1], "support", "support points S"),
    ):
        chosen = pick(rows, part=part)
        plot_means(panel, chosen, part, "value", "o-", color=PAPER_COLOUR, label="FedWaD, distance")
        panel.axhline(exact["value"], color=EXACT_COLOUR, label="exact, distance")
        words = "ours, one message, distance"
        panel.axhline(ours["value"], color=OUR_COLOUR, linestyle="--", label=words)
        other = panel.twinx()
        plot_means(other, chosen, part, "seconds", "s:", color="#999999", label="FedWaD, seconds")
        other.axhline(ours["seconds"], **ours_seconds, label="ours, one message, seconds")
        other.set(ylabel="processor seconds (dotted)", yscale="log")
        panel.set(xscale="log", xlabel=label, ylabel=f"distance MNIST - KMNIST, n = {n}")
    lines = [*panel.get_lines(), *other.get_lines()]
    legend_below(figure, lines, len(lines), fontsize=7)
    return figure


def _samples(rows: Sequence[Row]) -> Figure:
    figure, panels = subplots(1, 2, panel_size=(5.2, 3.6))
    chosen = pick(rows, part="samples")
    supports = sorted({row["support"] for row in pick(chosen, method="fedwad")})
    curves = [
        ("exact", {"method": "exact"}, EXACT_COLOUR, 1.0),
        ("ours, one message", {"method": "summary"}, OUR_COLOUR, 1.0),
    ]
    curves += [
        (f"FedWaD, S = {s}", {"method": "fedwad", "support": s}, PAPER_COLOUR, shade)
        for s, shade in zip(supports, np.linspace(0.45, 1.0, len(supports)), strict=True)
    ]
    for panel, column in zip(panels, ("value", "seconds"), strict=True):
        for pair, style in zip(COMPARED, ("o-", "s--"), strict=True):
            for title, setting, colour, shade in curves:
                label = title if pair == COMPARED[0] else None
                marks = {"color": colour, "alpha": shade, "markersize": 4, "label": label}
                plot_means(panel, pick(chosen, pair=pair, **setting), "n", column, style, **marks)
        panel.set(xscale="log", xlabel="samples n")
        panel.set_title("MNIST - KMNIST, dashed: MNIST - USPS", fontsize=9)
    panels[0].set(ylabel="distance")
    panels[1].set(ylabel="processor seconds", yscale="log")
    legend_below(figure, panels[0].get_legend_handles_labels()[0], 4, fontsize=7)
    return figure


def compare_orders(exact: Floats, estimated: Floats) -> tuple[int, int, list[str]]:
    """Whether b or c is closer to a, for all datasets a, b and c, by distances of all pairs.

    The result is the number of comparisons for which both distances agree, that of all comparisons,
    and the dataset a of each comparison for which they do not.
    """
    truth, other = square_matrix(exact, 4), square_matrix(estimated, 4)
    right, wrong = 0, []
    for a in range(4):
        for b, c in combinations([k for k in range(4) if k != a], 2):
            same = bool((truth[a, b] < truth[a, c]) == (other[a, b] < other[a, c]))
            right += same
            wrong += [] if same else [NAMES[a]]
    return right, right + len(wrong), wrong


def judge(rows: Sequence[Row]) -> list[Claim]:
    return _claims_about_datasets(rows) + _claims_about_settings(rows)


def _claims_about_datasets(rows: Sequence[Row]) -> list[Claim]:
    methods = dict(compared_settings(rows)[1:])
    exact = {title: exact_for_same_draws(rows, setting) for title, setting in methods.items()}
    estimated = {title: mean_by_pair(rows, setting) for title, setting in methods.items()}
    errors = {title: float(np.mean(estimated[title] / exact[title] - 1)) for title in methods}
    lines = []
    for title in methods:
        right, total, wrong = compare_orders(exact[title], estimated[title])
        words = f" (wrong from {', '.join(wrong)})" if wrong else ""
        lines.append(
            f"{title}: {right} of {total} orders{words}, error {100 * errors[title]:+.1f}%"
        )
    # The paper's settings: few rounds, many rounds, and a large support.
    few, many, large = (title for title in methods if title.startswith("FedWaD"))
    right, total, _ = compare_orders(exact[few], estimated[few])
    first_draw = pick(rows, seed=0)  # the only one that all settings have
    exact_of_first = mean_by_pair(first_draw, {"method": "exact"})
    few_error = float(np.mean(mean_by_pair(first_draw, methods[few]) / exact_of_first - 1))
    bound = float(np.mean(mean_by_pair(rows, methods[large], "upper") / exact[large] - 1))
    return [
        Claim(
            "FedWaD keeps the order of most distances between datasets, except for two pairs in the"
            " row of USPS.",
            right >= total - 2,
            "; ".join(lines),
        ),
        Claim(
            "More rounds approximate slightly better, but few already uncover the order.",
            0 <= few_error - errors[many] < 0.1 * few_error and right >= total - 2,
            f"all pairs, one draw: {100 * few_error:+.3f}% ({few}), {100 * errors[many]:+.3f}%"
            f" ({many})",
        ),
        Claim(
            "As many support points as samples give a very accurate distance.",
            errors[large] < 0.02,
            f"all pairs: {100 * errors[few]:+.2f}% ({few}), {100 * errors[large]:+.2f}% ({large})."
            " With as many points as samples the server has every sample: our bound from the same"
            f" messages is {100 * bound:+.2f}% off",
        ),
    ]


def _claims_about_settings(rows: Sequence[Row]) -> list[Claim]:
    sampled = pick(rows, part="samples")
    return [
        _few_rounds_suffice(rows),
        _support_matters(rows),
        _order_is_kept(sampled),
        _accurate_below_the_support(sampled),
        _time_grows(sampled),
    ]


def _few_rounds_suffice(rows: Sequence[Row]) -> Claim:
    by_rounds = dict(zip(*mean_by(pick(rows, part="rounds"), "rounds", "value"), strict=True))
    last = max(by_rounds)
    change = abs(by_rounds[10] / by_rounds[last] - 1)
    return Claim(
        "The number of rounds has very little impact; 10 suffice.",
        change < 0.01,
        f"after 10 rounds the distance is {100 * change:.1f}% from where it is after {last}",
    )


def _support_matters(rows: Sequence[Row]) -> Claim:
    supports, values = mean_by(pick(rows, part="support"), "support", "value")
    return Claim(
        "The support is more critical: the estimate falls steadily as it grows.",
        all(a >= b for a, b in pairwise(values)),
        ", ".join(f"{value:.2f} for S = {s}" for s, value in zip(supports, values, strict=True)),
    )


def _sizes(sampled: Sequence[Row]) -> tuple[list[int], list[int]]:
    """Numbers of samples, and of support points."""
    sizes = sorted({row["n"] for row in sampled})
    return sizes, sorted({row["support"] for row in sampled if "support" in row})


def _order_is_kept(sampled: Sequence[Row]) -> Claim:
    sizes, supports = _sizes(sampled)
    methods: list[dict[str, Any]] = [{"method": "exact"}]
    methods += [{"method": "fedwad", "support": s} for s in supports]
    larger = []  # whether the first distance is larger, in each setting
    for n, setting in product(sizes, methods):
        chosen = (pick(sampled, n=n, pair=pair, **setting)[0] for pair in COMPARED)
        first, second = (row["value"] for row in chosen)
        larger.append(first > second)
    return Claim(
        "Which of MNIST - KMNIST and MNIST - USPS is larger comes out the same for every number of"
        " samples.",
        len(set(larger)) == 1,
        f"{max(larger.count(True), larger.count(False))} of {len(larger)} comparisons agree,"
        f" n = {sizes[0]} to {sizes[-1]}",
    )


def _accurate_below_the_support(sampled: Sequence[Row]) -> Claim:
    def error(n: int, support: int) -> float:
        (estimate,) = pick(sampled, n=n, support=support, pair=COMPARED[0], method="fedwad")
        (exact,) = pick(sampled, n=n, pair=COMPARED[0], method="exact")
        return float(estimate["value"] / exact["value"]) - 1

    cases = list(product(*_sizes(sampled)))
    within = {f"n = {n}, S = {s}": error(n, s) for n, s in cases if n < s}
    beyond = {f"n = {n}, S = {s}": error(n, s) for n, s in cases if n > s}
    measured = within and beyond
    return Claim(
        "FedWaD is accurate while there are fewer samples than support points, and too large"
        " beyond.",
        max(within.values()) < 0.05 and min(beyond.values()) > 0.05 if measured else None,
        "; ".join(f"{case}: {100 * value:+.1f}%" for case, value in (within | beyond).items()),
    )


def _time_grows(sampled: Sequence[Row]) -> Claim:
    def seconds(n: int, support: int) -> float:
        return float(np.mean([row["seconds"] for row in pick(sampled, n=n, support=support)]))

    sizes, supports = _sizes(sampled)
    sample_factor = sizes[-1] / sizes[0]
    time_factors = {s: seconds(sizes[-1], s) / seconds(sizes[0], s) for s in supports}
    return Claim(
        "With a small support the time grows as the samples do, with a large one 10-fold for 100"
        " times as many.",
        None
        if sample_factor < 10
        else sample_factor / 3 < time_factors[supports[0]] < 3 * sample_factor
        and time_factors[supports[-1]] < sample_factor / 3,
        f"{sample_factor:.0f} times the samples take "
        + ", ".join(f"{value:.0f} times as long with S = {s}" for s, value in time_factors.items()),
    )


EXPERIMENT = Experiment(
    "otdd",
    "Distances between four datasets, ablations",
    _tasks,
    _measure,
    draw,
    judge,
    NAMES,
    "150 samples of each dataset instead of 5000, two draws instead of five, supports of 30 and"
    " 150 points instead of 1000 and 5000, and 60 rounds instead of 500.",
)
