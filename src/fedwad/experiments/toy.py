"""Two Gaussian clouds: how the support travels, and the error round by round (the paper's first
figure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

import fedwad
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
from fedwad.experiments._pot_rounds import pot_rounds
from fedwad.ot import Floats, Interpolant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_KINDS = "barycentric", "exact"
#: From a start of 30 points, which do not divide 200, so that the support grows: as POT comes, and
#: with plans proved.
_CAPPED, _PROVED = "exact, POT as it comes", "exact, from 30 points"
_ROUNDS, _SUPPORT, _FEW_ROUNDS = 20, 100, 4


def clouds(seed: int, n: int = 200) -> tuple[Floats, Floats]:
    """Two samples of 2-D Gaussians that differ in their mean only."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
    return rng.standard_normal((n, 2)) @ root.T, rng.standard_normal((n, 2)) @ root.T + [6, 3]


def _tasks(quick: bool) -> list[Settings]:
    tasks: list[Settings] = [
        {"interpolant": kind, "seed": seed} for kind in _KINDS for seed in range(2 if quick else 10)
    ]
    return (
        tasks
        if quick
        else tasks
        + [{"interpolant": kind, "seed": s} for kind in (_CAPPED, _PROVED) for s in range(2)]
    )


def _measure(
    interpolant: Interpolant | Literal["exact, POT as it comes", "exact, from 30 points"], seed: int
) -> list[Row]:
    x, y = clouds(seed)
    exact = fedwad.wasserstein(x, y)
    if interpolant == "exact, POT as it comes" or interpolant == "exact, from 30 points":
        z = np.array([3.0, 1.5]) + np.random.default_rng(seed).standard_normal((30, 2))
        found = _capped(x, y, z) if interpolant == _CAPPED else _proved(x, y, z)
        return [
            row | {"exact": exact, "paper error": row["paper error"] / exact - 1} for row in found
        ]
    result = fedwad.distance(
        x,
        y,
        method="fedwad",
        support=_SUPPORT,
        rounds=_ROUNDS,
        interpolant=interpolant,
        seed=seed,
        reveal="every",
    )
    ours = fedwad.distance(x, y, method="summary", seed=seed)
    last = {"value error": result.value / exact - 1, "one message": ours.value / exact - 1}
    return [
        {
            "round": record.number,
            "exact": exact,
            "paper error": record.fedwad / exact - 1 if record.fedwad is not None else None,
            "upper error": record.upper / exact - 1 if record.upper is not None else None,
            "support": record.support,
            **(last if record.number == _ROUNDS else {}),
        }
        for record in result.history
    ]


def _proved(x: Floats, y: Floats, z: Floats) -> Iterator[Row]:
    """Exact interpolating measures by plans that are proved optimal."""
    result = fedwad.distance(
        x,
        y,
        method="fedwad",
        init=z,
        rounds=_FEW_ROUNDS,
        interpolant="exact",
        max_support=10**6,
        reveal="every",
    )
    for record in result.history:
        yield {"round": record.number, "support": record.support, "paper error": record.fedwad}


def _capped(x: Floats, y: Floats, z: Floats) -> Iterator[Row]:
    """Exact interpolating measures by POT as it comes."""
    for number, support, value in pot_rounds(x, y, z, _FEW_ROUNDS):
        yield {"round": number, "support": support, "paper error": value}


