"""Rows that are not normal inside their cells are far from them, others are not."""

import numpy as np
import pytest
from scipy.special import betainc, ndtri

from fedwad.statistics import summarise
from fedwad.statistics.order import order_statistics
from fedwad.statistics.populations import cells_misfit
from fedwad.statistics.summaries import feature_variances
from fedwad.transport import Measure


def test_edges_are_far_from_normal_cells():
    rng = np.random.default_rng(0)
    found = []
    for x in (rng.normal(size=(4000, 3)), rng.exponential(size=(4000, 3))):
        summary = summarise(Measure(x))
        variances = feature_variances(summary.within, 3)
        found.append(
            cells_misfit(order_statistics(x, rng), summary.weights, summary.means, variances)
        )
    assert found[0] < 0.1 < 2 * found[0] < found[1]


def test_misfit_is_that_of_order_statistics_of_the_cells_quantiles():
    rng = np.random.default_rng(0)
    order = order_statistics(rng.normal(size=(400, 2)), rng)
    weights, means = np.array([0.7, 0.3, 0.0]), rng.normal(size=(3, 2))
    variances = np.array([0.0, 0.5])
    m, square = order.levels[-1], 0.0
    steps = ndtri((np.arange(64) + 0.5) / 64)
    for j in range(2):
        values = (means[:, j, None] + steps * np.sqrt(variances[j])).ravel()
        rank = values.argsort()
        ends = np.clip(np.cumsum(np.repeat(weights / 64, 64)[rank]), 0.0, 1.0)
        for k in range(1, m + 1):
            parts = np.diff(betainc(k, m + 1 - k, ends), prepend=0.0)
            square += (order.level(m)[0][k - 1, j] - parts @ values[rank]) ** 2 / m
    found = cells_misfit(order, weights, means, variances)
    assert found == pytest.approx(np.sqrt(square), rel=1e-9)
