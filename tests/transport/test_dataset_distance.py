"""Class statistics and the exact dataset distance, against points written out and solvers that are
not ours."""

import datetime as dt
import decimal
import math
import re

import numpy as np
import ot
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.transport import Measure, class_codes, dataset_distance, labelled, solve
from oracles import linear_program
from test_otdd import exact_distance, labelled_sites, random_labelled, some, written_out

COVARIANCES = ["diag", "full"]


def partition(codes):
    """Which rows share a class, without the numbers of classes."""
    return {frozenset(np.flatnonzero(codes == code).tolist()) for code in set(codes.tolist())}


class TestClassCodes:
    @pytest.mark.parametrize(
        "labels",
        [
            ["dog", "cat", "dog", "eel"],
            [100, -3, 100, 7],
            [2**70, -1, 2**70, 5],
            [0.5, -1.25, 0.5, math.inf],
            [b"x", b"y", b"x", b""],
            [True, False, True, True],
            np.array([3, 1, 3, 0], dtype=np.uint8),
            np.array(
                ["2020-01-01", "2021-01-01", "2020-01-01", "2022-01-01"], dtype="datetime64[D]"
            ),
            pd.Series(["dog", "cat", "dog", "eel"], dtype="category"),
            pd.Series(["dog", "cat", "dog", "eel"], dtype="string"),
            pd.Series([5, 1, 5, 2], index=[9, 8, 7, 6], dtype="Int64"),
            np.array(["a", 1, "a", 2.5], dtype=object),
            np.array([dt.date(2020, 1, 1), None.__class__, dt.date(2020, 1, 1), 0], dtype=object),
            np.array([decimal.Decimal("0.1"), "0.1", decimal.Decimal("0.1"), 0.1], dtype=object),
            np.array([True, 1, True, "True"], dtype=object),
        ],
        ids=str,
    )
    def test_equal_where_labels_are(self, labels):
        codes = class_codes(labels)
        assert codes.dtype == np.int64
        values = list(labels)
        expected = {
            frozenset(j for j in range(4) if type(values[j]) is type(v) and values[j] == v)
            for v in values
        }
        assert partition(codes) == expected
        assert sorted(set(codes.tolist())) == list(range(len(expected)))

    # Once failed. np.asarray turns a list of different types into words before they are compared.
    @pytest.mark.parametrize("labels", [[1, "1"], [1.5, "1.5"], [True, "True"]])
    def test_a_list_of_different_types_is_like_an_array_of_objects(self, labels):
        assert len(set(class_codes(np.array(labels, dtype=object)).tolist())) == 2
        assert len(set(class_codes(labels).tolist())) == 2

    # Once failed. A NumPy scalar among Python values is a class of its own, though equal and of the
    # same kind.
    @pytest.mark.parametrize(
        "labels", [[np.str_("a"), "a"], [np.int64(1), 1], [np.float64(1.5), 1.5]]
    )
    def test_numpy_scalars_among_python_values_are_the_same_label(self, labels):
        assert len(set(class_codes(np.array(labels, dtype=object)).tolist())) == 1

    # Once failed for a list of words with NaN (it becomes the word 'nan'), for pd.NA (TypeError)
    # and masked values.
    @pytest.mark.parametrize(
        "labels",
        [
            ["a", None, "b"],
            [1.0, math.nan, 2.0],
            ["a", math.nan, "b"],
            np.array(["a", math.nan, "b"], dtype=object),
            np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="datetime64[D]"),
            pd.Series(["a", None, "b"]),
            pd.Series(["a", pd.NA, "b"], dtype="string"),
            pd.Series([1, pd.NA, 2], dtype="Int64"),
            pd.Series(["a", None, "b"], dtype="category"),
            np.ma.array([1, 2, 3], mask=[False, True, False]),
        ],
        ids=[
            "none",
            "nan",
            "nan in words",
            "object nan",
            "NaT",
            "series",
            "string NA",
            "Int64 NA",
            "category",
            "masked",
        ],
    )
    def test_missing_labels_are_named_by_row(self, labels):
        with fails(InputError, "missing-labels") as caught:
            class_codes(labels)
        assert {"1", "row 1"} <= set(re.findall(r"row \d+|\d+", str(caught.value)))

    def test_several_missing_labels_are_counted(self):
        with fails(InputError, "missing-labels") as caught:
            class_codes([None, "a", None])
        assert {"2", "row 0"} <= set(re.findall(r"row \d+|\d+", str(caught.value)))

    # Once: ragged lists raise NumPy's ValueError.
    @pytest.mark.parametrize(
        "labels", [[[0, 1], [1, 0]], 3, [[0], [1, 2]]], ids=["one-hot", "scalar", "ragged"]
    )
    def test_one_label_per_sample(self, labels):
        with fails(InputError, "bad-labels"):
            class_codes(labels)


