"""Time and error against the number of samples, for Gaussians with a known distance.

Times are processor times, so other work on the machine does not count. The paper averages over ten
draws of the samples. We take five draws below 1000 samples, two at 1000 and 3000, and one beyond.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

import fedwad
from fedwad.experiments._experiment import Experiment, Figures, Row, Settings, pick
from fedwad.experiments._plots import EXACT, OURS, PAPER, axes, plot_means
from fedwad.experiments._pot_rounds import pot_rounds
from fedwad.experiments._scaling_claims import CAPPED, CAPPED_ROUNDS, LARGEST_EXACT, SUPPORTS, judge
from fedwad.ot import Floats, Interpolant

__all__ = ["EXPERIMENT"]

_PANELS = ("seconds", "processor seconds"), ("error", "relative error to the populations' distance")
#: Numbers of rounds of `pot_rounds`, and the mass up to which it leaves points out.
_POT_ROUNDS = ((3, 0.0), (6, 1e-5))
_METHODS = {
    CAPPED: (EXACT, ":"),
    "exact": (EXACT, "-"),
    "FedWaD exact": (PAPER, "--"),
    "FedWaD S=2": ("#f0b27a", "-"),
    "FedWaD S=10": ("#e07b39", "-"),
    "FedWaD S=100": (PAPER, "-"),
    "one message": (OURS, "-"),
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
    capped = {"d": 2, "ratio": 3, "n": LARGEST_EXACT, "seed": 0}
    more = [capped | {"rounds": rounds, "least": least} for rounds, least in _POT_ROUNDS]
    return tasks if quick else tasks + more


def clouds(d: int, ratio: int, n: int, seed: int) -> tuple[Floats, Floats, float]:
    """Samples of two Gaussians with the same covariance, and the distance between the populations,
    which is that of their means."""
    rng = np.random.default_rng([seed, d, n])
    shift = np.zeros(d)
    shift[:2] = 6, 3
    x = rng.standard_normal((n, d))
    y = rng.standard_normal((max(n // ratio, 3), d)) + shift
    return x, y, float(np.linalg.norm(shift))


def _measure(
    d: int, ratio: int, n: int, seed: int, rounds: int = 0, least: float = 0.0
) -> list[Row]:
    x, y, truth = clouds(d, ratio, n, seed)
    if rounds:
        return _measure_pot_rounds(x, y, truth, rounds, least)
    _compile()
    found = {
        "exact": _timed(lambda: fedwad.wasserstein(x, y)),
        CAPPED: _timed(lambda: _pot(x, y)),
        "one message": _timed(lambda: fedwad.distance(x, y, method="summary", seed=seed).value),
    }
    for support in SUPPORTS:
        found[f"FedWaD S={support}"] = _twenty_rounds(x, y, support, "barycentric", seed)
    if n < LARGEST_EXACT or (n == LARGEST_EXACT and seed == 0):
        found["FedWaD exact"] = _twenty_rounds(x, y, 10, "exact", seed)
    sample = found["exact"][0]
    return [
        {"method": method, **_errors(value, truth, sample), "seconds": seconds}
        for method, (value, seconds) in found.items()
    ]


def _measure_pot_rounds(x: Floats, y: Floats, truth: float, rounds: int, least: float) -> list[Row]:
    """The paper's estimate round by round, from ten points between the samples."""
    sample = fedwad.wasserstein(x, y)
    z = (x.mean(axis=0) + y.mean(axis=0)) / 2 + x[:10] - x[:10].mean(axis=0)
    start, rows = time.process_time(), []
    for number, support, value in pot_rounds(x, y, z, rounds, least):
        seconds = time.process_time() - start
        row = {"method": CAPPED_ROUNDS, "round": number, "support": support}
        rows.append(row | _errors(value, truth, sample) | {"seconds": seconds})
    return rows


def _errors(value: float, truth: float, sample: float) -> Row:
    """An estimate, and its errors against the distances of the populations and of the samples."""
    return {"value": value, "error": abs(value / truth - 1), "to sample": value / sample - 1}


def _timed(compute: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    return compute(), time.process_time() - start


def _twenty_rounds(
    x: Floats, y: Floats, support: int, interpolant: Interpolant, seed: int
) -> tuple[float, float]:
    """The paper's estimate after 20 rounds, and the seconds they took.

    What `fedwad.distance` computes after the last round is not the paper's, and is not timed.
    """
    start, ends = time.process_time(), [0.0]
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
def _compile() -> None:
    """Load and compile everything before times are taken."""
    x, y, _ = clouds(2, 1, 2000, 0)
    _pot(x[:10], y[:10])
    fedwad.distance(x, y, method="fedwad", support=100, rounds=1)
    fedwad.wasserstein(x[:500], y[:300])


def _pot(x: Floats, y: Floats) -> float:
    """W2 by POT with its defaults: it stops at 100000 iterations and only warns."""
    import ot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(np.sqrt(ot.emd2([], [], ot.dist(x, y))))  # empty: equal weights


def _draw(rows: Sequence[Row]) -> Figures:
    figures = {}
    for ratio in (1, 3):
        figure, panels = axes(2, 2, 5.0, 3.6)
        cases = [(d, what, label) for d in (2, 50) for what, label in _PANELS]
        for panel, (d, what, label) in zip(panels, cases, strict=True):
            for method, (colour, style) in _METHODS.items():
                chosen = pick(rows, d=d, ratio=ratio, method=method)
                plot_means(panel, chosen, "n", what, style, marker=".", color=colour, label=method)
            panel.set(xscale="log", xlabel="samples n", ylabel=label)
            if what == "error" and d == 50:
                panel.set_ylim(bottom=0)
            else:
                panel.set_yscale("log")
            panel.set_title(f"d = {d}, ratio 1:{ratio}")
        panels[0].legend(fontsize=7, frameon=False)
        figures[f"scaling-1-{ratio}"] = figure
    return figures


EXPERIMENT = Experiment(
    "scaling", "Time and error against the number of samples", _tasks, _measure, _draw, judge
)
