"""The experiment on coresets: verdicts from rows that are made up, so that each can turn."""

from importlib.util import find_spec

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fedwad.compare.rounds import FedWaDLoop
from fedwad.coresets.paper import _gradient, _interpolate_on_support
from fedwad.federation import TransportReply
from fedwad.methods import FedWaD
from fedwad.transport import Measure, solve
from paper.coresets import METHODS, count_classes, pooled_coreset
from paper.experiment import experiment

CORESETS = experiment("coresets")
PAPERS = tuple(method for method in METHODS if method.startswith("fedwad"))


def made_up(size="whole", change=lambda _: {}):
    """What the paper saw, with `change` to some rows."""
    rows = []
    for task in CORESETS.tasks(size):
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


@pytest.mark.parametrize("size", ["reduced", "whole"])
def test_pictures_and_verdicts_of_what_the_paper_saw(size):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    rows = made_up(size)
    names = {name.replace("_", "-") for name in {row["data"] for row in rows}}
    assert set(CORESETS.draw(rows)) == {
        f"coresets-{n}{end}" for n in names for end in ("", "-loss")
    }
    judged = (
        None if size == "reduced" else True
    )  # with fewer epochs than the paper's, its support is not
    assert [claim.holds for claim in CORESETS.judge(rows)] == [True, True, True, judged, True]


def test_the_papers_epochs_are_those_of_a_whole_run():
    epochs = {
        size: {task["epochs"] for task in CORESETS.tasks(size)} for size in ("reduced", "whole")
    }
    assert epochs == {"reduced": {40}, "whole": {40, 1000}}
    assert "40 epochs instead of 1000" in CORESETS.smaller


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
class TestEpochsOnAGPU:
    def test_the_gradient_is_that_of_the_exact_solver_where_matchings_are_clear(self):
        import torch

        from paper.entropic import gradient

        rng = np.random.default_rng(0)
        centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 12.0]])
        x = np.concatenate([centre + rng.normal(size=(8, 2)) for centre in centres])
        atoms = centres + rng.normal(size=(3, 2))
        loop = FedWaDLoop(Measure(atoms), FedWaD(t=0.5))
        for _ in range(20):
            z = loop.request().support
            mine, theirs = (solve(Measure(side), z) for side in (atoms, x))
            loop.advance(
                *(
                    TransportReply(_interpolate_on_support(plan, 0.5), None)
                    for plan in (mine, theirs)
                )
            )
        given = (torch.as_tensor(value)[None] for value in (x, atoms, atoms))
        found, estimate = gradient(*given)
        plan = solve(loop.support, Measure(atoms))
        expected = _gradient(plan.target, plan.target_means(), plan.distance)
        assert found[0].numpy() == pytest.approx(expected, abs=1e-4)
        assert float(estimate[0]) == pytest.approx(loop.history[-1].running, rel=1e-4)

    def test_epochs_find_separate_clusters(self):
        from paper.entropic import run_epochs

        rng = np.random.default_rng(1)
        centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
        data = centres[:, None] + 0.1 * rng.normal(size=(5, 3, 6, 2))
        clients = data.reshape(5, 18, 2).astype(np.float32)
        found = run_epochs(clients, 3, 3, 12, 0.8, keep=(5,), device="cpu")
        assert sorted(found.points) == [5, 12]
        assert len(found.curve) == 12
        assert cdist(centres, found.points[12]).min(axis=1).max() < 0.5


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


def test_pooled_coreset_is_where_lloyds_steps_end():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(3 * k, 0.1, (50, 2)) for k in range(4)])
    atoms, distance = pooled_coreset(points, 4, starts=6)
    means = np.array([points[50 * k : 50 * (k + 1)].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(atoms[np.argsort(atoms[:, 0])], means, atol=1e-9)
    assert distance == pytest.approx(solve(Measure(points), Measure(means)).distance)


def test_covered_counts_the_commonest_class_around_each_point():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 200)
    X = rng.normal(size=(600, 2)) + 10 * np.eye(3)[y][:, :2]
    atoms = np.array([[10.0, 0.0], [0.0, 10.0], [10.2, 0.1], [0.0, 0.1]])
    expected = {np.bincount(y[np.argsort(row)[:50]]).argmax() for row in cdist(atoms, X)}
    assert count_classes(atoms, X, y) == len(expected) == 3
