"""Loading by name: the same shape of answer whatever the data set, the same rows whatever the
scale."""

import numpy as np
import pytest

from failing import fails
from fedwad import InputError
from paper.data import load

IMAGES = ("mnist", "fashion_mnist", "kmnist", "usps", "cifar10")


@pytest.mark.parametrize("name", IMAGES)
def test_stored_pixels_come_back(folder, name):
    pixels = folder.pixels[name]
    X, y = load(name, pixels="raw", size=pixels.shape[1])
    assert X.dtype == np.uint8
    assert y.dtype == np.int64
    np.testing.assert_array_equal(X.reshape(pixels.shape), pixels)
    assert len(y) == len(X)


@pytest.mark.parametrize("name", IMAGES)
def test_normalised_as_in_the_code_of_the_paper(folder, name):
    mean, deviation = {
        "cifar10": (np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])),
    }.get(name, (0.1307, 0.3081))
    side = 32 if name == "cifar10" else 28
    shape = (-1, side, side, 3 if name == "cifar10" else 1)
    X, _ = load(name)
    raw, _ = load(name, pixels="raw")
    unit, _ = load(name, pixels="unit")
    assert X.dtype == unit.dtype == np.float32
    assert X.shape == (len(folder.pixels[name]), np.prod(shape[1:]))
    np.testing.assert_allclose(unit, raw / 255, rtol=1e-6)
    np.testing.assert_allclose(
        X.reshape(shape), (raw.reshape(shape) / 255 - mean) / deviation, atol=1e-6
    )


@pytest.mark.usefixtures("folder")
def test_splits_are_parts_of_all_training_first():
    X, y = load("mnist")
    train, y_train = load("mnist", "train")
    test, y_test = load("mnist", split="test")
    assert (len(train), len(test)) == (60, 20)
    np.testing.assert_array_equal(X, np.concatenate([train, test]))
    np.testing.assert_array_equal(y, np.concatenate([y_train, y_test]))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", IMAGES)
def test_a_draw_takes_rows_of_the_data_with_their_labels_and_none_twice(name):
    X, y = load(name, pixels="raw")
    drawn, labels = load(name, pixels="raw", samples=17, seed=3)
    rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in drawn]
    assert len(set(rows)) == 17
    np.testing.assert_array_equal(y[rows], labels)


@pytest.mark.usefixtures("folder")
def test_a_draw_depends_on_the_seed_alone():
    first, labels = load("cifar10", samples=20, seed=0)
    again, _ = load("cifar10", samples=20, seed=0)
    other, _ = load("cifar10", samples=20, seed=1)
    small, small_labels = load("cifar10", samples=20, seed=0, size=8, pixels="raw")
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(labels, small_labels)
    assert small.shape == (20, 8 * 8 * 3)


@pytest.mark.usefixtures("folder")
def test_every_row_may_be_drawn():
    drawn, _ = load("mnist", samples=80)
    X, _ = load("mnist")
    np.testing.assert_array_equal(np.unique(drawn, axis=0), np.unique(X, axis=0))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        (("Mnist",), {}, "unknown-dataset"),
        ((["mnist"],), {}, "unknown-dataset"),
        (("mnist", "validation"), {}, "bad-option"),
        (("mnist",), {"pixels": "grey"}, "bad-option"),
        (("mnist",), {"size": 0}, "bad-option"),
        (("mnist",), {"samples": 0}, "bad-option"),
        (("mnist",), {"seed": -1}, "bad-option"),
        (("mnist", "test"), {"samples": 21}, "too-few-samples"),
        (("kmnist", "train"), {}, "no-samples"),
    ],
)
def test_what_cannot_be_loaded_gets_a_sentence(arguments, options, code):
    with fails(InputError, code):
        load(*arguments, **options)


COUNTS = {  # by class, as the authors and the folder's own page give them
    ("mnist", "train"): [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    ("mnist", "test"): [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ("kmnist", "test"): [1000] * 10,
    ("fashion_mnist", "test"): [1000] * 10,
    ("usps", "train"): [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644],
    ("usps", "test"): [359, 264, 198, 166, 200, 160, 170, 147, 166, 177],
}


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(("name", "split"), COUNTS)
def test_real_classes_have_their_sizes(name, split):
    X, y = load(name, split)
    assert np.bincount(y).tolist() == COUNTS[name, split]
    assert X.shape == (len(y), 784)
    if (name, split) == ("mnist", "train"):  # the set that the mean and the deviation are of
        assert abs(X.mean(dtype=np.float64)) < 3e-4
        assert abs(X.std(dtype=np.float64) - 1) < 1e-3


@pytest.mark.usefixtures("real_data")
def test_real_cifar_classes_look_like_themselves():
    X, y = load("cifar10", samples=2000, seed=0, pixels="unit")
    colours = X.reshape(-1, 32 * 32, 3).mean(axis=1)
    airplane, frog = colours[y == 0].mean(axis=0), colours[y == 6].mean(axis=0)
    assert airplane[2] > airplane[0]  # sky
    assert frog[2] < frog[0]  # earth and leaves
    assert np.bincount(y, minlength=10).min() > 140
