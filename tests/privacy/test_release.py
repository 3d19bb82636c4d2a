"""One release and what a server makes of it, against moments computed without noise."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fedwad
from failing import fails
from fedwad import Policy
from fedwad.errors import InputError, PolicyError
from fedwad.privacy import DP, compose, denoise, mu_of, release, split
from fedwad.privacy._release import nearest_psd
from fedwad.tables import Schema, SchemaColumn


def noisy_release(points, mu=1e4, clip_norm=20.0, cells=-1, seed=0):
    n, d = points.shape
    shares = split(n, d, mu, cells)
    return release(points, clip_norm, np.zeros(d), shares, np.random.default_rng(seed).bytes)


@pytest.fixture
def points():
    rng = np.random.default_rng(3)
    return rng.standard_normal((3000, 3)) @ np.diag([1.0, 0.3, 2.0]) + [4.0, -2.0, 0.5]


def test_without_noise_to_speak_of_the_moments_are_right(points):
    found = denoise(noisy_release(points, cells=0))
    mean, covariance = found.moments
    np.testing.assert_allclose(mean, points.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(covariance, np.cov(points.T), rtol=0.05, atol=0.02)
    summary = found.summary
    np.testing.assert_allclose(summary.covariance, covariance, rtol=1e-9, atol=1e-12)


def test_cells_keep_the_total_moments(points):
    found = denoise(noisy_release(points, mu=30.0, cells=8))
    summary = found.summary
    assert len(summary.weights) == 8
    assert summary.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(summary.mean, found.moments[0], rtol=1e-9)
    np.testing.assert_allclose(summary.total_covariance(), found.moments[1], rtol=0.02, atol=0.02)


def test_each_cell_has_the_points_that_are_nearest_to_its_centre(points):
    found = noisy_release(points, cells=2)
    centres = found.whitened_clip_norm * found.centres @ np.linalg.inv(found.whitening)
    near = ((points[:, None] - found.centre - centres) @ found.whitening) ** 2
    share = (near.sum(axis=2).argmin(axis=1) == 0).mean()
    assert found.masses[0] == pytest.approx(share, abs=1e-3)


def test_a_frame_takes_nothing_but_noisy_numbers(points):
    """The same noisy first look leads to the same frame, whatever the data: it costs nothing."""
    changed = points.copy()
    changed[0] += 1e-13
    first, second = noisy_release(points, mu=0.3), noisy_release(changed, mu=0.3)
    assert (first.first_mean == second.first_mean).all()
    assert (first.whitening == second.whitening).all()


@pytest.mark.parametrize(
    ("n", "d", "mu", "cells"), [(2000, 2, 0.27, -1), (900, 8, 0.7, -1), (100, 3, 0.1, 16)]
)
def test_a_split_spends_what_it_has_and_no_more(n, d, mu, cells):
    shares = split(n, d, mu, cells)
    assert compose((shares.mu_first, shares.mu_second, shares.mu_cells)) == pytest.approx(
        mu, rel=1e-12
    )
    assert (shares.mu_cells > 0) == (shares.n_cells > 0)


def test_noise_of_both_sums_is_as_large_as_stated(points):
    """Over many releases, deviations from the exact sums, each by the noise it claims, have
    variance one."""
    n, mu = 40, 0.8
    some = points[:n]
    residuals = []
    for seed in range(300):
        found = noisy_release(some, mu=mu, seed=seed, cells=0)
        u = some / 20.0
        residuals.append((found.first_mean - u.mean(axis=0)) / found.noise[0])
        z = (20.0 * u - found.centre) @ found.whitening / found.whitened_clip_norm
        z = z / np.maximum(1, np.linalg.norm(z, axis=1, keepdims=True))
        residuals.append((found.mean - z.mean(axis=0)) / found.noise[1])
        assert found.noise[0] == pytest.approx(
            np.sqrt(4.5) / (split(n, 3, mu, 0).mu_first * n), rel=1e-4
        )
        assert found.noise[1] == pytest.approx(
            np.sqrt(4.5) / (split(n, 3, mu, 0).mu_second * n), rel=1e-4
        )
    within_std = np.concatenate(residuals).var()
    assert within_std == pytest.approx(1, abs=5 * np.sqrt(2 / (600 * 3)))


def test_fitting_keeps_the_trace_and_leaves_covariances_alone():
    rng = np.random.default_rng(0)
    for _ in range(20):
        root = rng.standard_normal((4, 4))
        good = root @ root.T
        np.testing.assert_allclose(nearest_psd(good), good, rtol=1e-9, atol=1e-9)
        noise = rng.standard_normal((4, 4))
        bad = good + 3 * (noise + noise.T)
        found = nearest_psd(bad)
        assert np.linalg.eigvalsh(found).min() > -1e-9
        if np.trace(bad) > 0:
            assert np.trace(found) == pytest.approx(np.trace(bad))


def labelled_sites():
    rng = np.random.default_rng(0)
    centres = {"healthy": (0.0, 0.0, 0.0), "ill": (4.0, 0.0, 0.0), "very ill": (0.0, 4.0, 0.0)}
    pairs = {
        "paris": ("healthy", "ill"),
        "oslo": ("ill", "very ill"),
        "rome": ("healthy", "very ill"),
    }
    sites = {}
    for site, names in pairs.items():
        y = np.repeat(names, 1500)
        sites[site] = (np.array([centres[name] for name in y]) + rng.standard_normal((3000, 3)), y)
    return sites, list(centres)


def test_one_release_serves_every_classifier():
    sites, names = labelled_sites()
    policy = Policy(allow=["private"], epsilon=3.0, label_names=names)
    fed = fedwad.local(sites, policy)
    guarantee = DP(3, clip_norm=10, labels=names)
    fedwad.CoresetClassifier(privacy=guarantee).fit(fed)
    model = fedwad.CoresetClassifier(privacy=guarantee).fit(fed)
    assert [ledger.spent for ledger in fed.ledgers.values()] == [
        guarantee.mu
    ] * 3  # one release each
    assert model.classes_.tolist() == sorted(names)
    assert len(model.points_) == 6  # nobody holds the third class
    X, y = (np.concatenate([site[k] for site in sites.values()]) for k in range(2))
    assert model.score(X, y) > 0.9
    with fails(PolicyError, "budget-spent"):
        fedwad.CoresetClassifier(privacy=DP(3, clip_norm=11, labels=names)).fit(fed)


def test_a_private_classifier_is_saved_with_its_guarantee(tmp_path):
    sites, names = labelled_sites()
    model = fedwad.CoresetClassifier(privacy=DP(3, clip_norm=10, labels=names)).fit(sites)
    model.save(tmp_path / "model.npz")
    again = fedwad.CoresetClassifier.load(tmp_path / "model.npz")
    assert (again.predict(sites["paris"][0]) == model.predict(sites["paris"][0])).all()
    assert DP.of(again.privacy).to_dict() == model.privacy.to_dict()


def test_a_site_without_a_class_beyond_noise_is_left_out():
    sites, names = labelled_sites()
    few = tuple(part[:2] for part in sites["paris"])
    guarantee = DP(3, clip_norm=10, labels=names)
    model = fedwad.CoresetClassifier(privacy=guarantee).fit(sites | {"bern": few})
    assert model.sites_ == ("oslo", "paris", "rome")
    assert "noise" in model.failed_["bern"]


def test_labels_that_cannot_be_asked_for(points):
    sites, _ = labelled_sites()
    with fails(InputError, "missing-labels"):
        fedwad.CoresetClassifier(privacy=DP(3, clip_norm=10)).fit(sites)
    with fails(InputError, "missing-labels"):
        fedwad.CoresetClassifier(privacy=DP(3, clip_norm=10, labels=["ill"])).fit({"a": points})
    with fails(InputError, "noise-too-large"):
        fedwad.CoresetClassifier(privacy=DP(3, clip_norm=10, labels=["nobody"])).fit(sites)
    with fails(InputError, "bad-labels"):
        fedwad.CoresetClassifier(privacy=DP(3, clip_norm=10, labels=["ill", "ill"])).fit(sites)
    for labels in ("ill", []):
        with fails(InputError, "bad-option", "labels"):
            DP(3, clip_norm=10, labels=labels)


@pytest.mark.parametrize("options", [{"p": 1}, {"labels": True}])
def test_what_privacy_cannot_have_is_refused(points, options):
    with fails(InputError, "bad-option", "summary"):
        fedwad.distance(
            points, points + 1, privacy=DP(1, clip_norm=5), **{"method": "summary"} | options
        )


@pytest.mark.parametrize(
    "options",
    [
        {"clip_norm": 0},
        {"clip_norm": "wide"},
        {"clip_norm": float("nan")},
        {"clip_norm": True},
        {"labels": "ill"},
    ],
)
def test_guarantees_are_checked(options):
    with pytest.raises(InputError):
        DP(1, **({"clip_norm": 1.0} | options))


def test_clip_norm_and_centre_come_from_a_public_schema():
    columns = (SchemaColumn("age", "number"), SchemaColumn("sex", "category", levels=("f", "m")))
    schema = Schema(columns, public=True)
    found = DP(1).completed(schema)
    assert (found.clip_norm, found.centre_point.tolist()) == (2 * math.sqrt(2), [0.0, 0.5, 0.5])
    own = DP(1, clip_norm=3, centre=1.0).completed(schema)
    assert (own.clip_norm, own.centre_point.tolist()) == (3, [1.0])
    for unknown in (None, Schema(columns)):  # no schema, and one that sites agreed on
        with fails(InputError, "missing-option"):
            DP(1).completed(unknown)
    with fails(InputError, "missing-option"):
        fedwad.distance(np.zeros((20, 1)), np.ones((20, 1)), privacy=DP(1))
    rng = np.random.default_rng(0)
    tables = {k: {"age": rng.normal(0, 1, 500), "sex": ["f", "m"] * 250} for k in ("a", "b")}
    fed = fedwad.local({k: pa.table(t) for k, t in tables.items()}, schema=schema)
    assert fedwad.matrix(fed, privacy=DP(5)).privacy["clip_norm"] == 2 * math.sqrt(2)
    agreed = fedwad.local({k: pa.table(t) for k, t in tables.items()})
    with fails(InputError, "not-public"):
        fedwad.matrix(agreed, privacy=DP(5, clip_norm=1))
    labelled = DP(5, labels=["ill"])
    with fails(InputError, "not-public"):
        fedwad.CoresetClassifier(privacy=labelled).fit(agreed)


def test_a_guarantee_survives_the_wire():
    own = DP(0.5, delta=1e-6, clip_norm=3, centre=[1.0, 2.0], labels=[np.int64(4)])
    for guarantee in (DP(1, clip_norm=2), own):
        again = DP.of(guarantee.to_dict())
        assert again.to_dict() == guarantee.to_dict()
        assert again.mu == mu_of(guarantee.epsilon, guarantee.delta)
    with pytest.raises(InputError):
        DP.of({"epsilon": 1, "clip_norm": 1, "trust": "me"})


def test_a_guarantee_with_numpys_integer_is_plain_and_labels_are_a_list():
    (plain,) = DP(1, clip_norm=1, labels=[np.int64(4)]).to_dict()["labels"]
    assert type(plain) is int
    assert plain == 4
    with fails(InputError, "bad-option"):
        DP(1, clip_norm=1, labels=3)
