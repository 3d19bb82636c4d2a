"""Labelled measures: the same numbers as the points written out."""

import numpy as np
import pytest

from fedwad.statistics import summarise_plan
from fedwad.transport import LabelledMeasure, Measure, interpolate, solve
from fedwad.transport.nearly import near_squares
from fedwad.transport.plans import plan_columns


def labelled(rng, n, classes=4, d=12, k=9, weighted=False):
    weights = rng.random(n) + 0.1 if weighted else None
    table = 3 * rng.standard_normal((classes, k))
    return LabelledMeasure(rng.standard_normal((n, d)), rng.integers(0, classes, n), table, weights)


def written_out(measure):
    return Measure(measure.points, measure.weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_same_plan_as_written_out(weighted, p):
    rng = np.random.default_rng(0)
    mu, nu = labelled(rng, 90, weighted=weighted), labelled(rng, 70, weighted=weighted)
    support = Measure(rng.standard_normal((15, 21)))
    for source, target in ((mu, support), (support, mu), (mu, nu), (mu, labelled(rng, 90))):
        plain = [written_out(m) if isinstance(m, LabelledMeasure) else m for m in (source, target)]
        found, expected = solve(source, target, p), solve(*plain, p)
        assert found.distance == pytest.approx(expected.distance, rel=1e-12)
        np.testing.assert_allclose(
            found.target_means(), expected.target_means(), rtol=1e-9, atol=1e-9
        )


def test_summaries_and_interpolants_too():
    rng = np.random.default_rng(1)
    mu, support = labelled(rng, 200), Measure(rng.standard_normal((10, 21)))
    found, expected = solve(mu, support), solve(written_out(mu), support)
    a, b = summarise_plan(found), summarise_plan(expected)
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-9, atol=1e-9)
    for kind in ("barycentric", "exact"):
        np.testing.assert_allclose(
            interpolate(found, 0.3, kind).points,
            interpolate(expected, 0.3, kind).points,
            rtol=1e-9,
            atol=1e-9,
        )
    np.testing.assert_allclose(mu.mean, written_out(mu).mean, rtol=1e-12)


def test_points_are_not_written_out_to_solve(monkeypatch):
    rng = np.random.default_rng(2)
    mu, support = labelled(rng, 300), Measure(rng.standard_normal((300, 21)))

    def forbidden(_):
        raise AssertionError("written out")

    monkeypatch.setattr(LabelledMeasure, "points", property(forbidden))
    solve(mu, support).target_means()


@pytest.mark.parametrize("k", [24, 12 + 12 * 12, 12 + 12 * 900])
def test_parts_of_features_as_written_out(k):
    rng = np.random.default_rng(1)
    plan = solve(labelled(rng, 40, k=k), labelled(rng, 30, k=k))
    squares = (plan.source.points[plan.rows] - plan.target.points[plan.cols]) ** 2
    parts = plan.mass @ squares
    features, means, spreads = np.split(parts, [12, 24])
    expected = features + means + spreads.reshape(12, -1).sum(axis=1)
    np.testing.assert_allclose(plan_columns(plan), expected, rtol=1e-11)


def test_points_are_not_written_out_to_transport_nearly(monkeypatch):
    rng = np.random.default_rng(2)
    sides = dict(enumerate(labelled(rng, 50) for _ in range(2)))
    expected = solve(*sides.values()).cost
    monkeypatch.setattr(LabelledMeasure, "points", property(lambda _: 1 / 0))
    ((_, found),) = near_squares(sides, [(0, 1)], 1, None, lambda _: False)
    assert expected * (1 - 1e-5) <= found <= 1.008 * expected
