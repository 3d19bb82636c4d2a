"""What the paper says about four datasets, judged on our rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np

from fedwad.experiments._experiment import Claim, Row, mean_by, pick
from fedwad.experiments._otdd_rows import (
    COMPARED,
    NAMES,
    compared_settings,
    exact_beside,
    over_pairs,
)
from fedwad.experiments._plots import square_matrix
from fedwad.ot import Floats

__all__ = ["judge", "orders"]


def orders(exact: Floats, found: Floats) -> tuple[int, int, list[str]]:
    """How many comparisons "is b or c closer to a?" are right, how many there are, and the datasets
    a at which they are wrong."""
    truth, other = square_matrix(exact, 4), square_matrix(found, 4)
    kept, wrong = 0, []
    for a in range(4):
        for b, c in combinations([k for k in range(4) if k != a], 2):
            same = bool((truth[a, b] < truth[a, c]) == (other[a, b] < other[a, c]))
            kept += same
            wrong += [] if same else [NAMES[a]]
    return kept, kept + len(wrong), wrong


def judge(rows: Sequence[Row]) -> list[Claim]:
    return _over_datasets(rows) + _over_settings(rows)


def _over_datasets(rows: Sequence[Row]) -> list[Claim]:
    methods = dict(compared_settings(rows)[1:])
    exact = {title: exact_beside(rows, wanted) for title, wanted in methods.items()}
    found = {title: over_pairs(rows, wanted) for title, wanted in methods.items()}
    errors = {title: float(np.mean(found[title] / exact[title] - 1)) for title in methods}
    lines = []
    for title in methods:
        kept, of, wrong = orders(exact[title], found[title])
        words = f" (wrong from {', '.join(wrong)})" if wrong else ""
        lines.append(f"{title}: {kept} of {of} orders{words}, error {100 * errors[title]:+.1f}%")
    few, many, large = (title for title in methods if title.startswith("FedWaD"))
    kept, of, _ = orders(exact[few], found[few])
    drawn_by_all = pick(rows, seed=0)
    exact_first = over_pairs(drawn_by_all, {"method": "exact"})
    early = float(np.mean(over_pairs(drawn_by_all, methods[few]) / exact_first - 1))
    bound = float(np.mean(over_pairs(rows, methods[large], "upper") / exact[large] - 1))
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
        chosen = (pick(sampled, n=n, pair=pair, **wanted)[0] for pair in COMPARED)
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
        (estimate,) = pick(sampled, n=n, support=support, pair=COMPARED[0], method="fedwad")
        (exact,) = pick(sampled, n=n, pair=COMPARED[0], method="exact")
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
