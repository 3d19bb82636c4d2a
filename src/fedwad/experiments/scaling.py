"""Time and error against the number of samples, for Gaussians with a known distance.

Times are processor times, so other work on the machine does not count. The paper averages over ten
draws of the samples. We average over five draws below 1000 samples, over two at 1000 and 3000, and
take one beyond.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

import fedwad
from fedwad.experiments._experiment import Experiment, Figures, Row, Settings, pick
from fedwad.experiments._plots import EXACT_COLOUR, OUR_COLOUR, PAPER_COLOUR, plot_means, subplots
from fedwad.experiments._pot_rounds import pot_rounds
from fedwad.experiments._scaling_claims import (
    MAX_EXACT_SAMPLES,
    POT_DEFAULT,
    POT_DEFAULT_ROUNDS,
    SUPPORTS,
    judge,
)
from fedwad.ot import Floats, Interpolant

__all__ = ["EXPERIMENT"]

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


def _tasks(quick: bool) -> list[Settings]:
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


EXPERIMENT = Experiment(
    "scaling", "Time and error against the number of samples", _tasks, _measure, _plot, judge
)