def _draw(rows: Sequence[Row]) -> Mapping[str, Figure]:
    figure, (left, right) = axes(1, 2, 5.2, 3.8)
    x, y = clouds(0)
    left.plot(*x.T, ".", color="#bbbbbb", label="first client")
    left.plot(*y.T, ".", color="#777777", label="second client")
    for rounds, shade in ((1, 0.25), (3, 0.5), (_ROUNDS, 1.0)):
        support = fedwad.distance(x, y, method="fedwad", support=_SUPPORT, rounds=rounds).support
        if support is not None:
            left.plot(
                *support.points.T,
                ".",
                color=PAPER,
                alpha=shade,
                markersize=5,
                label=f"support, round {rounds}",
            )
    left.set(title="What travels")
    left.legend(fontsize=7, frameon=False)
    for kind, style in (("barycentric", "-"), ("exact", "--")):
        chosen = pick(rows, interpolant=kind)
        right.plot(
            *mean_by(chosen, "round", "paper error"),
            style,
            color=PAPER,
            label=f"the paper's estimate, {kind}",
        )
        right.plot(
            *mean_by(chosen, "round", "upper error"),
            style,
            color=OURS,
            label=f"our upper bound, {kind}",
        )
    for kind, marker, words in (
        (_CAPPED, "x:", "exact, 30 points, POT as it comes"),
        (_PROVED, "+:", "the same, proved"),
    ):
        chosen = pick(rows, interpolant=kind)
        if chosen:
            xs, values = mean_by(chosen, "round", "paper error")
            right.plot(
                xs,
                values,
                marker,
                color=PAPER,
                markersize=4,
                label=f"the paper's estimate, {words}",
            )
    ours = np.mean([abs(row["one message"]) for row in rows if "one message" in row])
    right.axhline(
        ours, color=EXACT, linestyle=":", label="our estimate, one message (mean |error|)"
    )
    right.set(
        yscale="log",
        xlabel="round",
        ylabel="relative error",
        title="Error against the exact distance",
    )
    right.set_ylim(bottom=3e-5)
    right.text(
        _ROUNDS - 1.2,
        3.3e-5,
        "our bound, exact: 0 in the end",
        ha="right",
        va="bottom",
        fontsize=7,
        color=OURS,
    )
    right.set_xticks(range(0, _ROUNDS + 1, 5))
    right.legend(fontsize=7, frameon=False)
    return {"toy": figure}


def _judge(rows: Sequence[Row]) -> list[Claim]:
    by_round = {
        kind: mean_by(pick(rows, interpolant=kind), "round", "paper error")[1] for kind in _KINDS
    }
    barycentric, exact = by_round["barycentric"][-1], by_round["exact"]
    lowest = min(exact)
    capped = mean_by(pick(rows, interpolant=_CAPPED), "round", "paper error")[1]
    grown = max((row["support"] for row in pick(rows, interpolant=_CAPPED)), default=0)
    same = mean_by(pick(rows, interpolant=_PROVED), "round", "paper error")[1]
    proved = f"from {_SUPPORT} points {lowest:.1e} at best, {exact[-1]:.1e} after {_ROUNDS} rounds"
    there = f"{same[-1]:.1e} there, and " if same else ""
    proved = f"With plans that are proved optimal {there}{proved}"
    return [
        Claim(
            "With the approximated interpolating measure the error reaches 10^-3.",
            barycentric < 5e-3,
            f"mean {barycentric:.1e} after {_ROUNDS} rounds",
        ),
        Claim(
            "With the exact one it drops to 10^-4.",
            lowest < 1e-3,
            f"mean {lowest:.1e} at best. More rounds do not help: Theorem 2 does not hold, FedWaD"
            " can"
            " stop short of the exact distance",
        ),
        Claim(
            "With the exact one the error increases again after its minimum, by numerical errors as"
            " the support grows.",
            capped[-1] > 1.05 * min(capped) if capped else None,
            f"with POT as it comes {min(capped):.1e} at best and {capped[-1]:.1e} after"
            f" {len(capped)}"
            f" rounds, when the support has {grown} points and POT stops at its cap of iterations"
            f" with only a warning. {proved}"
            if capped
            else f"POT as it comes is left out of a quick run. {proved}",
        ),
        Claim(
            "The approximation is a more robust alternative to the exact interpolating measure.",
            barycentric <= exact[-1],
            f"after {_ROUNDS} rounds {barycentric:.1e} against {exact[-1]:.1e}: what made the exact"
            " one fail was the solver, not the method. It reveals every sample to the server,"
            " though",
        ),
    ]


EXPERIMENT = Experiment(
    "toy", "Two Gaussians: support and error by round", _tasks, _measure, _draw, _judge
)
