"""The private release by columns: its sensitivity, its limit without noise, and its bias."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import fedwad
from fedwad.privacy._mechanism import SUM_UNIT
from fedwad.privacy.columns import bin_columns, count_rows, private_distances, release_columns

SCHEMA = fedwad.Schema.from_toml(
    """
version = 1
[columns.age]
kind = "number"
range = [0, 100]
centre = 50.0
scale = 20.0
missing = "indicator"
[columns.sex]
kind = "category"
levels = ["f", "m", "other"]
weight = 2.0
missing = "level"
""",
    public=True,
)


def rows(rng, n, shift=0.0, missing=0.1, share=0.5):
    age = np.clip(rng.normal(50 + shift, 15, n), 0, 100)
    ages = [None if rng.random() < missing else float(x) for x in age]
    sexes = ["f" if rng.random() < share else "m" for _ in range(n)]
    return SCHEMA.encode(pa.table({"age": ages, "sex": sexes}))


def test_replacing_a_row_changes_the_counts_by_at_most_their_sensitivity():
    rng = np.random.default_rng(0)
    columns = bin_columns(SCHEMA, SCHEMA.width)
    points = rows(rng, 60)
    others = np.vstack(
        [
            rows(rng, 40),
            *(np.full((1, SCHEMA.width), x) for x in (1e9, -1e300, 0.0, np.nan, np.inf, -np.inf)),
        ]
    )

    def exact(data):
        return count_rows(data, columns)

    before = exact(points)
    assert before.sum() == len(columns) * len(points)
    for other in others:
        changed = points.copy()
        changed[7] = other
        assert np.linalg.norm(exact(changed) - before) <= math.sqrt(2 * len(columns)) + 1e-12


def test_without_noise_the_square_is_that_of_the_columns():
    rng = np.random.default_rng(1)
    a, b = rows(rng, 4000, 0.0, 0.0, 0.3), rows(rng, 4000, 8.0, 0.0, 0.7)
    columns = bin_columns(SCHEMA, SCHEMA.width, bins=64)
    found = private_distances(
        [release_columns(x, columns, 1e6, rng.bytes) for x in (a, b)], columns
    )
    number = fedwad.wasserstein(a[:, :1], b[:, :1]) ** 2
    assert found.contributions[0, 1, 0] == pytest.approx(number, rel=0.05)
    lower, upper = found.lower[0, 1], found.upper[0, 1]
    assert found.contributions[0, 1, 1] == pytest.approx(2.0 * 0.4, rel=0.1)
    assert lower <= math.sqrt(found.square[0, 1]) <= upper


def test_most_of_the_noise_is_subtracted_for_one_population():
    rng = np.random.default_rng(2)
    columns = bin_columns(SCHEMA, SCHEMA.width)
    squares, plain = [], []
    for seed in range(30):
        pair = [release_columns(rows(rng, 400), columns, 0.5, rng.bytes) for _ in range(2)]
        squares.append(private_distances(pair, columns, seed, draws=40).square[0, 1])
        noiseless = [replace(one, noise=0.0, count=10**9) for one in scaled(pair)]
        plain.append(private_distances(noiseless, columns, seed, draws=2).square[0, 1])
    assert abs(np.mean(squares)) < np.mean(plain) / 2


def scaled(releases):
    """Releases of so many rows that nothing is taken for noise."""
    return [replace(one, counts=one.counts / one.count * 10**9) for one in releases]


def test_noise_has_the_size_that_the_budget_asks_for():
    rng = np.random.default_rng(3)
    columns, points = bin_columns(SCHEMA, SCHEMA.width), rows(rng, 50)
    release = release_columns(points, columns, 0.25, rng.bytes)
    assert release.noise == pytest.approx(2 / 0.25, rel=len(release.counts) * SUM_UNIT)
    assert release.count == 50


BOOLEAN = fedwad.Schema.from_toml(
    """
version = 1
[columns.ill]
kind = "boolean"
centre = 0.5
scale = 0.5
missing = "indicator"
""",
    public=True,
)


def test_a_boolean_is_two_values_and_not_two_intervals():
    rng = np.random.default_rng(4)
    columns = bin_columns(BOOLEAN, BOOLEAN.width)
    a, b = (
        BOOLEAN.encode(pa.table({"ill": [*[True] * k, *[False] * (1000 - k)]})) for k in (300, 400)
    )
    found = private_distances(
        [release_columns(x, columns, 1e6, rng.bytes) for x in (a, b)], columns, draws=2
    )
    exact = fedwad.wasserstein(a, b) ** 2
    assert exact == pytest.approx(0.4)
    shares = found.means[:, 0] * 0.5 + 0.5
    np.testing.assert_allclose(shares, [0.3, 0.4], atol=1e-4)
    sampling = 4 * 2 * 0.05  # what two draws of 1000 rows may move a difference of shares by
    assert found.square[0, 1] == pytest.approx(exact, abs=sampling)
    some_missing = b.copy()
    some_missing[:100] = [0.0, 1.0]
    pair = [release_columns(x, columns, 1e6, rng.bytes) for x in (a, some_missing)]
    many = [replace(one, counts=one.counts * 1e6, count=10**9) for one in pair]
    found = private_distances(many, columns, draws=2)
    # By features: 100 move from true to 0 or on to false, and 100 flags are set.
    by_feature = sum(fedwad.wasserstein(a[:, [k]], some_missing[:, [k]]) ** 2 for k in range(2))
    assert found.square[0, 1] == pytest.approx(by_feature, rel=0.01)


def test_a_row_without_a_level_is_in_no_bin():
    schema = SCHEMA.edited({"sex": {"levels": ["f", "m"], "missing": "refuse"}})
    columns = bin_columns(schema, schema.width)
    points = np.zeros((5, schema.width))
    assert count_rows(points, columns)[-2:].tolist() == [0, 0]


def test_bins_follow_from_a_range_or_from_the_clip_norm():
    age, sex = bin_columns(SCHEMA, SCHEMA.width)
    np.testing.assert_allclose(age.edges[[0, -1]], [-2.5, 2.5])
    assert (age.size, sex.size) == (17, 4)
    plain = bin_columns(None, 2, 3.0, np.array([1.0, -1.0]))
    np.testing.assert_allclose(plain[1].edges[[0, -1]], [-4.0, 2.0])


def test_intervals_hold_the_distance_of_the_populations():
    """Two shifted normal columns and a category, over sizes and budgets; 95% is claimed."""
    rng, held, total = np.random.default_rng(5), 0, 0
    columns = bin_columns(None, 3, 4.0)
    for n, mu in ((300, 2.0), (2000, 0.5), (20_000, 0.3)):
        for shift in (0.3, 1.0):
            for seed in range(15):
                points = [rng.normal(k * shift, 1, (n, 3)) for k in range(2)]
                pair = [release_columns(x, columns, mu, rng.bytes) for x in points]
                found = private_distances(pair, columns, seed, draws=100)
                held += found.lower[0, 1] <= shift * math.sqrt(3) <= found.upper[0, 1]
                total += 1
    assert held >= 0.88 * total  # 90 pairs: 95% less three standard errors


def test_ranges_of_one_population_reach_to_zero():
    rng = np.random.default_rng(6)
    columns = bin_columns(None, 3, 6.0)
    beyond = 0
    for seed in range(60):
        sites = rng.normal(0, 1, (2, 3000, 3))
        pair = [release_columns(points, columns, 0.27, rng.bytes) for points in sites]
        beyond += private_distances(pair, columns, seed, draws=60).lower[0, 1] > 0
    assert beyond <= 6  # 2.5% of 60, plus three standard errors
