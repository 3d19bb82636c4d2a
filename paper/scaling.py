"""Time and error against the number of samples, for Gaussians with a known distance.

Times are processor times, so other work on the machine does not count. The paper averages over ten
draws of the samples. We average over five draws below 1000 samples, over two at 1000 and 3000, and
take one beyond.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import fedwad
from fedwad.transport import Floats, Interpolant
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
    mean_by,
    pick,
    plot_means,
    subplots,
)

SUPPORTS = (2, 10, 100)
#: FedWaD runs with exact interpolating measures only up to this n. Their support grows with n, and
#: beyond it one round takes minutes.
MAX_EXACT_SAMPLES = 1000
#: The method in rows of the exact distance by POT with its default options.
POT_DEFAULT = "POT, default iterations"
#: The method in rows of single rounds of FedWaD with exact interpolating measures, for which POT
#: finds the plans with its default options (`pot_rounds`).
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
        + ", ".join(f"{value:.2g} times 1:1 ({case})" for case, value in factors.items())
        + ". The authors' script draws n samples on both sides unless d = 2, whatever the ratio, so"
        " that it could not show a difference",
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


_PANELS = ("seconds", "processor seconds"), ("error", "relative error to the populations' distance")
#: Options `rounds` and `min_mass` of `pot_rounds`.
_POT_ROUNDS = ((3, 0.0), (6, 1e-5))
#: Colour and line of each method.
_METHODS = {
    POT_DEFAULT: (EXACT_COLOUR, ":"),
    "exact": (EXACT_COLOUR, "-"),
    "FedWaD exact": (PAPER_COLOUR, "--"),
    "FedWaD S=2": ("#f0b27a", "-"),
    "FedWaD S=10": ("#e07b39", "-"),
    "FedWaD S=100": (PAPER_COLOUR, "-"),
    "one message": (OUR_COLOUR, "-"),
}


def _tasks(size: Size) -> list[Settings]:
    quick = size == "quick"
    sizes = (10, 100, 400) if quick else (10, 30, 100, 300, 1000, 3000, 5000, 10000)
    tasks: list[Settings] = [
        {"d": d, "ratio": ratio, "n": n, "seed": seed}
        for n in sizes
        for d in (2, 50)
        for ratio in (1, 3)
        for seed in range(1 if quick else 5 if n < 1000 else 2 if n < 5000 else 1)
    ]
    pot_case = {"d": 2, "ratio": 3, "n": MAX_EXACT_SAMPLES, "seed": 0}
    pot_tasks = [
        pot_case | {"rounds": rounds, "least": min_mass} for rounds, min_mass in _POT_ROUNDS
    ]
    return tasks if quick else tasks + pot_tasks


def clouds(d: int, ratio: int, n: int, seed: int) -> tuple[Floats, Floats, float]:
    """Samples of two Gaussians with the same covariance, and the distance between the populations.

    That is the distance between the means. The second sample has n / ratio points, at least 3.
    """
    rng = np.random.default_rng([seed, d, n])
    shift = np.zeros(d)
    shift[:2] = 6, 3
    x = rng.standard_normal((n, d))
    y = rng.standard_normal((max(n // ratio, 3), d)) + shift
    return x, y, float(np.linalg.norm(shift))


def _measure(
    d: int, ratio: int, n: int, seed: int, rounds: int = 0, least: float = 0.0
) -> list[Row]:
    """The rows of all methods; with `rounds`, those of `pot_rounds` with `least` as `min_mass`."""
    x, y, population_distance = clouds(d, ratio, n, seed)
    if rounds:
        return _measure_pot_rounds(x, y, population_distance, rounds, least)
    _warm_up()
    measured = {
        "exact": _timed(lambda: fedwad.wasserstein(x, y)),
        POT_DEFAULT: _timed(lambda: _pot(x, y)),
        "one message": _timed(lambda: fedwad.distance(x, y, method="summary", seed=seed).value),
    }
    for support in SUPPORTS:
        measured[f"FedWaD S={support}"] = _twenty_rounds(x, y, support, "barycentric", seed)
    if n < MAX_EXACT_SAMPLES or (n == MAX_EXACT_SAMPLES and seed == 0):
        # From a support of 10 points, which grows from round to round.
        measured["FedWaD exact"] = _twenty_rounds(x, y, 10, "exact", seed)
    sample_distance = measured["exact"][0]
    return [
        {
            "method": method,
            **_errors(value, population_distance, sample_distance),
            "seconds": seconds,
        }
        for method, (value, seconds) in measured.items()
    ]


def _measure_pot_rounds(
    x: Floats, y: Floats, population_distance: float, rounds: int, min_mass: float
) -> list[Row]:
    """The paper's estimate after each round of `pot_rounds`, from ten points half way between the
    samples."""
    sample_distance = fedwad.wasserstein(x, y)
    z = (x.mean(axis=0) + y.mean(axis=0)) / 2 + x[:10] - x[:10].mean(axis=0)
    start, rows = time.process_time(), []
    for number, support_size, value in pot_rounds(x, y, z, rounds, min_mass):
        seconds = time.process_time() - start
        row = {"method": POT_DEFAULT_ROUNDS, "round": number, "support": support_size}
        errors = _errors(value, population_distance, sample_distance)
        rows.append(row | errors | {"seconds": seconds})
    return rows


def _errors(value: float, population_distance: float, sample_distance: float) -> Row:
    """An estimate, and its relative errors to the distances of the populations and the samples."""
    return {
        "value": value,
        "error": abs(value / population_distance - 1),
        "to sample": value / sample_distance - 1,
    }


def _timed(compute: Callable[[], float]) -> tuple[float, float]:
    """The result of a computation, and its processor time in seconds."""
    start = time.process_time()
    return compute(), time.process_time() - start


def _twenty_rounds(
    x: Floats, y: Floats, support: int, interpolant: Interpolant, seed: int
) -> tuple[float, float]:
    """The paper's estimate after 20 rounds, and the seconds that the rounds took.

    After the last round `fedwad.distance` computes bounds and estimates of ours, which are not
    timed.
    """
    start, ends = time.process_time(), [0.0]  # ends: of each round
    result = fedwad.distance(
        x,
        y,
        method="fedwad",
        t=0.5,
        support=support,
        rounds=20,
        interpolant=interpolant,
        seed=seed,
        callback=lambda _: ends.append(time.process_time()),
    )
    return float("nan") if result.fedwad is None else result.fedwad, ends[-1] - start


@functools.cache
def _warm_up() -> None:
    """Load and compile everything once, so that no measured time has it."""
    x, y, _ = clouds(2, 1, 2000, 0)
    _pot(x[:10], y[:10])
    fedwad.distance(x, y, method="fedwad", support=100, rounds=1)
    fedwad.wasserstein(x[:500], y[:300])


def _pot(x: Floats, y: Floats) -> float:
    """W2 by POT with its default options: it stops at 100000 iterations and only warns."""
    import ot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(np.sqrt(ot.emd2([], [], ot.dist(x, y))))  # empty: equal weights


def _plot(rows: Sequence[Row]) -> Figures:
    figures = {}
    for ratio in (1, 3):
        figure, panels = subplots(2, 2, panel_size=(5.0, 3.6))
        cases = [(d, column, label) for d in (2, 50) for column, label in _PANELS]
        for panel, (d, column, label) in zip(panels, cases, strict=True):
            for method, (colour, style) in _METHODS.items():
                chosen = pick(rows, d=d, ratio=ratio, method=method)
                plot_means(
                    panel, chosen, "n", column, style, marker=".", color=colour, label=method
                )
            panel.set(xscale="log", xlabel="samples n", ylabel=label)
            if column == "error" and d == 50:
                panel.set_ylim(bottom=0)
            else:
                panel.set_yscale("log")
            panel.set_title(f"d = {d}, ratio 1:{ratio}")
        panels[0].legend(fontsize=7, frameon=False)
        figures[f"scaling-1-{ratio}"] = figure
    return figures


def pot_rounds(
    x: Floats, y: Floats, z: Floats, rounds: int, min_mass: float = 0.0
) -> Iterator[tuple[int, int, float]]:
    """FedWaD between samples x and y, from the support z: the number of each round, the number of
    points of its support, and the paper's estimate.

    POT stops at 100000 iterations and only warns. The points of x, y and z have equal weights, and
    t = 0.5. Points of an interpolating measure stay if their mass is above `min_mass`; the others
    leave their mass to them. The authors' code does so with 1e-5.
    """
    x_weights, y_weights, weights = (np.full(len(points), 1 / len(points)) for points in (x, y, z))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(1, rounds + 1):
            left = _midpoints(x_weights, x, weights, z, min_mass)
            right = _midpoints(y_weights, y, weights, z, min_mass)
            weights, z = _midpoints(*left, *right, min_mass)
            plans = _plan(x_weights, x, weights, z), _plan(y_weights, y, weights, z)
            squares = [float((plan * cost).sum()) for plan, cost in plans]
            yield number, len(z), float(np.sqrt(squares).sum())


def _plan(a: Floats, x: Floats, b: Floats, y: Floats) -> tuple[Floats, Floats]:
    """POT's plan between points x with weights a and points y with weights b, and the costs."""
    import ot

    cost = ot.dist(x, y)
    return ot.emd(a, b, cost), cost


def _midpoints(
    a: Floats, x: Floats, b: Floats, y: Floats, min_mass: float
) -> tuple[Floats, Floats]:
    """Weights and points of the exact interpolating measure at t = 0.5."""
    plan, _ = _plan(a, x, b, y)
    rows, columns = np.nonzero(plan > min_mass)
    mass = plan[rows, columns]
    return mass / mass.sum(), (x[rows] + y[columns]) / 2


EXPERIMENT = Experiment(
    "scaling", "Time and error against the number of samples", _tasks, _measure, _plot, judge
)
