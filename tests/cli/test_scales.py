"""The hint about a column that outweighs all others."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedwad
from fedwad.federation import read

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Typer about Click
    from fedwad.cli import console, scales

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"age": RNG.normal(50, 9, 80), "dose": RNG.normal(3, 4, 80)})


@pytest.fixture
def printed(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(console, "screen", Console(file=text, width=400))
    return text


def test_a_number_of_patients_is_noticed(printed):
    """The distance would be about it alone, and nothing in the answer would show that."""
    table = TABLE.assign(patient=np.arange(80) + 10_000)
    scales.warn_dominant_variance([read(table), read(table.assign(patient=table.patient + 10_000))])
    assert printed.getvalue().startswith("Warning: column 'patient' has nearly all of the variance")
    assert "Drop it if it is not a measurement (--drop patient), or scale" in printed.getvalue()


def test_small_units_are_noticed_and_comparable_columns_are_not(printed):
    scales.warn_dominant_variance([read(TABLE), read(TABLE + 1)])
    assert printed.getvalue() == ""
    scales.warn_dominant_variance([read(TABLE.assign(age=TABLE.age * 3))])
    assert "column 'age' has 9" in printed.getvalue()


@pytest.mark.parametrize("data", [[], [read(TABLE.to_numpy() * [1000, 1])], [read(TABLE[["age"]])]])
def test_arrays_and_single_columns_are_left_alone(printed, data):
    scales.warn_dominant_variance(data)
    assert printed.getvalue() == ""


def test_shares_are_of_the_variance_over_all_rows():
    tables = [RNG.normal(0, 1, (40, 3)) * [1, 2, 3], RNG.normal(5, 1, (20, 3))]
    variance = np.concatenate(tables).var(axis=0)
    np.testing.assert_allclose(scales.variance_fractions(tables), variance / variance.sum())
    assert scales.variance_fractions(
        [np.full((3, 2), 1e150) * [[1, 1], [2, 1], [1, 1]]]
    ).tolist() == [
        1.0,
        0.0,
    ]
    assert scales.variance_fractions([np.ones((3, 2))]).tolist() == [0.0, 0.0]


def test_a_column_that_makes_the_distance_is_noticed(printed):
    """In Python as a warning, and on the command line as a line with the option that helps."""
    table = TABLE.assign(patient=np.arange(80) + 10_000)
    other = table.assign(patient=table.patient + 10_000)
    fed = fedwad.local({"a": table, "b": other}, schema=None)
    with pytest.warns(fedwad.DataWarning, match="Column 'patient' makes nearly all"):
        found = fedwad.distance(fed["a"], fed["b"])
    with pytest.warns(fedwad.DataWarning, match="drop: patient"):
        fedwad.matrix(fed)
    scales.warn_dominant_column(found.evidence)
    assert "--drop patient" in printed.getvalue()


def test_many_small_parts_and_arrays_are_not(printed):
    fed = fedwad.local({"a": TABLE, "b": TABLE + 1}, schema=None)
    scales.warn_dominant_column(fedwad.distance(fed["a"], fed["b"]).evidence)
    scales.warn_dominant_column(fedwad.distance(TABLE.to_numpy(), [[0, 1e6], [1, 0]]).evidence)
    scales.warn_dominant_column(None)
    assert printed.getvalue() == ""
