"""What the paper claims about time and error, held against the rows of `scaling`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fedwad.experiments._experiment import Claim, Row, mean_by, pick

__all__ = ["CAPPED", "CAPPED_ROUNDS", "LARGEST_EXACT", "SUPPORTS", "judge"]

SUPPORTS = (2, 10, 100)
#: The exact interpolating measure grows with the samples; beyond this its rounds take minutes.
LARGEST_EXACT = 1000
CAPPED = "POT, default iterations"
_ROUNDS = 20  # the paper's
#: FedWaD with exact interpolating measures by POT as it comes: its support grows from round to
#: round.
CAPPED_ROUNDS = "FedWaD exact, POT as it comes"


@dataclass(frozen=True)
class _Means:
    """Means over draws of the rows, and the sizes at which methods are compared."""

    rows: Sequence[Row]

    @property
    def sizes(self) -> list[int]:
        return sorted({row["n"] for row in self.rows})

    @property
    def largest(self) -> int:
        return self.sizes[-1]

    @property
    def shared(self) -> int:
        """The largest size at which exact interpolating measures were tried."""
        return max(n for n in self.sizes if n <= LARGEST_EXACT)

    @property
    def too_small(self) -> str:
        return f"quick run, n up to {self.largest} only"

    def __call__(self, what: str, method: str, n: int, d: int = 2, ratio: int = 1) -> float:
        chosen = pick(self.rows, method=method, n=n, d=d, ratio=ratio)
        xs, values = mean_by(chosen, "n", what)
        return values[0] if xs else float("nan")


def _percent(values: Mapping[Any, float]) -> str:
    return ", ".join(f"{name} {100 * value:.1f}%" for name, value in values.items())


def _approximation_is_faster(mean: _Means) -> Claim:
    faster = {
        f"n = {n}, 1:{r}": mean("seconds", "FedWaD exact", n, 2, r)
        / mean("seconds", "FedWaD S=10", n, 2, r)
        for r in (1, 3)
        for n in mean.sizes
        if 100 < n <= mean.shared
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
    few = [n for n in mean.sizes if n < 1000]
    apart = {n: abs(mean("error", "FedWaD S=10", n) - mean("error", "exact", n)) for n in few}
    return Claim(
        "Below 1000 samples in two dimensions all methods have similar errors.",
        max(apart.values()) < 0.02,
        "errors of FedWaD (S = 10) and of the exact distance, both to the populations', are apart"
        " by " + ", ".join(f"{100 * value:.1f} points at n = {n}" for n, value in apart.items()),
    )


def _exact_solver_fails(mean: _Means) -> Claim:
    capped = {
        n: max(abs(row["to sample"]) for row in pick(mean.rows, method=CAPPED, n=n))
        for n in mean.sizes
        if n >= 5000
    }
    text = "The exact Wasserstein distance has numerical errors for n >= 5000."
    if not capped:
        return Claim(text, None, mean.too_small)
    return Claim(
        text,
        max(capped.values()) > 1e-6,
        "with POT's default cap of 100000 iterations, "
        + ", ".join(f"up to {100 * value:.2g}% at n = {n}" for n, value in capped.items())
        + ", and only a warning; solved to the end there are none, by a duality gap below 1e-9",
    )


def _exact_interpolants_fail(mean: _Means) -> Claim:
    """With exact plans the chain of distances never increases (Theorem 2, first half), so a rise
    from one round to the next is a numerical error. That there is none takes all rounds to say."""
    text = "FedWaD with exact interpolating measures has numerical errors for n >= 1000."
    capped = pick(mean.rows, method=CAPPED_ROUNDS)
    if not capped:
        return Claim(text, None, mean.too_small)
    found, rises, whole = [], False, True
    for least, words in (
        (0.0, "as it comes"),
        (1e-5, "without masses up to 1e-5, as in the authors' code,"),
    ):
        own = pick(capped, least=least)
        rounds, errors = mean_by(own, "round", "to sample")
        supports = mean_by(own, "round", "support")[1]
        rises |= any(late > early + 1e-9 for early, late in pairwise(errors))
        whole &= len(rounds) >= _ROUNDS
        steps = ", ".join(
            f"{100 * error:+.3f}% ({support:.0f} points)"
            for error, support in zip(errors, supports, strict=True)
        )
        found.append(f"{words} {steps} after {len(rounds)} rounds")
    grown = mean("to sample", "FedWaD exact", mean.shared, 2, 3)
    return Claim(
        text,
        True if rises else False if whole else None,
        f"with POT, to the sample's exact distance: {'; '.join(found)}; n = {mean.shared}, ratio"
        f" 1:3, one draw. With plans proved optimal {100 * grown:+.2f}% after 20 rounds, the"
        " support capped at 1000",
    )


def _approximation_is_robust(mean: _Means) -> Claim:
    sizes = mean.sizes
    robust = {
        n: mean("error", "FedWaD S=10", n) for n in (sizes[0], sizes[len(sizes) // 2], sizes[-1])
    }
    return Claim(
        "The approximated FedWaD is robust: its error is similar for small and large numbers of"
        " samples.",
        None if mean.largest < 5000 else robust[mean.largest] <= robust[sizes[0]],
        "S = 10, to the populations' distance: "
        + _percent({f"n = {n}": value for n, value in robust.items()}),
    )


def _fast_for_many_samples(mean: _Means) -> Claim:
    methods = ("exact", CAPPED, "FedWaD S=10", "FedWaD S=100")
    fast = {method: mean("seconds", method, mean.largest) for method in methods}
    text = "From 5000 samples on FedWaD is as fast as exact optimal transport."
    if mean.largest < 5000:
        return Claim(text, None, mean.too_small)
    return Claim(
        text,
        fast["FedWaD S=100"] <= fast["exact"],
        f"seconds at n = {mean.largest}: "
        + ", ".join(f"{method} {value:.2g}" for method, value in fast.items()),
    )


def _unequal_samples_are_slower(mean: _Means) -> Claim:
    times = {r: mean("seconds", "FedWaD exact", mean.shared, 2, r) for r in (1, 3)}
    return Claim(
        "FedWaD with exact interpolating measures is slower for samples 1:3 than for 1:1, since its"
        " support grows.",
        times[3] > times[1],
        f"{times[3]:.1f} s against {times[1]:.1f} s at n = {mean.shared}, its support capped at"
        " 1000",
    )


def _high_dimensions_are_hard(mean: _Means) -> Claim:
    methods = ("exact", "FedWaD exact", "FedWaD S=10", "one message")
    high = {method: mean("error", method, mean.shared, 50) for method in methods}
    return Claim(
        "In 50 dimensions no method is close to the populations' distance, FedWaD with S = 10 least"
        " of all.",
        high["FedWaD S=10"] > max(high["exact"], high["FedWaD exact"]) and high["exact"] > 0.05,
        f"errors at n = {mean.shared}: " + _percent(high),
    )


def _ratio_makes_no_difference(mean: _Means) -> Claim:
    cases = ("exact", mean.largest), ("FedWaD S=10", mean.largest), ("FedWaD exact", mean.shared)
    ratios = {
        f"{method}, n = {n}": mean("seconds", method, n, 50, 3) / mean("seconds", method, n, 50, 1)
        for method, n in cases
    }
    return Claim(
        "In 50 dimensions the ratio of the samples makes a negligible difference to the time.",
        all(1 / 1.5 < value < 1.5 for value in ratios.values()),
        "1:3 takes "
        + ", ".join(f"{value:.2g} times 1:1 ({case})" for case, value in ratios.items()),
    )


def _support_takes_longer(mean: _Means) -> Claim:
    costs = {s: mean("seconds", f"FedWaD S={s}", mean.largest, 2, 3) for s in SUPPORTS}
    listed = ", ".join(f"{value:.2g} s for S = {s}" for s, value in costs.items())
    return Claim(
        "A larger support takes longer.",
        costs[10] < costs[100],
        f"{listed} at n = {mean.largest}, ratio 1:3",
    )


def _support_helps(mean: _Means) -> Claim:
    def helps(n: int, d: int) -> float:
        """The part of the error to the sample's distance that 100 points instead of 10 remove."""
        few, many = (mean("to sample", f"FedWaD S={s}", n, d, 3) for s in (10, 100))
        return 1 - many / few

    first, largest = mean.sizes[0], mean.largest
    return Claim(
        "A larger support helps mostly in two dimensions with n >= 1000.",
        helps(largest, 2) > max(helps(first, 2), helps(largest, 50)),
        "S = 100 brings the error to the sample's distance, as a part of that with S = 10, to "
        + ", ".join(
            f"{1 - helps(n, d):.2f} (n = {n}, d = {d})" for d in (2, 50) for n in (first, largest)
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
