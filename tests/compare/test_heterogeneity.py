"""Heterogeneity, eccentricity and the odd one out: known values, and verdicts of tests alone."""

import json

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad.compare.answers import eccentricity, heterogeneity, verdict
from fedwad.errors import InputError
from fedwad.statistics.order import order_statistics
from fedwad.statistics.populations import column_squares


def squares(points):
    points = np.asarray(points, dtype=float).reshape(len(points), -1)
    return ((points[:, None] - points) ** 2).sum(axis=2)


def shifted(shifts, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return {f"site{k}": rng.normal(shift, 1, (n, d)) for k, shift in enumerate(shifts)}


def test_the_value_is_the_mean_over_pairs_of_shifted_sites():
    shifts = np.array([0.0, 0.5, 1.0, 2.0])
    m = fedwad.matrix(shifted(shifts))
    truth = 4 * squares(shifts)[np.triu_indices(4, 1)].mean()
    found = m.heterogeneity
    assert found.value == pytest.approx(truth, rel=0.1)
    assert found.fraction == pytest.approx(truth / 2 / (truth / 2 + 4), rel=0.1)
    assert found.pvalue == m.test.pvalue <= 0.001
    assert m.eccentricity.value.mean() == pytest.approx(found.value)
    assert m.eccentricity.farthest == "site3"


def test_units_do_not_change_the_fraction():
    """Rows are dealt into groups by a hash of the data, so estimates agree up to their noise; for
    one order of rows they agree in every bit."""
    data = shifted([0.0, 0.5, 1.0])
    order = np.random.default_rng(0).permutation(300)
    x, y, *_ = data.values()
    one, two = (
        column_squares(order_statistics(c * x, order), order_statistics(c * y, order))
        for c in (1, 8)
    )
    assert (64 * one).tolist() == two.tolist()
    found = [fedwad.matrix({k: c * x for k, x in data.items()}).heterogeneity for c in (1, 8)]
    assert [one.fraction for one in found] == pytest.approx([1 / 5, 1 / 5], abs=0.03)


def test_one_population_has_none_on_average():
    """An unbiased estimate may be negative, and its mean over samples is zero."""
    found = [fedwad.matrix(shifted([0.0] * 4, 100, 2, seed)).heterogeneity for seed in range(12)]
    values = np.array([one.value for one in found])
    assert abs(values.mean()) < 3 * values.std(ddof=1) / np.sqrt(len(values))
    assert values.min() < 0
    m = fedwad.matrix(shifted([0.0] * 6))
    assert m.eccentricity.odd == ()
    assert "no odd one out" in repr(m.eccentricity)


def test_a_planted_site_is_the_odd_one_out():
    m = fedwad.matrix(shifted([0.0] * 7 + [1.5]))
    assert m.eccentricity.odd == ("site7",)
    assert "site7" in repr(m.eccentricity)
    assert "site7 is the odd one out" in m.sentence


@pytest.mark.filterwarnings("ignore::fedwad.errors.DataWarning")
def test_three_wrong_units_at_one_of_three_sites_make_it_odd():
    """Weight in pounds, height in inches and temperature in Fahrenheit."""
    rng = np.random.default_rng(0)

    def table(n):
        return pd.DataFrame(
            {
                "weight": rng.normal(75, 12, n),
                "height": rng.normal(172, 9, n),
                "temperature": rng.normal(37, 0.5, n),
                "age": rng.normal(60, 10, n),
                "pulse": rng.normal(75, 10, n),
            }
        )

    data = {"paris": table(200), "oslo": table(180), "rome": table(220)}
    data["rome"]["weight"] *= 2.2046
    data["rome"]["height"] /= 2.54
    data["rome"]["temperature"] = data["rome"]["temperature"] * 1.8 + 32
    m = fedwad.matrix(data)
    assert m.eccentricity.odd == ("rome",)
    for other in ("paris", "oslo"):
        assert set(m.explain("rome", other).causes[:3]) == {"weight", "height", "temperature"}
    assert m.differs[0, 1] is False


@pytest.mark.filterwarnings("ignore::fedwad.errors.DataWarning")
def test_a_category_that_is_all_missing_at_one_site_is_named():
    rng = np.random.default_rng(0)

    def table(n):
        smoker = rng.choice(["never", "former", "current"], n)
        return pd.DataFrame({"smoker": smoker, "age": rng.normal(60, 10, n)})

    data = {"paris": table(150), "oslo": table(150), "rome": table(150)}
    data["rome"]["smoker"] = None
    m = fedwad.matrix(data)
    assert m.eccentricity.odd == ("rome",)
    assert m.explain("rome", "paris").causes == ("smoker",)


def test_a_small_site_among_large_ones_is_not_odd_by_its_distances():
    rng = np.random.default_rng(13)
    sizes = (30, 300, 300, 300, 300)
    m = fedwad.matrix({f"site{k}": rng.normal(size=(n, 10)) for k, n in enumerate(sizes)})
    assert m.eccentricity.odd == ()


def test_odd_is_what_the_verdicts_of_pairs_say():
    different = np.array([[False, False, True], [False, False, True], [True, True, False]], object)
    assert eccentricity("abc", squares([0, 0, 1]), different).odd == ("c",)
    for place, value in (((0, 1), True), ((0, 2), None), ((0, 2), False)):
        other = different.copy()
        other[place] = other[place[::-1]] = value
        assert eccentricity("abc", squares([0, 0, 1]), other).odd == ()
    two = np.array([[False, True], [True, False]], object)
    assert eccentricity("ab", squares([0, 1]), two).odd == ()
    assert verdict(0.04, 0.06) is None


def test_two_sites_have_no_odd_one_out():
    m = fedwad.matrix(shifted([0.0, 3.0]))
    assert m.eccentricity.odd == ()
    assert m.heterogeneity.value == pytest.approx(36, rel=0.1)


def test_it_is_the_same_after_saving(tmp_path):
    m = fedwad.matrix(shifted([0.0, 0.0, 2.0]))
    m.save(tmp_path / "m.json")
    again = fedwad.MatrixResult.load(tmp_path / "m.json")
    assert again == m
    assert again.heterogeneity == m.heterogeneity
    assert again.eccentricity.to_dict() == m.eccentricity.to_dict()
    assert json.dumps(m.heterogeneity.to_dict(), allow_nan=False)


def test_unknown_populations_are_said():
    data = shifted([0.0, 1.0, 2.0])
    closed = fedwad.Policy(["columns", "summary"], splits="noise")
    m = fedwad.matrix(fedwad.local(data, closed))
    assert m.square is None
    with fails(InputError, "not-known"):
        _ = m.heterogeneity


def test_negative_squares_give_a_negative_fraction():
    found = heterogeneity(-0.01 * (1 - np.eye(3)), np.ones(3), 0.5)
    assert found.fraction == pytest.approx(-0.005)


def test_tiny_values_have_no_nan():
    data = {name: 1e-170 * rows for name, rows in shifted([0, 0, 0, 5], n=60).items()}
    m = fedwad.matrix(data)
    assert json.dumps(m.to_dict(), allow_nan=False)


def test_it_is_known_with_a_hub():
    assert fedwad.matrix(shifted([0, 1, 2], n=60), method="hub").heterogeneity.value > 0


def test_the_mean_squared_distance_is_that_of_the_distances_beside_it():
    """Distances of pairs that differ are not below what their causes make; once this was not so."""
    rng = np.random.default_rng(2)
    sites = {
        f"s{k}": pd.DataFrame(rng.normal(size=(250, 30))).assign(cause=rng.normal(0.5 * k, 1, 250))
        for k in range(3)
    }
    m = fedwad.matrix(fedwad.local({name: t.rename(columns=str) for name, t in sites.items()}))
    upper = np.triu_indices(3, 1)
    assert m.differs[upper].all()
    assert m.heterogeneity.value >= np.mean(m.population[upper] ** 2) * (1 - 1e-12)
    rows = np.nanmean(np.where(np.eye(3, dtype=bool), np.nan, m.population**2), axis=1)
    np.testing.assert_array_less(rows * (1 - 1e-12), m.eccentricity.value)


def test_the_site_in_the_middle_is_not_odd_where_the_others_cannot_be_told_apart():
    rng = np.random.default_rng(0)
    centres = {"big": (0, 1500), "left": (-3, 30), "right": (3, 30)}
    m = fedwad.matrix({name: rng.normal(c, 1, (n, 2)) for name, (c, n) in centres.items()})
    assert m.differs[0, 1] is True
    assert m.differs[1, 2] is None
    assert m.eccentricity.odd == ()
    assert "odd one out" not in m.sentence


@pytest.mark.parametrize("rows", [12, 20])
def test_nothing_is_said_of_heterogeneity_where_no_test_could_tell(rows):
    rng = np.random.default_rng(0)
    m = fedwad.matrix({f"s{k}": rng.normal(2 * k, 1, (rows, 3)) for k in range(3)})
    assert m.test is None or m.test.smallest > 0.05
    assert np.isnan(m.heterogeneity.pvalue)
    assert m.heterogeneity.to_dict()["pvalue"] is None
    assert not any(c.isdigit() for c in m.heterogeneity.sentence)
    assert "no difference" not in m.heterogeneity.sentence


def test_no_pair_is_nearest_where_another_is_as_near():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        places = dict(zip("ABCD", (0, 1, -1, 10), strict=True))
        m = fedwad.matrix(
            {name: rng.normal([x, 0], 1, (400, 2)) for name, x in places.items()}, seed=seed
        )
        assert "nearest" not in m.sentence
        assert "smallest estimate" in m.sentence
