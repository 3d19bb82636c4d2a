"""Digits and heart: on every machine, without a network."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from failing import fails
from fedwad import InputError, datasets
from fedwad.datasets import load


def test_digits_are_those_of_scikit_learn():
    X, y = load("digits")
    pixels, labels = load_digits(return_X_y=True)
    assert X.dtype == np.float64
    assert y.dtype == np.int64
    np.testing.assert_array_equal(X, pixels)
    np.testing.assert_array_equal(y, labels)
    unit, _ = load("digits", pixels="unit")
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, X / 16, rtol=1e-6)


def test_a_draw_takes_rows_with_their_labels_and_none_twice():
    X, y = load("digits")
    drawn, labels = load("digits", samples=17, seed=3)
    rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in drawn]
    assert len(set(rows)) == 17
    np.testing.assert_array_equal(y[rows], labels)
    np.testing.assert_array_equal(load("digits", samples=17, seed=3, pixels="unit")[1], labels)
    assert not np.array_equal(load("digits", samples=17, seed=4)[0], drawn)


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("mnist", {}, "unknown-dataset"),
        (["digits"], {}, "unknown-dataset"),
        ("digits", {"pixels": "grey"}, "bad-option"),
        ("digits", {"samples": 0}, "bad-option"),
        ("digits", {"samples": 1798}, "too-few-samples"),
        ("digits", {"seed": -1}, "bad-option"),
        ("heart", {"samples": 10}, "bad-option"),
    ],
)
def test_what_cannot_be_loaded_gets_a_sentence(name, options, code):
    with fails(InputError, code):
        load(name, **options)


def test_the_names_are_those_of_the_contract():
    assert set(datasets.NAMES) == {"heart", "digits"}


def test_heart_is_four_raw_tables():
    tables = load("heart")
    assert list(tables) == ["cleveland", "hungarian", "switzerland", "va"]
    rows = [len(path.read_text().splitlines()) - 1 for path in tables.values()]
    assert rows == [303, 294, 123, 200]


def test_loading_needs_neither_pooch_nor_pillow():
    code = (
        "import sys, fedwad; fedwad.datasets.load('digits');"
        " print('pooch' in sys.modules, 'PIL' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
