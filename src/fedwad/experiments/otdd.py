"""Distances between four real datasets, and how rounds, support and samples change them.

The paper averages over five draws of 5000 samples, and so do we. With 5000 support points and with
500 rounds a pair takes minutes, so there we have one draw. Times are processor times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

import fedwad
from fedwad.datasets import load
from fedwad.experiments._experiment import (
    EXACT,
    OURS,
    PAPER,
    Claim,
    Experiment,
    Row,
    Settings,
    axes,
    mean_by,
    pick,
)
from fedwad.ot import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
_PAIRS = [f"{a} {b}" for a, b in combinations(_NAMES, 2)]
#: The two whose order the paper follows over the number of samples; the other ablations are about
#: the first.
_COMPARED = ("mnist kmnist", "mnist usps")
_DRAWS = 5


def _tasks(quick: bool) -> list[Settings]:
    n, draws = (300, 1) if quick else (5000, _DRAWS)
    small, large, many = (60, 300, 20) if quick else (1000, 5000, 500)
    rounds = 5 if quick else 20
    one = {"part": "datasets", "n": n, "seed": 0, "method": "fedwad"}
    return [
        *_dataset_tasks(n, draws, small, rounds),
        *_ablation_tasks(n, small, quick),
        *_sample_tasks(quick),
        *(one | {"pair": pair, "support": small, "rounds": many} for pair in _PAIRS),
        *(one | {"pair": pair, "support": large, "rounds": rounds} for pair in _PAIRS),
    ]


def _dataset_tasks(n: int, draws: int, support: int, rounds: int) -> Iterator[Settings]:
    for pair in _PAIRS:
        for seed in range(draws):
            common = {"part": "datasets", "pair": pair, "n": n, "seed": seed}
            yield common | {"method": "exact"}
            yield common | {"method": "summary"}
            yield common | {"method": "fedwad", "support": support, "rounds": rounds}


def _ablation_tasks(n: int, support: int, quick: bool) -> Iterator[Settings]:
    common = {"pair": _COMPARED[0], "seed": 0, "n": n, "method": "fedwad"}
    for k in (1, 5, 10, 20) if quick else (1, 2, 5, 10, 20, 50):
        yield common | {"part": "rounds", "support": support, "rounds": k}
    for s in (10, 60) if quick else (10, 50, 100, 500, 1000, 2000):
        yield common | {"part": "support", "support": s, "rounds": 10}


def _sample_tasks(quick: bool) -> Iterator[Settings]:
    sizes, supports = (
        ((100, 300), (10, 100)) if quick else ((100, 300, 1000, 3000, 5000), (100, 1000))
    )
    for size in sizes:
        for pair in _COMPARED:
            common = {"part": "samples", "pair": pair, "n": size, "seed": 0}
            yield common | {"method": "exact"}
            yield common | {"method": "summary"}
            for s in supports:
                yield common | {"method": "fedwad", "support": s, "rounds": 10}


def _measure(
    pair: str,
    n: int,
    seed: int,
    method: str,
    part: str,  # noqa: ARG001 (the same setting may belong to two figures)
    support: int = 0,
    rounds: int = 0,
) -> list[Row]:
    first, second = (load(name, samples=n, seed=seed) for name in pair.split())
    start = time.process_time()
    if method == "exact":
        value: float | None = fedwad.ot.dataset_distance(*first, *second)
        extra: dict[str, Any] = {}
    elif method == "summary":
        result = fedwad.distance(first, second, labels=True, seed=seed)
        value, extra = (
            result.value,
            {"lower": result.lower, "upper": result.upper, "bytes": result.traffic.up},
        )
    else:
        result = fedwad.distance(
            first,
            second,
            method="fedwad",
            labels=True,
            support=support,
            rounds=rounds,
            seed=seed,
            covariance_type="spherical",
        )
        value, extra = result.fedwad, {"upper": result.upper, "bytes": result.traffic.up}
    return [{"value": value, "seconds": time.process_time() - start, **extra}]


def _ways(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any]]]:
    """What is compared over the four datasets: exact, ours, and the paper's settings in the order
    of its figure."""
    settings = dict.fromkeys(
        (row["support"], row["rounds"]) for row in pick(rows, part="datasets", method="fedwad")
    )
    ways: list[tuple[str, dict[str, Any]]] = [("exact", {"method": "exact"})]
    ways.append(("ours, one message", {"method": "summary"}))
    ways += [
        (f"FedWaD, S = {s}, {k} rounds", {"method": "fedwad", "support": s, "rounds": k})
        for s, k in settings
    ]
    return ways


def _over_pairs(rows: Sequence[Row], wanted: dict[str, Any], what: str = "value") -> Floats:
    """The mean over draws for each pair."""
    chosen = [pick(rows, part="datasets", pair=pair, **wanted) for pair in _PAIRS]
    return np.array([np.mean([row[what] for row in own]) for own in chosen])


def _exact_beside(rows: Sequence[Row], wanted: dict[str, Any]) -> Floats:
    """The exact distances of the same draws."""
    draws = {row["seed"] for row in pick(rows, part="datasets", **wanted)}
    return _over_pairs([row for row in rows if row["seed"] in draws], {"method": "exact"})


def _square(values: Floats) -> Floats:
    """The symmetric matrix of six pairs; its diagonal is zero, of no interest, and not shown."""
    square = np.full((4, 4), np.nan)
    above = np.triu_indices(4, 1)
    square[above] = square.T[above] = values
    return square


def _draw(rows: Sequence[Row]) -> Mapping[str, Figure]:
    return {
        "otdd": _matrices(rows),
        "otdd-ablation": _ablation(rows),
        "otdd-samples": _samples(rows),
    }


def _matrices(rows: Sequence[Row]) -> Figure:
    squares = {title: _square(_over_pairs(rows, wanted)) for title, wanted in _ways(rows)}
    figure, panels = axes(1, len(squares), 3.0, 3.0)
    names = [name.replace("fashion_mnist", "fashion").upper() for name in _NAMES]
    low, high = (limit(list(squares.values())) for limit in (np.nanmin, np.nanmax))
    for number, (panel, (title, square)) in enumerate(zip(panels, squares.items(), strict=True)):
        panel.grid(False)
        panel.imshow(square, cmap="viridis", vmin=low, vmax=high)
        for i, j in np.argwhere(np.isfinite(square)):
            shade = "white" if square[i, j] < (low + high) / 2 else "black"
            panel.text(
                j, i, f"{square[i, j]:.1f}", ha="center", va="center", fontsize=8, color=shade
            )
        panel.set_title(title, fontsize=8)
        panel.set_xticks(range(4), names, rotation=30, fontsize=7)
        panel.set_yticks(range(4), names if number == 0 else [], fontsize=7)
    return figure


def _ablation(rows: Sequence[Row]) -> Figure:
    figure, panels = axes(1, 2, 5.2, 3.6)
    n = max(row["n"] for row in rows)
    pair, limit = (
        _COMPARED[0],
        [row["value"] for row in pick(rows, pair=_COMPARED[0], n=n, method="exact", seed=0)],
    )
    (*_, ours) = pick(
        rows, pair=pair, n=n, method="summary", seed=0
    )  # the first one's time has compiling in it
    for panel, part, label in (
        (panels[0], "rounds", "rounds"),
        (panels[1], "support", "support points S"),
    ):
        chosen = pick(rows, part=part)
        panel.plot(*mean_by(chosen, part, "value"), "o-", color=PAPER, label="FedWaD, distance")
        panel.axhline(limit[0], color=EXACT, label="exact, distance")
        panel.axhline(
            ours["value"], color=OURS, linestyle="--", label="ours, one message, distance"
        )
        other = panel.twinx()
        other.plot(
            *mean_by(chosen, part, "seconds"), "s:", color="#999999", label="FedWaD, seconds"
        )
        other.axhline(
            ours["seconds"],
            color=OURS,
            linestyle=":",
            alpha=0.6,
            label="ours, one message, seconds",
        )
        other.set(ylabel="processor seconds (dotted)", yscale="log")
        panel.set(xscale="log", xlabel=label, ylabel=f"distance MNIST - KMNIST, n = {n}")
    lines = [line for axis in (panel, other) for line in axis.get_lines()]
    labels = [str(line.get_label()) for line in lines]
    figure.legend(
        lines, labels, fontsize=7, frameon=False, loc="outside lower center", ncols=len(lines)
    )
    return figure


def _samples(rows: Sequence[Row]) -> Figure:
    figure, panels = axes(1, 2, 5.2, 3.6)
    chosen = pick(rows, part="samples")
    supports = sorted({row["support"] for row in pick(chosen, method="fedwad")})
    ways = [
        ("exact", {"method": "exact"}, EXACT, 1.0),
        ("ours, one message", {"method": "summary"}, OURS, 1.0),
    ]
    ways += [
        (f"FedWaD, S = {s}", {"method": "fedwad", "support": s}, PAPER, shade)
        for s, shade in zip(supports, np.linspace(0.45, 1.0, len(supports)), strict=True)
    ]
    for panel, what in zip(panels, ("value", "seconds"), strict=True):
        for pair, style in zip(_COMPARED, ("o-", "s--"), strict=True):
            for title, wanted, colour, shade in ways:
                label = title if pair == _COMPARED[0] else None
                places, values = mean_by(pick(chosen, pair=pair, **wanted), "n", what)
                panel.plot(
                    places, values, style, color=colour, alpha=shade, markersize=4, label=label
                )
        panel.set(xscale="log", xlabel="samples n")
        panel.set_title("MNIST - KMNIST, dashed: MNIST - USPS", fontsize=9)
    panels[0].set(ylabel="distance")
    panels[1].set(ylabel="processor seconds", yscale="log")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        fontsize=7,
        frameon=False,
        loc="outside lower center",
        ncols=4,
    )
    return figure


def _orders(exact: Floats, found: Floats) -> tuple[int, int, list[str]]:
    """How many comparisons "is b or c closer to a?" are right, how many there are, and the datasets
    a at which they are wrong."""
    truth, other = _square(exact), _square(found)
    kept, wrong = 0, []
    for a in range(4):
        for b, c in combinations([k for k in range(4) if k != a], 2):
            same = bool((truth[a, b] < truth[a, c]) == (other[a, b] < other[a, c]))
            kept += same
            wrong += [] if same else [_NAMES[a]]
    return kept, kept + len(wrong), wrong


def _judge(rows: Sequence[Row]) -> list[Claim]:
    return _over_datasets(rows) + _over_settings(rows)


def _over_datasets(rows: Sequence[Row]) -> list[Claim]:
    ways = dict(_ways(rows)[1:])
    exact = {title: _exact_beside(rows, wanted) for title, wanted in ways.items()}
    found = {title: _over_pairs(rows, wanted) for title, wanted in ways.items()}
    errors = {title: float(np.mean(found[title] / exact[title] - 1)) for title in ways}
    lines = []
    for title in ways:
        kept, of, wrong = _orders(exact[title], found[title])
        words = f" (wrong from {', '.join(wrong)})" if wrong else ""
        lines.append(f"{title}: {kept} of {of} orders{words}, error {100 * errors[title]:+.1f}%")
    few, many, large = (title for title in ways if title.startswith("FedWaD"))
    kept, of, _ = _orders(exact[few], found[few])
    same = {"seed": 0}  # the draw that all settings have
    early = float(
        np.mean(
            _over_pairs(rows, ways[few] | same) / _over_pairs(rows, {"method": "exact"} | same) - 1
        )
    )
    bound = float(np.mean(_over_pairs(rows, ways[large], "upper") / exact[large] - 1))
    return [
        Claim(
            "FedWaD keeps the order of most distances between datasets, except for two pairs in the"
            " row of USPS.",
            kept >= of - 2,
            "; ".join(lines),
        ),
        Claim(
            "More rounds approximate slightly better, but few already uncover the order.",
            0 <= early - errors[many] < 0.1 * early and kept >= of - 2,
            f"all pairs, one draw: {100 * early:+.3f}% ({few}), {100 * errors[many]:+.3f}%"
            f" ({many})",
        ),
        Claim(
            "As many support points as samples give a very accurate distance.",
            errors[large] < 0.02,
            f"all pairs: {100 * errors[few]:+.1f}% ({few}), {100 * errors[large]:+.1f}% ({large}):"
            " FedWaD stops at a matching that is not the best. With as many points as samples the"
            f" server has every sample: our bound from the same messages is {100 * bound:+.2f}%"
            " off",
        ),
    ]


def _over_settings(rows: Sequence[Row]) -> list[Claim]:
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
    late = abs(by_rounds[10] / by_rounds[last] - 1)
    return Claim(
        "The number of rounds has very little impact; 10 suffice.",
        late < 0.01,
        f"after 10 rounds the distance is {100 * late:.1f}% from where it is after {last}",
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
    orders = []
    for n, wanted in product(sizes, methods):
        chosen = (pick(sampled, n=n, pair=pair, **wanted)[0] for pair in _COMPARED)
        first, second = (row["value"] for row in chosen)
        orders.append(first > second)
    return Claim(
        "Which of MNIST - KMNIST and MNIST - USPS is larger comes out the same for every number of"
        " samples.",
        len(set(orders)) == 1,
        f"{max(orders.count(True), orders.count(False))} of {len(orders)} comparisons agree,"
        f" n = {sizes[0]} to {sizes[-1]}",
    )


def _accurate_below_the_support(sampled: Sequence[Row]) -> Claim:
    def error(n: int, support: int) -> float:
        (estimate,) = pick(sampled, n=n, support=support, pair=_COMPARED[0], method="fedwad")
        (exact,) = pick(sampled, n=n, pair=_COMPARED[0], method="exact")
        return float(estimate["value"] / exact["value"]) - 1

    cases = list(product(*_sizes(sampled)))
    within = {f"n = {n}, S = {s}": error(n, s) for n, s in cases if n < s}
    beyond = {f"n = {n}, S = {s}": error(n, s) for n, s in cases if n > s}
    known = within and beyond
    return Claim(
        "FedWaD is accurate while there are fewer samples than support points, and too large"
        " beyond.",
        max(within.values()) < 0.05 and min(beyond.values()) > 0.05 if known else None,
        "; ".join(f"{case}: {100 * value:+.1f}%" for case, value in (within | beyond).items()),
    )


def _time_grows(sampled: Sequence[Row]) -> Claim:
    def seconds(n: int, support: int) -> float:
        return float(np.mean([row["seconds"] for row in pick(sampled, n=n, support=support)]))

    sizes, supports = _sizes(sampled)
    more = sizes[-1] / sizes[0]
    slower = {s: seconds(sizes[-1], s) / seconds(sizes[0], s) for s in supports}
    return Claim(
        "With a small support the time grows as the samples do, with a large one 10-fold for 100"
        " times as many.",
        more / 3 < slower[supports[0]] < 3 * more and slower[supports[-1]] < more / 3,
        f"{more:.0f} times the samples take "
        + ", ".join(f"{value:.0f} times as long with S = {s}" for s, value in slower.items()),
    )


EXPERIMENT = Experiment(
    "otdd", "Distances between four datasets, ablations", _tasks, _measure, _draw, _judge, _NAMES
)
