"""The paper's claims about time and error, judged by the rows of `scaling`.

A row compares a first sample of n points with a second sample of n / ratio points, in d dimensions.
"error" is relative to the distance between the populations, "to sample" to that between the
samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fedwad.experiments._experiment import Claim, Row, mean_by, pick

__all__ = ["MAX_EXACT_SAMPLES", "POT_DEFAULT", "POT_DEFAULT_ROUNDS", "SUPPORTS", "judge"]

SUPPORTS = (2, 10, 100)
#: FedWaD runs with exact interpolating measures only up to this n. Their support grows with n, and
#: beyond it one round takes minutes.
MAX_EXACT_SAMPLES = 1000
#: The method in rows of the exact distance by POT with its default options.
POT_DEFAULT = "POT, default iterations"
#: The method in rows of single rounds of FedWaD with exact interpolating measures, for which POT
#: finds the plans with its default options (`fedwad.experiments._pot_rounds.pot_rounds`).
POT_DEFAULT_ROUNDS = "FedWaD exact, POT as it comes"
_ROUNDS = 20  # of FedWaD, as in the paper


@dataclass(frozen=True)
class _Means:
    """Means of the rows over draws of the samples, and the sizes n at which methods are compared.

    A call returns the mean of a column.
    """

    rows: Sequence[Row]

    @property
    def sizes(self) -> list[int]:
        return sorted({row["n"] for row in self.rows})

    @property
    def largest(self) -> int:
        return self.sizes[-1]

    @property
    def largest_with_exact(self) -> int:
        """The largest n for which FedWaD ran with exact interpolating measures."""
        return max(n for n in self.sizes if n <= MAX_EXACT_SAMPLES)

    @property
    def too_small_note(self) -> str:
        return f"quick run, n up to {self.largest} only"

    def __call__(self, column: str, method: str, n: int, d: int = 2, ratio: int = 1) -> float:
        _, values = mean_by(pick(self.rows, method=method, n=n, d=d, ratio=ratio), "n", column)
        return values[0] if values else float("nan")


def _percent(values: Mapping[Any, float]) -> str:
    return ", ".join(f"{name} {100 * value:.1f}%" for name, value in values.items())


def _approximation_is_faster(mean: _Means) -> Claim:
    faster = {
        f"n = {n}, 1:{ratio}": mean("seconds", "FedWaD exact", n, ratio=ratio)
        / mean("seconds", "FedWaD S=10", n, ratio=ratio)
        for ratio in (1, 3)
        for n in mean.sizes
        if 100 < n <= mean.largest_with_exact
    }
    return Claim(
        "The approximated interpolating measure is at least 10 times faster than the exact one"
        " beyond 100 samples.",
        all(factor >= 10 for factor in faster.values()),
        ", ".join(f"{factor:.1f} times ({case})" for case, factor in faster.items())
        + ", S = 10, d = 2: where one number of samples divides the other, plans proved optimal"
        " keep the exact support small",
    )


def _errors_are_similar(mean: _Means) -> Claim:
    differences = {
        n: abs(mean("error", "FedWaD S=10", n) - mean("error", "exact", n))
        for n in mean.sizes
        if n < 1000
    }
    return Claim(
        "Below 1000 samples in two dimensions all methods have similar errors.",
        max(differences.values()) < 0.02,
        "errors of FedWaD (S = 10) and of the exact distance, both to the populations', are apart"
        " by "
        + ", ".join(f"{100 * value:.1f} points at n = {n}" for n, value in differences.items()),
    )


def _exact_solver_fails(mean: _Means) -> Claim:
    errors = {
        n: max(abs(row["to sample"]) for row in pick(mean.rows, method=POT_DEFAULT, n=n))
        for n in mean.sizes
        if n >= 5000
    }
    text = "The exact Wasserstein distance has numerical errors for n >= 5000."
    if not errors:
        return Claim(text, None, mean.too_small_note)
    return Claim(
        text,
        max(errors.values()) > 1e-6,
        "with POT's default cap of 100000 iterations, "
        + ", ".join(f"up to {100 * value:.2g}% at n = {n}" for n, value in errors.items())
        + ", and only a warning; solved to the end there are none, by a duality gap below 1e-9",
    )


def _exact_interpolants_fail(mean: _Means) -> Claim:
    """With exact plans the estimate never increases (Theorem 2, first half), so a rise from one
    round to the next is a numerical error. The claim holds if there is a rise. It does not hold if
    all 20 rounds were measured and there is none. With fewer rounds it stays open."""
    text = "FedWaD with exact interpolating measures has numerical errors for n >= 1000."
    pot_rows = pick(mean.rows, method=POT_DEFAULT_ROUNDS)
    if not pot_rows:
        return Claim(text, None, mean.too_small_note)
    parts, rises, has_all_rounds = [], False, True
    for min_mass, words in (
        (0.0, "as it comes"),
        (1e-5, "without masses up to 1e-5, as in the authors' code,"),
    ):
        chosen = pick(pot_rows, least=min_mass)  # "least" is the stored name of `min_mass`
        rounds, errors = mean_by(chosen, "round", "to sample")
        supports = mean_by(chosen, "round", "support")[1]
        rises |= any(late > early + 1e-9 for early, late in pairwise(errors))
        has_all_rounds &= len(rounds) >= _ROUNDS
        listed = ", ".join(  # after rounds 1, 2, ...
            f"{100 * error:+.3f}% ({support:.0f} points)"
            for error, support in zip(errors, supports, strict=True)
        )
        parts.append(f"{words} {listed} after {len(rounds)} rounds")
    n = mean.largest_with_exact
    error_with_optimal_plans = mean("to sample", "FedWaD exact", n, ratio=3)
    return Claim(
        text,
        True if rises else False if has_all_rounds else None,
        f"with POT, to the sample's exact distance: {'; '.join(parts)}; n = {n}, ratio 1:3, one"
        f" draw. With plans proved optimal {100 * error_with_optimal_plans:+.2f}% after 20 rounds,"
        " the support capped at 1000",
    )


def _approximation_is_robust(mean: _Means) -> Claim:
    sizes = mean.sizes
    errors = {
        n: mean("error", "FedWaD S=10", n) for n in (sizes[0], sizes[len(sizes) // 2], sizes[-1])
    }
    return Claim(
        "The approximated FedWaD is robust: its error is similar for small and large numbers of"
        " samples.",
        None if mean.largest < 5000 else errors[mean.largest] <= errors[sizes[0]],
        "S = 10, to the populations' distance: "
        + _percent({f"n = {n}": value for n, value in errors.items()}),
    )


def _fast_for_many_samples(mean: _Means) -> Claim:
    methods = ("exact", POT_DEFAULT, "FedWaD S=10", "FedWaD S=100")
    seconds = {method: mean("seconds", method, mean.largest) for method in methods}
    text = "From 5000 samples on FedWaD is as fast as exact optimal transport."
    if mean.largest < 5000:
        return Claim(text, None, mean.too_small_note)
    return Claim(
        text,
        seconds["FedWaD S=100"] <= seconds["exact"],
        f"seconds at n = {mean.largest}: "
        + ", ".join(f"{method} {value:.2g}" for method, value in seconds.items()),
    )


def _unequal_samples_are_slower(mean: _Means) -> Claim:
    n = mean.largest_with_exact
    seconds = {ratio: mean("seconds", "FedWaD exact", n, ratio=ratio) for ratio in (1, 3)}
    return Claim(
        "FedWaD with exact interpolating measures is slower for samples 1:3 than for 1:1, since its"
        " support grows.",
        seconds[3] > seconds[1],
        f"{seconds[3]:.1f} s against {seconds[1]:.1f} s at n = {n}, its support capped at 1000",
    )


def _high_dimensions_are_hard(mean: _Means) -> Claim:
    methods = ("exact", "FedWaD exact", "FedWaD S=10", "one message")
    n = mean.largest_with_exact
    errors = {method: mean("error", method, n, d=50) for method in methods}
    return Claim(
        "In 50 dimensions no method is close to the populations' distance, FedWaD with S = 10 least"
        " of all.",
        errors["FedWaD S=10"] > max(errors["exact"], errors["FedWaD exact"])
        and errors["exact"] > 0.05,
        f"errors at n = {n}: " + _percent(errors),
    )


def _ratio_makes_no_difference(mean: _Means) -> Claim:
    cases = {
        "exact": mean.largest,
        "FedWaD S=10": mean.largest,
        "FedWaD exact": mean.largest_with_exact,
    }
    factors = {
        f"{method}, n = {n}": mean("seconds", method, n, d=50, ratio=3)
        / mean("seconds", method, n, d=50, ratio=1)
        for method, n in cases.items()
    }
    return Claim(
        "In 50 dimensions the ratio of the samples makes a negligible difference to the time.",
        all(1 / 1.5 < value < 1.5 for value in factors.values()),
        "1:3 takes "
        + ", ".join(f"{value:.2g} times 1:1 ({case})" for case, value in factors.items()),
    )


def _support_takes_longer(mean: _Means) -> Claim:
    seconds = {s: mean("seconds", f"FedWaD S={s}", mean.largest, ratio=3) for s in SUPPORTS}
    listed = ", ".join(f"{value:.2g} s for S = {s}" for s, value in seconds.items())
    return Claim(
        "A larger support takes longer.",
        seconds[10] < seconds[100],
        f"{listed} at n = {mean.largest}, ratio 1:3",
    )


def _support_helps(mean: _Means) -> Claim:
    def error_reduction(n: int, d: int) -> float:
        """By which fraction the error "to sample" is smaller with S = 100 than with S = 10."""
        few, many = (mean("to sample", f"FedWaD S={s}", n, d, ratio=3) for s in (10, 100))
        return 1 - many / few

    smallest, largest = mean.sizes[0], mean.largest
    return Claim(
        "A larger support helps mostly in two dimensions with n >= 1000.",
        error_reduction(largest, 2)
        > max(error_reduction(smallest, 2), error_reduction(largest, 50)),
        "S = 100 brings the error to the sample's distance, as a part of that with S = 10, to "
        + ", ".join(
            f"{1 - error_reduction(n, d):.2f} (n = {n}, d = {d})"
            for d in (2, 50)
            for n in (smallest, largest)
        ),
    )


_CLAIMS = (
    _approximation_is_faster,
    _errors_are_similar,
    _exact_solver_fails,
    _exact_interpolants_fail,
    _approximation_is_robust,
    _fast_for_many_samples,
    _unequal_samples_are_slower,
    _high_dimensions_are_hard,
    _ratio_makes_no_difference,
    _support_takes_longer,
    _support_helps,
)


def judge(rows: Sequence[Row]) -> list[Claim]:
    return [claim(_Means(rows)) for claim in _CLAIMS]
