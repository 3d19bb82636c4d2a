"""Partitions: no sample twice, the requested sizes and classes, the same from the same seed, for
labels of any type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwad
from failing import fails
from fedwad import InputError
from fedwad.datasets import Partition, load, partition

NAMERS = [
    lambda codes: codes,
    lambda codes: codes * 7 - 3,
    lambda codes: codes / 2,
    lambda codes: np.array(["sick", "healthy", "unknown", "x", "y", "zz"])[codes],
    lambda codes: (
        np.array(["sick", 1, "a2", 2.5, b"bytes", True], dtype=object)[codes]
        if codes.max() < 5
        else codes
    ),
    lambda codes: (codes % 2).astype(bool) if codes.max() < 2 else codes.astype(np.uint8),
    lambda codes: np.datetime64("2024-01-01") + codes,
]


@st.composite
def labelled(draw, kinds=(2, 4, 6), least=20, most=60):
    """Samples whose first number is their row, and labels of one of several types."""
    count = draw(st.sampled_from(kinds))
    sizes = draw(st.lists(st.integers(least, most), min_size=count, max_size=count))
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(sum(sizes))
    codes = np.repeat(np.arange(count), sizes)[order]
    y = draw(st.sampled_from(NAMERS))(codes)
    X = np.column_stack([np.arange(len(y)), np.random.default_rng(0).standard_normal(len(y))])
    return X, y, codes


def check(p, X, y):
    """What every partition guarantees."""
    assert isinstance(p, Partition)
    rows = np.concatenate([p.indices[name] for name in p.clients])
    assert len(np.unique(rows)) == len(rows)
    assert len(p.groups) == len(p) == len(p.clients) == len(p.counts)
    assert (p.sizes > 0).all()
    assert p.sizes.sum() == len(rows)
    for k, (name, (samples, labels)) in enumerate(p.items()):
        np.testing.assert_array_equal(samples, X[p.indices[name]])
        assert labels.tolist() == y[p.indices[name]].tolist()
        assert len(samples) == p.sizes[k]
        held = labels.tolist()
        assert [held.count(label) for label in p.classes.tolist()] == p.counts[k].tolist()


def same(p, q):
    assert p.clients == q.clients
    np.testing.assert_array_equal(p.groups, q.groups)
    for name in p:
        np.testing.assert_array_equal(p.indices[name], q.indices[name])


@given(labelled(least=50), st.integers(2, 5), st.integers(2, 8), st.integers(0, 9), st.booleans())
def test_class_pairs(data, per_pair, samples, seed, balanced):
    X, y, codes = data
    kinds = len(np.unique(codes))
    clients = per_pair * kinds // 2
    p = partition.class_pairs(X, y, clients, samples, seed, balanced=balanced)
    check(p, X, y)
    same(p, partition.class_pairs(X, y, clients, samples, seed, balanced=balanced))
    assert (p.sizes == samples).all()
    members = np.bincount(p.groups, minlength=kinds // 2)
    assert members.min() >= 2
    if balanced:
        assert (members == per_pair).all()
    for group, counts in zip(p.groups, p.counts, strict=True):
        assert np.flatnonzero(counts).tolist() == [2 * group, 2 * group + 1]
        assert abs(counts[2 * group] - counts[2 * group + 1]) <= 1


def test_class_pairs_of_the_paper():
    X, y = load("digits")
    p = partition.class_pairs(X, y, clients=20, samples=40, seed=0)
    assert sorted(set(p.groups.tolist())) == [0, 1, 2, 3, 4]
    for group, (_, labels) in zip(p.groups, p.values(), strict=True):
        assert sorted(set(labels.tolist())) == [2 * group, 2 * group + 1]
    ten = partition.class_pairs(X, y, clients=10, samples=40, seed=0)
    assert np.bincount(ten.groups).tolist() == [2] * 5
    sizes = {
        tuple(np.bincount(partition.class_pairs(X, y, 20, 20, seed).groups)) for seed in range(10)
    }
    assert len(sizes) > 5  # random beyond the two


@given(
    labelled(kinds=(2, 3, 4, 6), least=40),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(0, 9),
    st.booleans(),
)
def test_classes_per_client(data, classes, clients, seed, balanced):
    X, y, codes = data
    kinds = len(np.unique(codes))
    classes = min(classes, kinds)
    p = partition.classes_per_client(X, y, classes, clients, 6, seed, balanced=balanced)
    check(p, X, y)
    same(p, partition.classes_per_client(X, y, classes, clients, 6, seed, balanced=balanced))
    holds = p.counts > 0
    assert (holds.sum(axis=1) == classes).all()
    assert (p.sizes == 6).all()
    assert (np.where(holds, p.counts, 6).min(axis=1) >= 6 // classes).all()
    for i in range(clients):
        for j in range(clients):
            assert (p.groups[i] == p.groups[j]) == (holds[i] == holds[j]).all()
    if balanced:
        assert np.ptp(holds.sum(axis=0)) <= 1


def test_random_pairs_are_random_and_of_two_classes():
    X, y = load("digits")
    p = partition.classes_per_client(X, y, clients=20, samples=20, seed=1)
    assert ((p.counts > 0).sum(axis=1) == 2).all()
    assert (p.counts[p.counts > 0] == 10).all()
    pairs = {tuple(np.flatnonzero(counts)) for counts in p.counts}
    assert len(pairs) > 8
    assert p.groups[0] == 0


def test_each_pair_is_as_likely_as_the_others():
    y = np.repeat(np.arange(4), 2000)
    p = partition.classes_per_client(np.zeros((8000, 1)), y, clients=1200, samples=2, seed=0)
    times = np.bincount(p.groups)
    assert len(times) == 6
    assert abs(times - 200).max() < 60  # 4.6 standard deviations


@given(labelled(), st.integers(0, 9), st.sampled_from(["class_pairs", "classes_per_client"]))
def test_everything_is_dealt_out_when_no_size_is_given(data, seed, way):
    X, y, _ = data
    if way == "class_pairs":
        p = partition.class_pairs(X, y, 12, None, seed)
    else:
        p = partition.classes_per_client(X, y, 2, 12, None, seed, balanced=True)
    check(p, X, y)
    assert p.sizes.sum() == len(y)
    for counts in p.counts.T:
        assert np.ptp(counts[counts > 0]) <= 1


@given(
    labelled(kinds=(2, 3, 6), least=40),
    st.sampled_from([0.05, 0.5, 5]),
    st.integers(1, 6),
    st.integers(0, 9),
)
def test_dirichlet(data, alpha, clients, seed):
    X, y, _ = data
    p = partition.dirichlet(X, y, alpha, clients, 5, seed)
    check(p, X, y)
    same(p, partition.dirichlet(X, y, alpha, clients, 5, seed))
    assert (p.sizes == 5).all()
    assert len(set(p.groups.tolist())) == clients
    whole = partition.dirichlet(X, y, 10 * alpha, clients, None, seed)
    check(whole, X, y)
    assert whole.sizes.sum() == len(y)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_dirichlet_proportions_have_the_variance_of_their_law(alpha):
    y = np.repeat(np.arange(5), 20_000)
    p = partition.dirichlet(np.zeros((len(y), 1)), y, alpha, clients=200, samples=400, seed=0)
    shares = p.counts / 400
    variance = (
        0.2 * 0.8 / (5 * alpha + 1)
    )  # of one coordinate of the symmetric Dirichlet distribution
    expected = variance + (0.2 * 0.8 - variance) / 400  # and of 400 draws from it
    np.testing.assert_allclose(shares.mean(axis=0), 0.2, atol=4 * np.sqrt(expected / 200))
    np.testing.assert_allclose(shares.var(axis=0).mean(), expected, rtol=0.2)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 10.0])
def test_dirichlet_division_of_everything_has_the_variance_of_its_law(alpha):
    y = np.repeat(np.arange(200), 1000)
    p = partition.dirichlet(np.zeros((len(y), 1)), y, alpha, clients=5, samples=None, seed=0)
    shares = p.counts / 1000
    np.testing.assert_allclose(shares.var(axis=1).mean(), 0.2 * 0.8 / (5 * alpha + 1), rtol=0.2)
    np.testing.assert_allclose(shares.sum(axis=0), 1)


@given(
    labelled(kinds=(1, 3)), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 9)
)
def test_by_size(data, sizes, seed):
    X, y, _ = data
    p = partition.by_size(X, y, sizes, seed)
    check(p, X, y)
    same(p, partition.by_size(X, y, iter(sizes), seed))
    assert p.sizes.tolist() == sizes
    assert not p.groups.any()


def test_by_size_may_take_everything():
    X, y = load("digits")
    p = partition.by_size(X, y, [1000, 797])
    assert sorted(np.concatenate(list(p.indices.values())).tolist()) == list(range(1797))
    assert abs(p.counts[0] / 1000 - np.bincount(y) / 1797).max() < 0.05


@given(labelled(kinds=(4,)), st.integers(0, 9))
@settings(max_examples=30)
def test_other_data_are_dealt_out_alike(data, seed):
    X, y, _ = data
    p = partition.class_pairs(X, y, 8, 6, seed)
    again = np.concatenate([y, y])
    Z = np.arange(len(again))[:, None]
    q = p.apply(Z, again, seed)
    check(q, Z, again)
    same(q, p.apply(Z, again, seed))
    np.testing.assert_array_equal(q.groups, p.groups)
    assert q.sizes.sum() == len(again)
    np.testing.assert_array_equal(q.counts > 0, p.counts > 0)
    ideal = p.counts / p.counts.sum(axis=0) * q.counts.sum(axis=0)
    assert np.abs(q.counts - ideal).max() <= 1


def test_alike_leaves_out_classes_that_nobody_has():
    p = partition.by_size(np.zeros((6, 1)), [1, 1, 1, 2, 2, 2], [3, 3])
    q = p.apply(np.zeros((9, 1)), np.array([1, 1, 1, 1, 2, 2, 2, 2, 3], dtype=np.uint8))
    assert q.sizes.sum() == 8
    with fails(InputError, "too-few-samples"):
        p.apply([[0.0]], [1])


def test_it_goes_into_a_federation():
    X, y = load("digits")
    p = partition.class_pairs(X, y, clients=10, samples=60, seed=0)
    assert fedwad.local(p).names == p.clients


def test_it_is_a_mapping_that_shows_no_data():
    X = np.full((40, 2), 123.456)
    p = partition.by_size(X, ["secret"] * 40, [10, 20])
    assert repr(p) == "Partition(2 clients, 10 to 20 samples each, 30 of 40 samples, 1 group)"
    assert "client0" in p
    assert "nobody" not in p
    assert p.get("nobody") is None
    assert p == p
    assert p != partition.by_size(X, ["secret"] * 40, [10, 20])
    assert len({p, p}) == 1
    assert list(dict(p)) == ["client0", "client1"]


def test_names_sort_in_their_order():
    p = partition.by_size(np.zeros((200, 1)), np.zeros(200), [1] * 101)
    assert list(p) == sorted(p)
    assert p.clients[7] == "client007"


def test_data_frames_and_lists():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(8), "b": range(8)})
    labels = pandas.Series(["x", "y"] * 4, dtype="category")
    p = partition.class_pairs(frame, labels, 2, 4)
    assert p["client0"][0].shape == (4, 2)
    q = partition.class_pairs(frame.to_numpy().tolist(), list(labels), 2, 4)
    same(p, q)


def test_samples_may_have_any_shape():
    p = partition.by_size(np.zeros((10, 4, 4, 3)), np.zeros(10), [3])
    assert p["client0"][0].shape == (3, 4, 4, 3)


X10, Y10 = np.zeros((10, 1)), np.repeat([0, 1], 5)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda: partition.class_pairs(X10, Y10[:9]),
            ("wrong-shape",),
        ),
        (lambda: partition.class_pairs(X10, X10), ("wrong-shape",)),
        (lambda: partition.class_pairs([], []), ("empty-table",)),
        (lambda: partition.class_pairs([[1], [1, 2]], [0, 1]), ("ragged-rows",)),
        (lambda: partition.class_pairs(X10, [None, *Y10[1:]]), ("missing-labels",)),
        (lambda: partition.class_pairs(X10, [np.nan, *Y10[1:]]), ("missing-labels",)),
        (
            lambda: partition.by_size(X10[:1], np.array([[], 0], dtype=object)[:1], [1]),
            ("bad-labels",),
        ),
        (
            lambda: partition.class_pairs(X10, np.arange(10) % 3),
            ("no-partition",),
        ),
        (
            lambda: partition.class_pairs(X10, Y10, clients=1),
            ("no-partition",),
        ),
        (
            lambda: partition.class_pairs(X10, Y10, clients=2, samples=1),
            ("too-few-samples",),
        ),
        (
            lambda: partition.class_pairs(X10, Y10, clients=3, samples=4),
            ("too-few-samples",),
        ),
        (
            lambda: partition.class_pairs(X10, Y10, clients=6, samples=None),
            ("too-few-samples",),
        ),
        (lambda: partition.class_pairs(X10, Y10, clients=2.5), ("bad-option", "clients")),
        (lambda: partition.class_pairs(X10, Y10, clients=2, samples=0), ("bad-option", "samples")),
        (
            lambda: partition.class_pairs(X10, Y10, clients=2, samples=2, seed=-1),
            ("bad-option", "seed"),
        ),
        (
            lambda: partition.classes_per_client(X10, Y10, 3),
            ("no-partition",),
        ),
        (
            lambda: partition.classes_per_client(X10, Y10 * 0, clients=2),
            ("no-partition",),
        ),
        (lambda: partition.dirichlet(X10, Y10, 0), ("bad-option", "alpha")),
        (lambda: partition.dirichlet(X10, Y10, np.inf), ("bad-option", "alpha")),
        (lambda: partition.dirichlet(X10, Y10, [1.0]), ("bad-option", "alpha")),
        (
            lambda: partition.dirichlet(X10, Y10, clients=3, samples=4),
            ("too-few-samples",),
        ),
        (
            lambda: partition.dirichlet(X10, Y10, clients=11, samples=None),
            ("too-few-samples",),
        ),
        (
            lambda: partition.dirichlet(X10, Y10, 1e-9, clients=10, samples=None),
            ("no-partition",),
        ),
        (lambda: partition.dirichlet(X10, Y10, 1e-9, clients=1, samples=6), ("no-partition",)),
        (lambda: partition.by_size(X10, Y10, 5), ("bad-option", "sizes")),
        (lambda: partition.by_size(X10, Y10, []), ("bad-option", "sizes")),
        (lambda: partition.by_size(X10, Y10, [3, 0]), ("bad-option",)),
        (lambda: partition.by_size(X10, Y10, [6, 5]), ("too-few-samples",)),
    ],
)
def test_what_cannot_be_dealt_out_gets_a_sentence(call, problem):
    with fails(InputError, *problem):
        call()


def test_a_hundred_clients():
    y = np.repeat(np.arange(10), 700)
    X = np.arange(7000)[:, None]
    p = partition.class_pairs(X, y, clients=100, samples=60, seed=0, balanced=True)
    assert repr(p) == "Partition(100 clients, 60 samples each, 6000 of 7000 samples, 5 groups)"
    check(p, X, y)
