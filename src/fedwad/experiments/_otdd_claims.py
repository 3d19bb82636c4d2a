"""The paper's claims about distances between four datasets, judged by the rows of `otdd`."""

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
    exact_for_same_draws,
    mean_by_pair,
)
from fedwad.experiments._plots import square_matrix
from fedwad.ot import Floats

__all__ = ["compare_orders", "judge"]


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
            f"all pairs: {100 * errors[few]:+.1f}% ({few}), {100 * errors[large]:+.1f}% ({large}):"
            " FedWaD stops at a matching that is not the best. With as many points as samples the"
            f" server has every sample: our bound from the same messages is {100 * bound:+.2f}%"
            " off",
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
        sample_factor / 3 < time_factors[supports[0]] < 3 * sample_factor
        and time_factors[supports[-1]] < sample_factor / 3,
        f"{sample_factor:.0f} times the samples take "
        + ", ".join(f"{value:.0f} times as long with S = {s}" for s, value in time_factors.items()),
    )
