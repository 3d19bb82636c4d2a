"""Distances and matrices under differential privacy, from histograms of columns."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.privacy import DP

PUBLIC = fedwad.Schema.from_toml(
    """
version = 1
[columns.age]
kind = "number"
range = [0, 100]
missing = "indicator"
[columns.ward]
kind = "category"
levels = ["a", "b", "other"]
[columns.smoker]
kind = "boolean"
centre = 0.5
scale = 0.5
""",
    public=True,
)


@pytest.fixture
def points():
    rng = np.random.default_rng(3)
    return rng.standard_normal((3000, 3)) @ np.diag([1.0, 0.8, 2.0]) + [4.0, -2.0, 0.5]


def tables(rng, n=4000):
    shares = {"paris": 0.2, "oslo": 0.2, "rome": 0.8}
    return {
        site: pa.table(
            {
                "age": rng.normal(40 + 30 * (site == "rome"), 8, n).tolist(),
                "ward": np.where(rng.random(n) < share, "a", "b").tolist(),
                "smoker": (rng.random(n) < 0.3).tolist(),
            }
        )
        for site, share in shares.items()
    }


def test_a_distance_is_that_between_populations_by_columns(points):
    result = fedwad.distance(
        points, points[::-1] + np.array([1.0, 1.0, 0.0]), privacy=DP(3, clip_norm=12)
    )
    assert result.value == result.population == pytest.approx(math.sqrt(2), rel=0.2)
    assert (result.lower, result.upper) == result.population_interval
    assert result.lower <= result.value <= result.upper
    assert not result.certified
    assert (result.differs, result.noise, result.rows) == (None, None, ())
    assert result.privacy["epsilon"] == 3
    assert fedwad.DistanceResult.from_dict(result.to_dict()) == result
    assert "epsilon 3" in repr(result)


def test_one_release_of_each_client_serves_distances_and_matrices(points):
    fed = fedwad.local({"a": points, "b": points + 1, "c": points + 4})
    guarantee = DP(3, clip_norm=15)
    m = fedwad.matrix(fed, privacy=guarantee)
    r = fedwad.distance(fed["a"], fed["c"], privacy=guarantee)
    assert r.value == m.value[0, 2]
    assert r.population_interval == tuple(end[0, 2] for end in m.population_interval)
    assert [ledger.spent for ledger in fed.ledgers.values()] == [guarantee.mu] * 3
    assert m.nearest("a")[0].site == "b"
    assert m.test is None
    assert all(verdict is None for verdict in m.differs[np.triu_indices(3, 1)])
    assert fedwad.MatrixResult.from_dict(m.to_dict()) == m


def test_columns_explain_a_private_distance():
    fed = fedwad.local(tables(np.random.default_rng(0)), schema=PUBLIC)
    r = fedwad.distance(fed["paris"], fed["rome"], privacy=DP(3))
    e = r.explain()
    assert e.names == ("age", "ward", "smoker", "dependence")
    assert e.contribution[:3].sum() == pytest.approx(r.value**2)
    assert e.share[[0, 1]].sum() > 0.9
    assert np.isnan(e.pvalue).all()
    assert (e.differs, e.causes) == (None, ())
    assert e.notes[-1] == "Not tested: blocks of rows have no private form."
    assert e.here[0]["mean"] == pytest.approx(40, abs=3)
    assert e.there[1]["a"] == pytest.approx(0.8, abs=0.1)
    again = fedwad.DistanceResult.from_dict(r.to_dict())
    assert again.explain() == e


def test_clusters_of_private_sites_are_explained_without_a_verdict():
    fed = fedwad.local(tables(np.random.default_rng(0)), schema=PUBLIC)
    m = fedwad.matrix(fed, privacy=DP(3))
    assert m.cluster(2).tolist() == [0, 0, 1]
    found = m.explain_clusters([0, 0, 1])[1]
    assert (found.differs, found.causes) == (None, ())
    assert set(found.order[:2]) == {0, 1}
    assert m.heterogeneity.value > 0
    assert m.eccentricity.odd == ()


def test_sentences_say_what_epsilon_covers_and_that_nothing_was_tested(points):
    fed = fedwad.local({"a": points, "b": points + 1, "c": points + 4})
    m = fedwad.matrix(fed, privacy=DP(3, clip_norm=15))
    r = fedwad.distance(fed["a"], fed["b"], privacy=DP(3, clip_norm=15))
    for sentence in (m.sentence, r.sentence):
        assert "epsilon 3 and delta 1e-05 per row" in sentence
        assert "Not tested" in sentence
        assert "differ" not in sentence
        assert "95%" not in sentence
    assert "a and b" not in m.sentence  # likely ranges do not tell the order of pairs
    assert m.suggest().k == 1
    assert (m.suggest().reason, m.suggest().too_small) == ("nothing was tested", ())


def test_labels_belong_to_labelled_data(points):
    with fails(InputError, "bad-option"):
        fedwad.distance(points, points + 1, privacy=DP(1, clip_norm=5, labels=["ill"]))


def test_sites_with_another_number_of_features_are_named(points):
    with pytest.raises(InputError):
        fedwad.distance(points, points[:, :2], privacy=DP(1, clip_norm=5))
    with pytest.raises(InputError):
        fedwad.distance(points, points + 1, privacy=DP(1, clip_norm=5, centre=[0.0, 0.0]))