class TestLabelled:
    @pytest.mark.parametrize("covariance", COVARIANCES)
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("seed", range(4))
    def test_statistics_as_defined(self, seed, weighted, covariance):
        rng = np.random.default_rng(seed)
        X, y = random_labelled(rng, 60, 4, int(rng.integers(1, 6)))
        weights = rng.random(60) + 0.1 if weighted else None
        found = labelled(Measure(X, weights), y, covariance)
        np.testing.assert_allclose(
            found.points, written_out(X, y, covariance, weights).astype(float), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(
            found.weights, np.full(60, 1 / 60) if weights is None else weights / weights.sum()
        )

    def test_root_covariance_squares_to_the_covariance(self):
        X, y = random_labelled(np.random.default_rng(0), 80, 3, 2)
        found = labelled(Measure(X), y, "full")
        for code in range(2):
            root = found.table[code, 3:].reshape(3, 3)
            np.testing.assert_allclose(
                root @ root, np.cov(X[y == code].T, bias=True), rtol=1e-9, atol=1e-12
            )
            np.testing.assert_allclose(root, root.T, atol=1e-12)
            assert np.linalg.eigvalsh(root).min() > 0

    @pytest.mark.parametrize("offset", [0.0, 1e6])
    def test_a_class_of_one_sample_has_no_spread(self, offset):
        X = np.array([[1.0, 2.0], [3.5, -4.0]]) + offset
        for covariance in COVARIANCES:
            found = labelled(Measure(X), ["a", "b"], covariance)
            assert np.array_equal(found.table[:, :2], X)
            assert not found.table[:, 2:].any()

    def test_a_constant_feature_has_no_spread_wherever_it_is(self):
        X = np.column_stack([np.full(30, 0.1 + 1e6), np.arange(30.0)])
        found = labelled(Measure(X), np.arange(30) % 3)
        assert not found.table[:, 2].any()
        assert (found.table[:, 3] > 1).all()

    def test_number_of_labels(self):
        with fails(InputError, "wrong-shape"):
            labelled(Measure(np.zeros((3, 1))), ["a", "b"])
        with fails(InputError, "bad-option"):
            labelled(Measure(np.zeros((3, 1))), ["a", "b", "c"], "half")


class TestDatasetDistance:
    @pytest.mark.parametrize("covariance", COVARIANCES)
    @pytest.mark.parametrize("seed", range(6))
    def test_against_network_simplex_on_written_out_points(self, seed, covariance):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 9))
        a, b = (
            random_labelled(rng, int(rng.integers(5, 70)), d, int(rng.integers(1, 5)), s)
            for s in (0, 1)
        )
        expected = exact_distance(written_out(*a, covariance), written_out(*b, covariance))
        assert dataset_distance(*a, *b, covariance) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("covariance", COVARIANCES)
    @pytest.mark.parametrize("seed", range(3))
    def test_against_linear_programming(self, seed, covariance):
        rng = np.random.default_rng(100 + seed)
        a, b = random_labelled(rng, 12, 2, 3), random_labelled(rng, 9, 2, 2)
        points = [Measure(written_out(*side, covariance).astype(float)) for side in (a, b)]
        assert dataset_distance(*a, *b, covariance) == pytest.approx(
            linear_program(*points), rel=1e-7
        )

    @some
    @given(labelled_sites(), st.sampled_from(COVARIANCES))
    def test_against_assignment_on_anything_small(self, pair, covariance):
        a, b = pair
        measures = [labelled(side.data.measure, side.data.labels, covariance) for side in pair]
        # One part in 1e8 of a coordinate is all that is known of the root of a singular covariance
        # in floating point.
        rounding_error = (1e-7 * a.scale if covariance == "full" else 0.0) + a.noise + b.noise
        assert solve(*measures).distance == pytest.approx(
            a.exact(b, covariance), rel=1e-9, abs=rounding_error
        )

    @pytest.mark.parametrize("covariance", COVARIANCES)
    def test_weights(self, covariance):
        rng = np.random.default_rng(0)
        (X, y), (Z, z) = random_labelled(rng, 20, 3, 3), random_labelled(rng, 15, 3, 2)
        a, b = rng.random(20) + 0.01, rng.random(15) + 0.01
        found = solve(
            labelled(Measure(X, a), y, covariance), labelled(Measure(Z, b), z, covariance)
        ).distance
        expected = exact_distance(
            written_out(X, y, covariance, a), written_out(Z, z, covariance, b), a, b
        )
        assert found == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("covariance", COVARIANCES)
    @pytest.mark.parametrize("labels", ["one class", "one sample a class", "many"])
    def test_of_a_sample_with_itself_is_exactly_zero(self, labels, covariance):
        X = np.random.default_rng(0).standard_normal((40, 5)) + 1000
        y = {
            "one class": np.zeros(40),
            "one sample a class": np.arange(40),
            "many": np.arange(40) % 7,
        }[labels]
        assert dataset_distance(X, y, X.copy(), y.copy(), covariance) == 0.0

    # Once failed with "full" where classes have fewer samples than features: the root of a singular
    # covariance changes in its eighth digit with the order of the sum, so a shuffled copy is 1e-8
    # away. A singular value decomposition of the centred samples gives the root to the last digits.
    @pytest.mark.parametrize("covariance", COVARIANCES)
    def test_order_of_rows_does_not_matter(self, covariance):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((8, 6)), np.repeat([0, 1], 4)
        order = rng.permutation(8)
        assert dataset_distance(X, y, X[order], y[order], covariance) <= 1e-13
        Z, z = rng.standard_normal((9, 6)), np.arange(9) % 2
        one, two = (
            dataset_distance(*side, Z, z, covariance) for side in ((X, y), (X[order], y[order]))
        )
        assert one == pytest.approx(two, rel=1e-12)

    @pytest.mark.parametrize("covariance", COVARIANCES)
    def test_symmetric(self, covariance):
        rng = np.random.default_rng(0)
        a, b = random_labelled(rng, 30, 3, 4), random_labelled(rng, 25, 3, 2)
        assert dataset_distance(*a, *b, covariance) == pytest.approx(
            dataset_distance(*b, *a, covariance), rel=1e-12
        )

    def test_triangle_inequality(self):
        rng = np.random.default_rng(0)
        a, b, c = (random_labelled(rng, 20, 2, 3) for _ in range(3))
        assert dataset_distance(*a, *c) <= dataset_distance(*a, *b) + dataset_distance(*b, *c)

    @pytest.mark.parametrize("names", ["zyxwv", [10, -5, 3, 8, 1000], [0.1, 0.01, 0.3, -1.0, 9.0]])
    def test_names_of_labels_do_not_matter(self, names):
        rng = np.random.default_rng(0)
        (X, y), b = random_labelled(rng, 30, 3, 5), random_labelled(rng, 25, 3, 2)
        renamed = [names[k] for k in y]
        assert dataset_distance(X, renamed, *b) == pytest.approx(
            dataset_distance(X, y, *b), rel=1e-12
        )

    def test_any_type_of_label_on_either_side(self):
        rng = np.random.default_rng(0)
        X, Z = rng.standard_normal((12, 2)), rng.standard_normal((9, 2))
        y, z = np.repeat([0, 1, 2], 4), np.repeat([0, 1], [5, 4])
        expected = dataset_distance(X, y, Z, z)
        kinds = np.array(["a", 1, 2.5, b"q"], dtype=object)
        for left, right in [
            (kinds[y], z == 1),
            (y * 1.5, kinds[z]),
            (np.array(["x", "y", "w"])[y], -7 * z),
        ]:
            assert dataset_distance(X, left, Z, right) == pytest.approx(expected, rel=1e-12)

    def test_one_class_each_is_the_distance_and_the_statistics(self):
        rng = np.random.default_rng(0)
        X, Z = rng.standard_normal((30, 3)), 2 * rng.standard_normal((20, 3)) + 1
        expected = (
            fedwad.wasserstein(X, Z) ** 2
            + np.sum((X.mean(axis=0) - Z.mean(axis=0)) ** 2)
            + np.sum((X.std(axis=0) - Z.std(axis=0)) ** 2)
        )
        assert dataset_distance(X, np.zeros(30), Z, np.zeros(20)) == pytest.approx(
            math.sqrt(expected), rel=1e-12
        )

    def test_one_sample_a_class_counts_each_twice(self):
        rng = np.random.default_rng(0)
        X, Z = rng.standard_normal((12, 3)), rng.standard_normal((10, 3))
        expected = math.sqrt(2) * fedwad.wasserstein(X, Z)
        for covariance in COVARIANCES:
            found = dataset_distance(X, np.arange(12), Z, np.arange(10), covariance)
            assert found == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("exponent", [-498, 265, 330])
    @pytest.mark.parametrize("covariance", COVARIANCES)
    def test_follows_the_scale(self, exponent, covariance):
        rng = np.random.default_rng(0)
        X, Z, y, z = (
            rng.standard_normal((15, 3)),
            rng.standard_normal((12, 3)),
            np.arange(15) % 3,
            np.arange(12) % 2,
        )
        scale = 2.0**exponent
        found = dataset_distance(scale * X, y, scale * Z, z, covariance) / scale
        assert found == pytest.approx(
            exact_distance(written_out(X, y, covariance), written_out(Z, z, covariance)), rel=1e-9
        )

    # Once failed. Squares of deviations vanish, so standard deviations are lost (wrong by several
    # percent).
    @pytest.mark.parametrize("exponent", [-535, -600])
    @pytest.mark.parametrize("covariance", COVARIANCES)
    def test_follows_the_scale_where_squares_vanish(self, exponent, covariance):
        self.test_follows_the_scale(exponent, covariance)

    def test_an_offset_costs_no_digits(self):
        rng = np.random.default_rng(0)
        X, Z = (
            np.round(rng.standard_normal((15, 3)) * 64) / 64,
            np.round(rng.standard_normal((12, 3)) * 64) / 64,
        )
        y, z = np.arange(15) % 3, np.arange(12) % 2
        expected = exact_distance(written_out(X, y), written_out(Z, z))
        assert dataset_distance(X + 2.0**20, y, Z + 2.0**20, z) == pytest.approx(expected, rel=1e-9)

    def test_wrong_input(self):
        X, y = np.zeros((4, 2)), [0, 0, 1, 1]
        with fails(InputError, "different-columns"):
            dataset_distance(X, y, np.zeros((4, 3)), y)
        with fails(InputError, "wrong-shape"):
            dataset_distance(X, y[:3], X, y)
        with fails(InputError, "missing-labels"):
            dataset_distance(X, y, X, [0, None, 1, 1])
        with fails(InputError, "missing-values"):
            dataset_distance(X, y, [[0, 0], [0, math.nan]], [0, 1])
        with fails(InputError, "bad-option"):
            dataset_distance(X, y, X, y, "Full")

    def test_digits_against_pot(self):
        X, y = fedwad.datasets.load("digits")
        a, b = (X[:150], y[:150]), (X[-120:], y[-120:])
        points = [written_out(*side).astype(float) for side in (a, b)]
        expected = math.sqrt(ot.emd2([], [], ot.dist(*points), numItermax=10**7))
        assert dataset_distance(*a, *b) == pytest.approx(expected, rel=1e-9)
