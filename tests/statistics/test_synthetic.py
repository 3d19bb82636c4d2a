"""The estimate from synthetic samples: close where it should be, and never from a transport larger than its cap."""

import time

import numpy as np
import pytest

from fedwad.statistics import SyntheticSample, summarise, synthetic_distances
from fedwad.statistics.synthetic import EFFORT, _at_full_size
from fedwad.transport import Measure, solve


def test_synthetic_sample_has_the_cell_means_and_the_covariance():
    rng = np.random.default_rng(0)
    summary = summarise(Measure(rng.standard_normal((4000, 3)) @ rng.standard_normal((3, 3))), 8)
    synthetic = SyntheticSample.of(summary).draw(4000, rng)
    np.testing.assert_allclose(synthetic.mean, summary.mean, atol=0.01)
    np.testing.assert_allclose(
        np.cov(synthetic.points.T, bias=True), summary.total_covariance(), rtol=0.05, atol=0.05
    )


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_synthetic_sample_of_any_size(size):
    summary = summarise(Measure(np.random.default_rng(0).standard_normal((400, 2))), 20)
    assert SyntheticSample.of(summary).draw(size, np.random.default_rng(1)).points.shape == (
        size,
        2,
    )


def test_fewer_points_than_cells_keep_their_variance():
    """A point that is alone in its cell was put on the mean of the cell."""
    rows = np.random.default_rng(0).normal(size=(2000, 3))
    summary = summarise(Measure(rows), 60, "full", min_size=10)
    drawing, rng = SyntheticSample.of(summary), np.random.default_rng(1)
    for size in (50, 70):
        drawn = np.array([drawing.draw(size, rng).points for _ in range(200)])
        within = drawn.var(axis=0).mean(axis=0)
        assert within == pytest.approx(np.diag(summary.covariance), rel=0.1)


def test_extrapolation_reads_off_a_power_law():
    steps = np.array([[250, 250], [500, 500], [1000, 1000], [1500, 1500]])
    power_law = 3.0 + 40 * (steps.astype(float) ** -0.3).mean(axis=1)
    powers = dict(zip(steps[:, 0].tolist(), power_law.tolist(), strict=True))
    assert _at_full_size(powers, np.array([10000, 40000])) == pytest.approx(
        3.0 + 40 * (10000**-0.3 + 40000**-0.3) / 2, rel=1e-6
    )


@pytest.mark.parametrize(("n", "m"), [(4000, 4000), (4000, 800)])
def test_gaussians_within_two_percent_without_a_large_transport(n, m, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, 50)), 1.2 * rng.standard_normal((m, 50)) + 0.2
    exact = solve(Measure(x), Measure(y)).distance
    sizes, draw = [], SyntheticSample.draw

    def watched(self, size, rng):
        sizes.append(size)
        return draw(self, size, rng)

    monkeypatch.setattr(SyntheticSample, "draw", watched)
    found = synthetic_distances([summarise(Measure(x)), summarise(Measure(y))], [(0, 1)])[0, 1]
    assert found == pytest.approx(exact, rel=0.02)
    assert max(sizes) <= EFFORT.cap


@pytest.mark.parametrize("p", [1, 2, 3])
def test_any_order(p):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((500, 20)), rng.standard_normal((300, 20)) + 0.5
    found = synthetic_distances([summarise(Measure(z), p=p) for z in (x, y)], [(0, 1)], p)[0, 1]
    assert found == pytest.approx(solve(Measure(x), Measure(y), p).distance, rel=0.02)


def test_columns_do_not_depend_on_which_thread_is_first(monkeypatch):
    """Once failed: threads added the parts of several draws in the order in which they ended."""
    from fedwad.statistics import synthetic
    from fedwad.transport import nearly

    rng = np.random.default_rng(0)
    summaries = [summarise(Measure(rng.normal(size=(40, 3)))) for _ in range(2)]

    def columns(n_jobs, delays):
        found, solve_square = {}, nearly._square

        def slow(*given):
            time.sleep(next(delays, 0.0))
            return solve_square(*given)

        with monkeypatch.context() as patch:
            patch.setattr(nearly, "_square", slow)
            patch.setattr(nearly, "_batches", lambda pairs, *_: [[one] for one in pairs])
            synthetic.synthetic_distances(summaries, [(0, 1)], n_jobs=n_jobs, columns=found)
        return found[0, 1].tolist()

    assert columns(2, iter([0.2, 0.0, 0.1])) == columns(1, iter([]))
