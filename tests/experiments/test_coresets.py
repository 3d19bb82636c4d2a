"""The experiment on coresets: verdicts from rows that are made up, so that each can turn."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fedwad.experiments import experiment
from fedwad.experiments.coresets import METHODS, centralised, covered
from fedwad.ot import Measure, solve

CORESETS = experiment("coresets")
PAPERS = tuple(method for method in METHODS if method.startswith("fedwad"))


def made_up(quick=False, change=lambda _: {}):
    """What the paper saw, with `change` to some rows."""
    rows = []
    for task in CORESETS.tasks(quick):
        worse = task["method"] in PAPERS
        row = task | {
            "W2": 6.5 if worse else 6.3,
            "classes": 7 if task["K"] == 2 else 10,
            "seconds": 1.0,
        }
        row |= {"points": np.zeros((10, 784)).tolist()}
        if task["method"] != METHODS[0]:
            row |= {"curve": [7.0, 6.6, 6.5]}
        rows.append(row | change(row))
    return rows


def verdict(rows, start):
    (claim,) = (claim for claim in CORESETS.judge(rows) if claim.text.startswith(start))
    return claim.holds


@pytest.mark.parametrize("quick", [True, False])
def test_pictures_and_verdicts_of_what_the_paper_saw(quick):
    rows = made_up(quick)
    names = {name.replace("_", "-") for name in {row["data"] for row in rows}}
    assert set(CORESETS.draw(rows)) == {
        f"coresets-{n}{end}" for n in names for end in ("", "-loss")
    }
    assert [claim.holds for claim in CORESETS.judge(rows)] == [True, True, True, None, True]
    assert verdict([row | {"epochs": 1000} for row in rows], "The support") is True


@pytest.mark.parametrize(
    ("start", "change"),
    [
        ("With 8 classes", lambda _: {"classes": 9}),
        ("With fewer", lambda _: {"classes": 10}),
        ("The exact", lambda row: {"classes": 10} if row["method"] == "direct" else {}),
        ("The support", lambda row: {"W2": 7.5} if row["method"] == PAPERS[1] else {}),
        ("FedWaD ends", lambda _: {"W2": 6.3}),
    ],
)
def test_each_verdict_can_turn(start, change):
    long = {"epochs": 1000}  # with fewer epochs than the paper's, its support is not judged
    assert verdict(made_up(change=lambda _: long), start) is True
    assert verdict(made_up(change=lambda row: long | change(row)), start) is False


def test_centralised_is_where_lloyds_steps_end():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(3 * k, 0.1, (50, 2)) for k in range(4)])
    atoms, distance = centralised(points, 4, starts=6)
    means = np.array([points[50 * k : 50 * (k + 1)].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(atoms[np.argsort(atoms[:, 0])], means, atol=1e-9)
    assert distance == pytest.approx(solve(Measure(points), Measure(means)).distance)


def test_covered_counts_the_commonest_class_around_each_point():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 200)
    X = rng.normal(size=(600, 2)) + 10 * np.eye(3)[y][:, :2]
    atoms = np.array([[10.0, 0.0], [0.0, 10.0], [10.2, 0.1], [0.0, 0.1]])
    expected = {np.bincount(y[np.argsort(row)[:50]]).argmax() for row in cdist(atoms, X)}
    assert covered(atoms, X, y) == len(expected) == 3
