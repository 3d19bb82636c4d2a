"""Summaries class by class, against points written out."""

import numpy as np
import pytest

from failing import fails
from fedwad.errors import InputError
from fedwad.statistics import (
    LabelledSummary,
    lower_bounds,
    summarise_classes,
    upper_bounds,
)
from fedwad.transport import Measure
from test_otdd import random_labelled, written_out

COVARIANCES = ["diag", "full"]


class TestSummariseClasses:
    @pytest.mark.parametrize("covariance", COVARIANCES)
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("cells", [1, 3, 12])
    def test_class_statistics_are_exact(self, cells, weighted, covariance):
        rng = np.random.default_rng(cells)
        X, y = random_labelled(rng, 150, 4, 3)
        weights = rng.random(150) + 0.5 if weighted else None
        summary = summarise_classes(Measure(X, weights), y, cells, covariance=covariance)
        expected = np.unique(
            written_out(X, y, covariance, weights)[:, 4:].astype(float).round(9), axis=0
        )
        np.testing.assert_allclose(
            np.unique(summary.table.points.round(9), axis=0), expected, atol=1e-8
        )
        assert summary.weights.sum() == pytest.approx(1)
        assert sum(len(part.weights) for part in summary.parts) <= max(cells, 3)
        masses = np.bincount(y, weights) / (150 if weights is None else weights.sum())
        np.testing.assert_allclose(np.sort(summary.weights), np.sort(masses), rtol=1e-12)
        if not weighted:
            assert summary.count == 150

    @pytest.mark.parametrize("covariance_type", ["full", "lowrank", "diag"])
    def test_merged_is_the_data_without_labels(self, covariance_type):
        rng = np.random.default_rng(0)
        X, y = random_labelled(rng, 150, 4, 3)
        summary = summarise_classes(Measure(X), y, 6, covariance_type)
        merged = summary.merged
        np.testing.assert_allclose(merged.mean, X.mean(axis=0), atol=1e-12)
        covariance = np.cov(X.T, bias=True)
        expected = covariance if covariance_type == "full" else np.diag(covariance)
        np.testing.assert_allclose(merged.total_covariance(), expected, rtol=1e-9, atol=1e-12)
        assert merged.within_std == pytest.approx(summary.within_std)
        assert merged.within_std**2 == pytest.approx(merged.variance, rel=1e-9)
        assert summary.covariance_type == covariance_type

    def test_spread_is_the_mean_square_from_own_cells(self):
        rng = np.random.default_rng(0)
        X, y = random_labelled(rng, 100, 3, 2)
        summary = summarise_classes(Measure(X), y, 2)
        expected = sum(((X[y == k] - X[y == k].mean(axis=0)) ** 2).sum() for k in (0, 1)) / 100
        assert summary.within_std**2 == pytest.approx(expected, rel=1e-12)

    def test_no_label_and_no_name_is_in_it(self):
        rng = np.random.default_rng(1)
        X, y = random_labelled(rng, 60, 2, 3)
        one = summarise_classes(Measure(X), np.array(["ill", "healthy", "unknown"])[y])
        two = summarise_classes(Measure(X), np.array([7, 8, 1])[y])
        assert all(a.key == b.key for a, b in zip(one.parts, two.parts, strict=True))
        assert not any(
            isinstance(value, str) and value != one.covariance for value in vars(one).values()
        )

    def test_forms(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((40, 65)), np.arange(40) % 2
        assert summarise_classes(Measure(X), y).covariance_type == "lowrank"
        assert summarise_classes(Measure(X[:, :64]), y).covariance_type == "full"
        assert summarise_classes(Measure(X), y, covariance="full").covariance_type == "full"
        for covariance_type, covariance in (
            ("spherical", "diag"),
            ("diag", "full"),
            ("lowrank", "full"),
        ):
            with fails(InputError, "bad-option"):
                summarise_classes(Measure(X), y, 2, covariance_type, covariance)

    def test_smallest_is_that_of_the_smallest_class(self):
        X, y = np.random.default_rng(0).standard_normal((40, 2)), np.repeat([0, 1], [37, 3])
        assert summarise_classes(Measure(X), y).min_cell_size == 3

    def test_same_bits_are_noticed(self):
        rng = np.random.default_rng(0)
        X, y = random_labelled(rng, 60, 2, 3)
        summary = summarise_classes(Measure(X), y)
        assert summary.key == summarise_classes(Measure(X.copy()), y.copy()).key
        assert summary.key != summarise_classes(Measure(X + 1e-9), y).key
        assert summary.key != summarise_classes(Measure(X), np.minimum(y, 1)).key
        assert isinstance(summary, LabelledSummary)

    def test_labelled_and_plain_summaries_do_not_mix(self):
        rng = np.random.default_rng(0)
        X, y = random_labelled(rng, 60, 2, 3)
        one = summarise_classes(Measure(X), y)
        with fails(InputError, "bad-labels"):
            lower_bounds([one, one.merged])
        with fails(InputError, "different-columns"):
            upper_bounds([one, one.merged])
