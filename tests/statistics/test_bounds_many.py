"""Bounds and estimates for many summaries at once: valid, and the same as for each pair by
itself."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from failing import fails
from fedwad.errors import InputError
from fedwad.statistics import (
    estimate,
    lower_bounds,
    summarise,
    summarise_classes,
    synthetic_distances,
    upper_bounds,
)
from fedwad.statistics.synthetic import count_synthetic_transports
from fedwad.transport import Measure, labelled, solve
from test_otdd import ROUNDING, exact_distance, labelled_sites, random_labelled, some, written_out

FORMS = ["full", "lowrank", "diag", "spherical"]


def lower_bound(a, b, p=2.0):
    return lower_bounds([a, b], p)[0, 1]


def upper_bound(a, b, p=2.0):
    return upper_bounds([a, b], p)[0, 1]


def random_samples(rng, count, d, n=60):
    """Samples of different places, sizes and shapes."""
    return [
        Measure(
            rng.normal(0, 2, d)
            + rng.standard_normal((int(rng.integers(1, n)), d)) @ rng.standard_normal((d, d))
        )
        for _ in range(count)
    ]


class TestLowerBounds:
    # Once all that takes shared directions of full covariances fails with LinAlgError:
    # `_reduced(matrix, 2)` returns the mean of the diagonal where it should return the matrix. It
    # is what many clients or features end in.

    @pytest.mark.parametrize("p", [1, 1.5, 2, 3])
    def test_one_pair_at_a_time_where_that_is_cheap(self, p):
        rng = np.random.default_rng(0)
        summaries = [
            summarise(m, 4, covariance_type, p)
            for m, covariance_type in zip(random_samples(rng, 4, 3), FORMS, strict=True)
        ]
        found = lower_bounds(summaries, p)
        assert np.array_equal(found, found.T)
        assert not np.diag(found).any()
        for i, j in itertools.combinations(range(4), 2):
            assert found[i, j] == pytest.approx(
                lower_bound(summaries[i], summaries[j], p), rel=1e-12
            )

    @pytest.mark.parametrize("covariance", ["diag", "full"])
    def test_with_labels(self, covariance):
        rng = np.random.default_rng(0)
        sides = [random_labelled(rng, 40, 3, k) for k in (1, 2, 4)]
        summaries = [summarise_classes(Measure(X), y, 5, covariance=covariance) for X, y in sides]
        found = lower_bounds(summaries)
        for i, j in itertools.combinations(range(3), 2):
            assert found[i, j] == pytest.approx(lower_bound(summaries[i], summaries[j]), rel=1e-12)
            exact = exact_distance(*(written_out(*sides[k], covariance) for k in (i, j)))
            assert 0.3 * exact < found[i, j] <= exact

    @pytest.mark.parametrize("p", [2, 3])
    @pytest.mark.parametrize("seed", range(4))
    def test_along_shared_directions_is_a_bound_and_below_the_one_for_the_pair(self, seed, p):
        rng = np.random.default_rng(seed)
        measures = random_samples(rng, 4, int(rng.integers(1, 12)), 40)
        summaries = [summarise(m, 3, "full", p) for m in measures]
        found = lower_bounds(summaries, p, most_work=0)
        assert np.array_equal(found, found.T)
        for i, j in itertools.combinations(range(4), 2):
            pair = lower_bound(summaries[i], summaries[j], p)
            assert found[i, j] <= pair * (1 + 1e-6) + 1e-9
            assert found[i, j] <= solve(measures[i], measures[j], p).distance * (1 + ROUNDING)
            assert found[i, j] >= np.linalg.norm(measures[i].mean - measures[j].mean) * (1 - 1e-5)

    def test_is_the_one_for_the_pair_where_the_directions_are_those_of_both(self):
        rng = np.random.default_rng(0)
        turn, _ = np.linalg.qr(rng.standard_normal((6, 6)))
        scales = rng.uniform(0.5, 3, (3, 6))
        base = rng.standard_normal((500, 6))
        base = (base - base.mean(axis=0)) @ np.linalg.inv(
            np.linalg.cholesky(np.cov(base.T, bias=True))
        ).T
        summaries = [
            summarise(Measure(base * s @ turn + k), 1, "full") for k, s in enumerate(scales)
        ]
        found = lower_bounds(summaries, most_work=0)
        for i, j in itertools.combinations(range(3), 2):
            expected = math.hypot((j - i) * math.sqrt(6), *(scales[i] - scales[j]))
            assert found[i, j] == pytest.approx(expected, rel=1e-5)

    def test_shared_directions_need_full_covariances(self):
        rng = np.random.default_rng(0)
        summaries = [
            summarise(m, 3, f)
            for m, f in zip(random_samples(rng, 2, 4), ("full", "diag"), strict=True)
        ]
        for p in (1.0, 2.0):
            found = lower_bounds(summaries, p, most_work=0)[0, 1]
            assert found == pytest.approx(lower_bound(*summaries, p), rel=1e-12)

    @some
    @given(labelled_sites(2, 4), st.sampled_from(["diag", "full"]), st.booleans())
    def test_valid_whatever_is_summarised(self, found, covariance, with_labels):
        data = [site.data for site in found]
        if with_labels:
            summaries = [
                summarise_classes(one.measure, one.labels, 4, "full", covariance, 2) for one in data
            ]
        else:
            summaries = [summarise(one.measure, 4, "full", min_size=2) for one in data]
        each, shared = lower_bounds(summaries), lower_bounds(summaries, most_work=0)
        for i, j in itertools.combinations(range(len(found)), 2):
            exact = found[i].exact(found[j], covariance if with_labels else None)
            noise = found[i].noise + found[j].noise
            assert each[i, j] <= exact * (1 + ROUNDING) + noise
            assert shared[i, j] <= exact * (1 + ROUNDING) + noise
            assert upper_bound(summaries[i], summaries[j]) >= exact * (1 - ROUNDING)
            within_std = max(summary.within_std for summary in summaries)
            assert shared[i, j] <= each[i, j] * (1 + 1e-6) + 1e-6 * within_std + noise

    def test_translated_copies_are_stated_apart(self):
        X = np.random.default_rng(0).standard_normal((100, 20))
        summaries = [summarise(Measure(X + shift), 3, "full") for shift in (0, 1e-3, 5)]
        found = lower_bounds(summaries, most_work=0)
        assert found[0, 1] <= 1e-3 * math.sqrt(20) * (1 + ROUNDING)
        assert found[0, 1] >= 0.99e-3 * math.sqrt(20)
        assert found[0, 2] == pytest.approx(5 * math.sqrt(20), rel=1e-6)


class TestLabelledBounds:
    @pytest.mark.parametrize("covariance", ["diag", "full"])
    @pytest.mark.parametrize("seed", range(6))
    def test_hold_the_exact_distance(self, seed, covariance):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 6))
        sides = [
            random_labelled(rng, int(rng.integers(8, 80)), d, int(rng.integers(1, 7)))
            for _ in range(2)
        ]
        covariance_types = ["full", "full"] if covariance == "full" else rng.choice(FORMS[:3], 2)
        a, b = (
            summarise_classes(Measure(X), y, int(rng.integers(1, 20)), covariance_type, covariance)
            for (X, y), covariance_type in zip(sides, covariance_types, strict=True)
        )
        exact = exact_distance(*(written_out(*side, covariance) for side in sides))
        assert lower_bound(a, b) <= exact * (1 + ROUNDING)
        assert upper_bound(a, b) >= exact * (1 - ROUNDING)
        assert lower_bound(a, b) == pytest.approx(lower_bound(b, a), rel=1e-9)
        assert upper_bound(a, b) == pytest.approx(upper_bound(b, a), rel=1e-9)

    def test_add_what_classes_are_apart_to_what_features_are(self):
        rng = np.random.default_rng(0)
        sides = [random_labelled(rng, 50, 3, k) for k in (2, 3)]
        a, b = (summarise_classes(Measure(X), y, 3) for X, y in sides)
        tables = [written_out(X, y)[:, 3:].astype(float) for X, y in sides]
        features = [Measure(X) for X, _ in sides]
        expected = math.hypot(
            lower_bound(*(summarise(m, 1, "full") for m in features)),
            exact_distance(tables[0], tables[1]),
        )
        assert lower_bound(a, b) == pytest.approx(expected, rel=1e-7)

    def test_more_cells_bound_more_tightly(self):
        rng = np.random.default_rng(0)
        sides = [random_labelled(rng, 200, 2, 2) for _ in range(2)]
        uppers = [
            upper_bound(*(summarise_classes(Measure(X), y, cells) for X, y in sides))
            for cells in (2, 10, 20)
        ]
        assert uppers[0] > uppers[1] > uppers[2]

    def test_upper_is_exact_where_cells_are_samples(self):
        X, y = np.repeat([[0.0, 0], [4, 0], [0, 4]], 10, axis=0), np.repeat([0, 0, 1], 10)
        Z, z = X[:20] + np.array([1, 2]), y[:20]
        a, b = summarise_classes(Measure(X), y, 6), summarise_classes(Measure(Z), z, 6)
        exact = solve(labelled(Measure(X), y), labelled(Measure(Z), z)).distance
        assert upper_bound(a, b) == pytest.approx(exact, rel=1e-9)

    def test_features_must_agree(self):
        rng = np.random.default_rng(0)
        a, b = (
            summarise_classes(Measure(X), y)
            for X, y in (random_labelled(rng, 20, d, 2) for d in (2, 3))
        )
        with fails(InputError, "different-columns"):
            estimate([a, b])


class TestTwins:
    def test_only_the_pairs_asked_for(self):
        rng = np.random.default_rng(0)
        summaries = [summarise(m, 3) for m in random_samples(rng, 4, 3)]
        found = synthetic_distances(summaries, [(0, 2), (1, 3)])
        assert np.array_equal(found, found.T)
        assert (found > 0).sum() == 4
        assert found[0, 2] > 0
        assert found[1, 3] > 0

    def test_calls_back_for_each_transport(self):
        rng = np.random.default_rng(0)
        summaries = [summarise(m, 3) for m in random_samples(rng, 3, 3)]
        pairs, calls = [(0, 1), (0, 2)], []
        synthetic_distances(summaries, pairs, on_pair=lambda: calls.append(1))
        assert len(calls) == count_synthetic_transports([s.count for s in summaries], pairs) > 0

    @pytest.mark.parametrize("labels", [False, True])
    def test_threads_change_no_number(self, labels):
        rng = np.random.default_rng(0)
        sides = [random_labelled(rng, 40, 3, 2) for _ in range(4)]
        summaries = [
            summarise_classes(Measure(X), y, 4) if labels else summarise(Measure(X), 4)
            for X, y in sides
        ]
        pairs = list(itertools.combinations(range(4), 2))
        assert np.array_equal(
            synthetic_distances(summaries, pairs), synthetic_distances(summaries, pairs, n_jobs=3)
        )

    def test_a_sample_is_drawn_by_its_summary_whatever_its_place(self):
        rng = np.random.default_rng(0)
        a, b, c = (summarise(Measure(rng.standard_normal((50, 3)) + k), 3) for k in range(3))
        one = synthetic_distances([a, b, c], [(0, 1), (0, 2), (1, 2)])
        two = synthetic_distances([c, b, a], [(0, 1), (0, 2), (1, 2)])
        np.testing.assert_allclose(one, two[::-1, ::-1], rtol=1e-12)
        assert synthetic_distances([a, b], [(0, 1)])[0, 1] == one[0, 1]

    # Once failed. The number of draws follows from the largest of all samples, so one client more
    # (500 samples where the others have 50) changes what is estimated for the others, against the
    # docstring.
    def test_a_pair_does_not_depend_on_the_size_of_others(self):
        rng = np.random.default_rng(0)
        a, b, c = (summarise(Measure(rng.standard_normal((n, 3))), 3) for n in (50, 50, 500))
        alone = synthetic_distances([a, b], [(0, 1)])[0, 1]
        assert synthetic_distances([a, b, c], [(0, 1), (0, 2), (1, 2)])[0, 1] == alone

    @pytest.mark.parametrize("sizes", [(1, 1), (1, 40), (2, 3), (40, 1700)])
    @pytest.mark.parametrize("labels", [False, True])
    def test_any_sizes(self, sizes, labels):
        rng = np.random.default_rng(0)
        sides = [(rng.standard_normal((n, 2)) + s, np.arange(n) % 2) for s, n in enumerate(sizes)]
        summaries = [
            summarise_classes(Measure(X), y, 4) if labels else summarise(Measure(X), 4)
            for X, y in sides
        ]
        found = synthetic_distances(summaries, [(0, 1)])[0, 1]
        exact = solve(
            *(labelled(Measure(X), y) if labels else Measure(X) for X, y in sides)
        ).distance
        assert 0.5 * exact < found < 1.5 * exact

    def test_same(self):
        rng = np.random.default_rng(0)
        X, y = random_labelled(rng, 40, 3, 2)
        plain, classes = summarise(Measure(X)), summarise_classes(Measure(X), y)
        assert plain.key == summarise(Measure(X.copy())).key
        assert plain.key != classes.key
        assert not any(
            summarise(Measure(X), covariance_type=covariance_type).key == plain.key
            for covariance_type in FORMS[1:]
        )


@some
@given(
    labelled_sites(2, 2),
    st.sampled_from([1.0, 1.5, 2.0, 4.0]),
    st.sampled_from(FORMS),
    st.sampled_from(FORMS),
)
def test_estimates_without_labels_stay_in_valid_bounds(pair, p, first, second):
    assume(pair[0].scale == 1.0 or p <= 2)
    a, b = (
        summarise(side.data.measure, 4, covariance_type, p, 2)
        for side, covariance_type in zip(pair, (first, second), strict=True)
    )
    exact = solve(*(side.data.measure for side in pair), p).distance
    found = estimate([a, b], p)
    assert found.lower[0, 1] <= exact * (1 + ROUNDING) + pair[0].noise + pair[1].noise
    assert found.upper[0, 1] >= exact * (1 - ROUNDING)
