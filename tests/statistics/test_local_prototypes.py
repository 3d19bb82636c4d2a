"""Coresets of one client's samples: what they are by definition, checked by other means."""

from itertools import combinations

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.statistics import distil, distil_labelled, large_classes
from fedwad.statistics.cells import _apportion
from fedwad.transport import Measure
from oracles import linear_program, small_measures

RNG = np.random.default_rng(0)
BLOBS = np.concatenate(
    [RNG.normal(centre, 0.1, (30, 2)) for centre in ((0, 0), (9, 0), (0, 9), (9, 9))]
)


@pytest.mark.parametrize("masses", ["equal", "free"])
def test_apart_clusters_become_their_means(masses):
    atoms = distil(Measure(BLOBS), 4, masses).measure
    found = atoms.points[np.lexsort(atoms.points.round().T)]
    means = BLOBS.reshape(4, 30, 2).mean(axis=1)
    np.testing.assert_allclose(found, means[np.lexsort(means.round().T)], atol=1e-12)
    np.testing.assert_allclose(atoms.weights, 0.25)


def test_equal_atoms_stay_where_an_independent_plan_sends_them():
    points = RNG.standard_normal((120, 5))
    atoms = distil(Measure(points), 10)
    plan = ot.emd(np.full(120, 1 / 120), np.full(10, 0.1), ot.dist(points, atoms.measure.points))
    np.testing.assert_allclose(
        atoms.distance, np.sqrt((plan * ot.dist(points, atoms.measure.points)).sum())
    )
    moved = 10 * plan.T @ points
    after = fedwad.wasserstein(points, moved)
    assert atoms.distance * (1 - 1e-4) <= after <= atoms.distance * (1 + 1e-12)


def test_no_better_than_the_best_and_better_than_a_draw():
    points = RNG.standard_normal((8, 2))

    def loss(chosen):
        parts = points[list(chosen)], np.delete(points, list(chosen), axis=0)
        return sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts) / 8

    best = min(map(loss, combinations(range(8), 4)))
    found = min(distil(Measure(points), 2, seed=seed).distance ** 2 for seed in range(10))
    np.testing.assert_allclose(found, best)
    many = Measure(RNG.standard_normal((300, 4)))
    draws = [
        fedwad.wasserstein(many.points, many.points[RNG.permutation(300)[:20]]) for _ in range(20)
    ]
    assert distil(many, 20).distance < min(draws)


@given(
    small_measures(count=1),
    st.integers(1, 9),
    st.sampled_from(["equal", "free"]),
    st.integers(1, 3),
)
def test_by_definition(measures, size, masses, min_size):
    (measure,) = measures
    atoms = distil(measure, size, masses, min_size)
    assert 1 <= len(atoms.measure) <= size
    assert len(atoms.measure) == 1 or atoms.min_cell_size >= min_size
    if masses == "equal":
        np.testing.assert_allclose(atoms.measure.weights, 1 / len(atoms.measure))
    true = linear_program(measure, atoms.measure)
    length = np.abs(measure.points - measure.mean).max() or 1.0
    assert atoms.distance >= true - 1e-6 * length
    if masses == "equal" and len(atoms.measure) > 1:
        assert atoms.distance <= true + 1e-6 * length
    mean = atoms.measure.weights @ atoms.measure.points
    np.testing.assert_allclose(
        mean, measure.mean, atol=0.02 * length
    )  # exact once atoms have settled


def test_more_atoms_than_samples_are_the_samples():
    points = RNG.standard_normal((7, 3))
    for masses in ("equal", "free"):
        atoms = distil(Measure(points), 20, masses)
        np.testing.assert_allclose(
            sorted(atoms.measure.points.tolist()), sorted(points.tolist()), rtol=1e-12
        )
        assert atoms.distance < 1e-12
        assert atoms.min_cell_size == 1


