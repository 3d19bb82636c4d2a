"""The experiment on time and error: verdicts from rows that are made up, so that each can turn."""

import math
from itertools import pairwise

import numpy as np
import pytest

import fedwad
from paper.experiment import experiment
from paper.scaling import clouds, pot_rounds

SCALING = experiment("scaling")
POT = "FedWaD exact, POT as it comes"
METHODS = {
    "exact": lambda n: 1e-7 * n**2,
    "POT, default iterations": lambda n: 1e-7 * n**2,
    "FedWaD exact": lambda n: 1e-5 * n**2,
    "FedWaD S=2": lambda n: 1e-6 * n,
    "FedWaD S=10": lambda n: 2e-6 * n,
    "FedWaD S=100": lambda n: 4e-6 * n,
    "one message": lambda n: 1e-6 * n,
}


def made_up(size, change=lambda _: {}):
    """What the paper saw, with `change` to some rows."""
    rows = []
    for task in SCALING.tasks(size):
        if "rounds" in task:
            last = 2e-3 if task["least"] else 5e-4
            for number, excess in enumerate([*np.linspace(3e-3, 1e-3, 19), last], start=1):
                row = task | {"method": POT, "round": number, "support": 10, "to sample": excess}
                rows.append(row | change(row))
            continue
        for method, seconds in METHODS.items():
            if method == "FedWaD exact" and task["n"] > 1000:
                continue
            excess = {"FedWaD S=2": 0.02, "FedWaD S=10": 0.01, "FedWaD S=100": 0.005}.get(
                method, 0.0
            )
            slower = (
                2.0 if method == "FedWaD exact" and (task["d"], task["ratio"]) == (2, 3) else 1.0
            )
            error = (0.3 if task["d"] == 50 else 0.1 / math.sqrt(task["n"])) + excess
            cut = 0.03 if method.startswith("POT") and task["n"] >= 5000 else 0.0
            row = task | {"method": method, "seconds": slower * seconds(task["n"]), "error": error}
            little = excess if task["d"] == 2 and task["n"] >= 1000 else (0.3 if excess else 0.0)
            row |= {"to sample": little + cut}
            rows.append(row | change(row))
    return rows


def verdict(rows, start):
    (claim,) = (claim for claim in SCALING.judge(rows) if claim.text.startswith(start))
    return claim.holds


def test_clouds_are_as_far_apart_as_said():
    x, y, expected = clouds(50, 3, 3000, 0)
    assert x.shape == (3000, 50)
    assert y.shape == (1000, 50)
    assert expected == pytest.approx(math.hypot(6, 3))
    assert np.linalg.norm(x.mean(axis=0) - y.mean(axis=0)) == pytest.approx(expected, rel=0.05)


def test_rounds_by_pot_give_the_distance_of_translated_copies_and_never_rise():
    x = np.random.default_rng(0).standard_normal((12, 2))
    *_, (number, support, value) = pot_rounds(x, x + np.array([3.0, 4.0]), x.copy(), 3)
    assert (number, support) == (3, 12)
    assert value == pytest.approx(5.0)
    y = 2 * np.random.default_rng(1).standard_normal((7, 2))
    values = [value for *_, value in pot_rounds(x, y, x[:5] + 1.0, 3)]
    assert all(late <= early + 1e-9 for early, late in pairwise(values))
    assert values[-1] >= fedwad.wasserstein(x, y) - 1e-9


def test_few_rounds_do_not_show_that_there_are_no_numerical_errors():
    steady = made_up("whole", lambda row: {"to sample": 1e-3} if row["method"] == POT else {})
    few = [row for row in steady if row.get("round", 0) <= 3]
    start = "FedWaD with exact interpolating measures has"
    assert verdict(steady, start) is False
    assert verdict(few, start) is None


def test_rounds_by_pot_leave_small_masses_out():
    x, y = (np.random.default_rng(seed).standard_normal((7, 2)) for seed in range(2))
    sizes = [
        [support for _, support, _ in pot_rounds(x, y[:5], x[:3], 2, min_mass)]
        for min_mass in (0.0, 0.03)
    ]
    assert sizes[1][-1] < sizes[0][-1]


def test_pictures_and_verdicts_of_what_the_paper_saw():
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    rows = made_up("whole")
    assert set(SCALING.draw(rows)) == {"scaling-1-1", "scaling-1-3"}
    held = {claim.text: claim.holds for claim in SCALING.judge(rows)}
    assert len(held) == 11
    assert [text for text, holds in held.items() if not holds] == []


def test_a_quick_run_does_not_judge_large_samples():
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    rows = made_up("quick")
    assert set(SCALING.draw(rows)) == {"scaling-1-1", "scaling-1-3"}
    for start in (
        "The exact Wasserstein",
        "FedWaD with exact interpolating measures has",
        "From 5000",
    ):
        assert verdict(rows, start) is None


@pytest.mark.parametrize(
    ("start", "change"),
    [
        ("The approximated interpolating", lambda _: {"seconds": 1.0}),
        ("Below 1000", lambda row: {"error": 0.5} if row["method"] == "FedWaD S=10" else {}),
        (
            "The exact Wasserstein",
            lambda row: {"to sample": 0.0} if row["method"].startswith("POT") else {},
        ),
        ("The approximated FedWaD is robust", lambda row: {"error": 1e-4 * row["n"]}),
        ("From 5000", lambda row: {"seconds": 1e9} if row["method"] == "FedWaD S=100" else {}),
        ("FedWaD with exact interpolating measures has", lambda _: {"to sample": 1e-3}),
        ("FedWaD with exact interpolating measures is slower", lambda _: {"seconds": 1.0}),
        ("In 50 dimensions no method", lambda _: {"error": 0.3}),
        ("In 50 dimensions the ratio", lambda row: {"seconds": 1.0 / row["ratio"]}),
        (
            "A larger support takes",
            lambda row: {"seconds": 9.0} if row["method"] == "FedWaD S=10" else {},
        ),
        ("A larger support helps", lambda _: {"to sample": 0.1}),
    ],
)
def test_each_verdict_can_turn(start, change):
    assert verdict(made_up("whole"), start) is True
    assert verdict(made_up("whole", change), start) is False
