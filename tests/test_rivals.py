"""What the estimators of other papers give where the answer is known."""

import numpy as np
import pytest
from benchmarks import (
    rivals,
    rivals_clusters,
    rivals_datasets,
    rivals_distances,
    rivals_sites,
    rivals_training,
)
from benchmarks import rivals_estimators as estimators


def test_rows_become_a_table_of_a_page():
    found = rivals.markdown([{"a": 1.23456, "b": "x"}, {"b": 2, "c": 0.5}])
    assert found.splitlines() == [
        "| a | b | c |",
        "| --- | --- | --- |",
        "| 1.23 | x |  |",
        "|  | 2 | 0.5 |",
    ]


def sample(seed, n=40, d=3):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_fedbary_of_translated_copies_is_half_of_the_shift_on_each_side():
    x = sample(0)
    shift = np.array([3.0, 0.0, 4.0])
    ends = estimators.fedbary([x, x + shift], x + 0.3 * shift, rounds=40)
    assert ends == pytest.approx([2.5, 2.5], abs=1e-9)


@pytest.mark.parametrize("t", [0.2, 0.5, 0.8])
def test_triangle_is_exact_for_translated_copies(t):
    x, gamma = sample(0), sample(1)
    y = x + np.array([0.0, 2.0, 0.0])
    sent = [estimators.triangle_message(side, gamma, t) for side in (x, y)]
    assert estimators.triangle_distance(*sent, t) == pytest.approx(2.0, abs=1e-9)


def test_triangle_of_one_shared_point_is_exact_and_sends_the_rows():
    x, y, t = sample(0), 2 * sample(1) + 1, 0.5
    point = np.zeros((1, 3))
    sent = [estimators.triangle_message(side, point, t) for side in (x, y)]
    assert estimators.triangle_distance(*sent, t) == pytest.approx(estimators.plan(x, y)[1])
    assert sent[0] == pytest.approx((1 - t) * x)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_rows_come_back_from_a_triangle_message(t):
    x, gamma, other = sample(0), sample(1), sample(2)
    sent, again = (estimators.triangle_message(x, z, t) for z in (gamma, other))
    assert rivals_distances.rows_from_message(sent, gamma, t) == pytest.approx(x, abs=1e-9)
    found = rivals_distances.t_from_two((sent, gamma), (again, other))
    assert found == pytest.approx(t, abs=1e-12)


def test_a_constant_feature_shows_a_secret_t():
    x, gamma = sample(0), sample(1)
    x[:, 1] = 7.0
    sent = estimators.triangle_message(x, gamma, 0.37)
    ends = len(x) * estimators.plan(sent, gamma)[0] @ gamma
    assert rivals_distances.slope(sent, ends) == pytest.approx(0.37, abs=1e-9)


def test_hellinger_of_two_gaussians_of_one_variance():
    x = sample(0, n=200, d=1)
    x = (x - x.mean()) / x.std()
    expected = np.sqrt(1 - np.exp(-(1.5**2) / 8))
    assert estimators.hellinger(x, x) == pytest.approx(0.0, abs=1e-6)
    assert estimators.hellinger(x, x + 1.5) == pytest.approx(expected, rel=1e-5)


def test_the_universal_metric_goes_from_nothing_to_one():
    x, y = np.abs(sample(0)), np.arange(40) % 2
    assert estimators.universal((x, y), (x, y)) == pytest.approx(0.0, abs=1e-6)
    assert estimators.universal((x, y), (x, y + 2)) == pytest.approx(1.0)


def test_label_histograms_and_angles():
    one, two = np.array([0, 0, 1, 1]), np.array([1, 1, 2, 2])
    assert rivals_clusters.total_variation(one, two) == pytest.approx(0.5)
    first = np.eye(4)[:, :2]
    turned = np.cos(np.pi / 6) * np.eye(4)[:, :1] + np.sin(np.pi / 6) * np.eye(4)[:, 2:3]
    assert rivals_clusters.smallest_angle(first, turned) == pytest.approx(30.0)
    assert rivals_clusters.smallest_angle(first, np.eye(4)[:, 3:]) == pytest.approx(90.0)


def test_gradients_are_those_of_the_loss():
    X, y = sample(0, n=12, d=5).astype(np.float64), np.arange(12) % 3
    weights = tuple(part.astype(np.float64) for part in rivals_training.start(5, 3, 0))
    slopes = rivals_training.gradient(weights, X, y)
    rng = np.random.default_rng(1)
    for k in range(4):
        way = rng.standard_normal(weights[k].shape)
        ends = [
            rivals_training.loss(
                tuple(w + s * 1e-6 * way if j == k else w for j, w in enumerate(weights)),
                X,
                y,
            )
            for s in (-1, 1)
        ]
        assert (slopes[k] * way).sum() == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-4)


def test_sites_are_dealt_by_their_shares(monkeypatch):
    X = np.arange(20_000 * 4, dtype=np.float32).reshape(20_000, 4)
    y = np.arange(20_000) % 10
    monkeypatch.setattr(rivals_sites, "_images", lambda _: (X, y))
    pairs = rivals_sites.deal("MNIST, pairs of classes", 0)
    assert [set(np.unique(site.y)) for site in pairs[::4]] == [{2 * k, 2 * k + 1} for k in range(5)]
    rows = np.concatenate([np.vstack([site.X, site.unseen])[:, 0] for site in pairs])
    assert len(np.unique(rows)) == len(rows) == 20 * 300
    turned = rivals_sites.deal("MNIST, rotated, equal labels", 0)
    back = rivals_sites.turned(turned[-1].X, 1)
    assert (np.diff(back, axis=1) == 1).all()


def test_sliced_distance_of_a_data_set_to_itself_and_with_another_order_of_rows():
    X, y = sample(0), np.arange(40) % 4
    order = np.random.default_rng(1).permutation(40)
    known = {"one": (X, y), "same": (X, y), "moved": (X[order], y[order]), "other": (X, y[order])}
    found = rivals_datasets.sliced(known, 50)
    assert found["one", "same"] == 0
    assert found["one", "moved"] == pytest.approx(0, abs=1e-9)
    # Only labels differ: classes have other moments.
    assert found["one", "other"] > 0.01


def test_one_projection_of_the_sliced_distance_by_hand():
    X, y = np.array([[1.0], [3.0], [2.0]]), np.array([0, 0, 1])
    theta, order, psi = np.ones((1, 1)), np.array([[2]]), np.array([[0.6, 0.8]])
    # Class 0 has the second moment (1 + 9) / 2 over 2! = 2.5, class 1 has 4 / 2! = 2.
    expected = [0.6 * 1 + 0.8 * 2.5, 0.6 * 3 + 0.8 * 2.5, 0.6 * 2 + 0.8 * 2]
    found = rivals_datasets.projected((X, y), theta, order, psi)
    assert found[:, 0] == pytest.approx(expected)


def test_orders_of_moments_are_positive_and_grow():
    drawn = rivals_datasets.orders(np.random.default_rng(0), 2000)
    assert drawn.min() >= 1
    assert (np.diff(drawn.mean(axis=0)) > 0.3).all()


def test_images_of_half_the_side():
    X = np.arange(16.0).reshape(1, 16)
    assert rivals_datasets.smaller(X).tolist() == [[2.5, 4.5, 10.5, 12.5]]