def test_one_sample_and_copies_of_one():
    for points in (np.ones((1, 3)), np.ones((50, 3))):
        for masses in ("equal", "free"):
            atoms = distil(Measure(points), 10, masses)
            assert atoms.measure.points.tolist() == [[1.0, 1.0, 1.0]]
            assert atoms.min_cell_size == len(points)


def test_a_floor_leaves_fewer_atoms_each_of_enough_samples():
    measure = Measure(RNG.standard_normal((105, 3)))
    assert len(distil(measure, 50, "equal", min_size=10).measure) == 10
    assert distil(measure, 50, "equal", min_size=10).min_cell_size >= 10
    assert distil(measure, 50, "free", min_size=10).min_cell_size >= 10
    heavy = Measure(measure.points, [50.0, *np.ones(104)])
    assert (
        len(distil(heavy, 50, "equal", min_size=1).measure) == 3
    )  # 1 / (3 * 50/154) >= 1 > 1 / (4 * 50/154)


def test_a_large_common_offset_costs_no_digits():
    points = np.round(RNG.standard_normal((60, 2)) * 2**20) / 2**20
    near, far = distil(Measure(points), 5), distil(Measure(points + 2.0**30), 5)
    np.testing.assert_allclose(far.measure.points - 2.0**30, near.measure.points, atol=1e-6)


CODES = np.repeat([0, 1, 2, 3], 30)


def test_classes_are_distilled_by_themselves():
    codes = np.where(RNG.random(120) < 0.3, 0, 1)  # mixed in space
    points = RNG.standard_normal((120, 2))
    atoms = distil_labelled(Measure(points), codes, 10)
    for code in (0, 1):
        own = Measure(points[codes == code])
        alone = distil(own, int((atoms.codes == code).sum()))
        np.testing.assert_array_equal(atoms.points[atoms.codes == code], alone.measure.points)
        np.testing.assert_allclose(atoms.weights[atoms.codes == code].sum(), np.mean(codes == code))
    assert len(atoms.points) == 10
    assert atoms.complete


def test_atoms_of_a_client_take_the_label_of_their_nearest_sample():
    points, codes = RNG.standard_normal((90, 2)), RNG.integers(0, 3, 90)
    atoms = distil_labelled(Measure(points), codes, 12, "site")
    nearest = [codes[np.linalg.norm(points - atom, axis=1).argmin()] for atom in atoms.points]
    assert atoms.codes.tolist() == nearest
    assert atoms.min_cell_size == 1  # a label of one sample, whatever atoms average


def test_with_a_floor_labels_are_a_vote_and_small_classes_have_none():
    codes = CODES.copy()
    codes[:4] = 4  # a small class inside the first cluster
    for per in ("class", "site"):
        atoms = distil_labelled(Measure(BLOBS), codes, 8, per, min_size=5)
        assert set(atoms.codes.tolist()) == {0, 1, 2, 3}
        assert atoms.min_cell_size >= 5
        assert not atoms.complete
    one_odd = CODES.copy()
    one_odd[0] = 1
    atoms = distil_labelled(Measure(np.round(BLOBS, 0)), one_odd, 4, "site", min_size=3)
    assert atoms.codes[np.abs(atoms.points).sum(axis=1).argmin()] == 0


def test_no_class_of_enough_samples():
    with fails(InputError, "too-few-rows"):
        distil_labelled(Measure(BLOBS), CODES, 4, min_size=31)
    assert large_classes(Measure(BLOBS), CODES, 30).tolist() == [0, 1, 2, 3]


@given(st.integers(1, 60), st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_shares_are_in_proportion_and_none_is_empty(size, counts):
    mass = np.array(counts) / np.sum(counts)
    shares = _apportion(size, mass)
    assert (shares >= 1).all()
    assert shares.sum() >= size
    if (size * mass >= 1).all():
        assert shares.sum() == size
        assert np.abs(shares - size * mass).max() <= 1 + 1e-9
