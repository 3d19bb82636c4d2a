"""The experiment on four data sets: pictures and verdicts from rows that are made up, so that each
can turn."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import kendalltau

import fedwad
from paper.experiment import experiment
from paper.otdd import _tasks, compare_orders, literal_embedding

OTDD = experiment("otdd")
TRUTH = dict(
    zip(
        dict.fromkeys(t["pair"] for t in _tasks("quick")),
        (20.0, 15.0, 24.0, 19.0, 25.0, 22.0),
        strict=True,
    )
)


def made_up(size, factor, seconds=lambda _: 1.0):
    """A row for each task; FedWaD's estimate is the exact distance times `factor(task)`."""
    rows = []
    for task in OTDD.tasks(size):
        value = TRUTH[task["pair"]]
        if task["method"] == "fedwad":
            value *= factor(task)
        rows.append(task | {"value": value, "upper": value, "seconds": seconds(task)})
    return rows


def plausible(task):
    return (
        1
        + 0.3 / math.sqrt(task["support"])
        + (0 if task["n"] <= task["support"] else 0.1)
        - 1e-6 * task["rounds"]
    )


def verdict(rows, start):
    (claim,) = (claim for claim in OTDD.judge(rows) if claim.text.startswith(start))
    return claim.holds


class TestOrders:
    def test_all_kept(self):
        exact = np.arange(6.0)
        assert compare_orders(exact, 10 + exact) == (12, 12, [])

    def test_where_two_distances_changed_places(self):
        exact = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])  # MNIST is nearest to KMNIST, then to USPS
        kept, of, wrong = compare_orders(exact, np.array([2.0, 1.0, 3.0, 4.0, 5.0, 6.0]))
        assert (kept, of, wrong) == (11, 12, ["mnist"])

    def test_beside_kendalls_tau_of_each_row(self):
        rng = np.random.default_rng(0)
        for _ in range(20):
            exact, found = rng.random(6), rng.random(6)
            squares = []
            for values in (exact, found):
                square = np.zeros((4, 4))
                square[np.triu_indices(4, 1)] = values
                squares.append(square + square.T)
            taus = [
                kendalltau(np.delete(a, k), np.delete(b, k)).statistic
                for k, (a, b) in enumerate(zip(*squares, strict=True))
            ]
            assert compare_orders(exact, found)[0] == pytest.approx(
                sum(3 * (1 + tau) / 2 for tau in taus)
            )


def test_the_literal_embedding_has_diagonals_of_roots():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3)), np.arange(80) % 2
    found = literal_embedding(X, y)
    for label in (0, 1):
        rows = X[y == label]
        root = sqrtm(np.cov(rows.T, bias=True)).real
        expected = np.concatenate([rows.mean(axis=0), np.diag(root)])
        assert np.allclose(found[y == label, 3:], expected, rtol=1e-9)
    # With diagonal covariances it is what labels=True compares.
    side = np.array([[1.0, 0], [-1, 0], [0, 2], [0, -2]])
    X, y = np.concatenate([side, 3 * side + 5]), np.repeat([0, 1], 4)
    exact = fedwad.transport.dataset_distance(X, y, X[::-1] + 1, y[::-1])
    both = literal_embedding(X, y), literal_embedding(X[::-1] + 1, y[::-1])
    assert fedwad.wasserstein(*both) == pytest.approx(exact, rel=1e-9)


def test_roots_of_diagonals_are_nearer_to_bures():
    X, y = fedwad.datasets.load("digits")
    roots, parts = [], []
    for label in range(10):
        values, vectors = np.linalg.eigh(np.cov(X[y == label].T, bias=True))
        roots.append((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
    for a, b in combinations(roots, 2):
        bures = math.sqrt((a**2).sum() + (b**2).sum() - 2 * np.linalg.norm(a @ b, "nuc"))
        of_roots = np.linalg.norm(np.diag(a) - np.diag(b))
        of_diagonals = np.linalg.norm(np.sqrt(np.diag(a @ a)) - np.sqrt(np.diag(b @ b)))
        parts.append((of_roots / bures, of_diagonals / bures))
    assert np.mean(parts, axis=0) == pytest.approx([0.44, 0.58], abs=0.005)
    assert np.round(np.percentile(parts, [0, 100], axis=0), 2).tolist() == [
        [0.32, 0.43],
        [0.56, 0.69],
    ]


@pytest.mark.parametrize("size", ["reduced", "whole"])
def test_pictures_and_verdicts_of_what_the_paper_saw(size):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    rows = made_up(size, plausible)
    assert set(OTDD.draw(rows)) == {"otdd", "otdd-ablation", "otdd-samples"}
    assert len({claim.text for claim in OTDD.judge(rows)}) == 8
    for start in ("FedWaD keeps", "More rounds", "The number of rounds", "The support", "Which"):
        assert verdict(rows, start) is True


def test_one_draw_is_held_against_the_exact_distances_of_that_draw():
    """Draws that are farther apart the later they come, and estimates that are exact: no error,
    whatever was drawn."""
    rows = [
        row | {"value": row["value"] * (1 + row["seed"])} for row in made_up("whole", lambda _: 1.0)
    ]
    (claim,) = (claim for claim in OTDD.judge(rows) if claim.text.startswith("FedWaD keeps"))
    assert claim.found.count("12 of 12 orders, error +0.0%") == 4


@pytest.mark.parametrize(
    ("start", "factor"),
    [
        ("FedWaD keeps", lambda task: (40 - TRUTH[task["pair"]]) / TRUTH[task["pair"]]),
        ("More rounds", lambda task: 1 + 0.1 * task["rounds"]),
        ("As many support", lambda _: 1.1),
        ("The number of rounds", lambda task: 1 + 1 / task["rounds"]),
        ("The support", lambda task: 1 + task["support"] / 1e4),
        ("Which", lambda task: 2.0 if task["pair"] == "mnist usps" and task["n"] > 1000 else 1.0),
        ("FedWaD is accurate", lambda _: 1.0),
    ],
)
def test_each_verdict_can_turn(start, factor):
    assert verdict(made_up("whole", factor), start) is False


def test_time_that_grows_with_the_samples():
    start = "With a small support the time grows"
    small = min(
        task["support"]
        for task in OTDD.tasks("whole")
        if task["part"] == "samples" and "support" in task
    )
    as_told = made_up(
        "whole", plausible, lambda t: t["n"] if t.get("support") == small else math.sqrt(t["n"])
    )
    assert verdict(as_told, start) is True
    assert verdict(made_up("whole", plausible, lambda task: task["n"] ** 2), start) is False
