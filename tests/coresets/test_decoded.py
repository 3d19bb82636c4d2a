"""Points of a coreset as rows of the sites' tables."""

import numpy as np
import pandas as pd
import pytest

import fedwad
from command_line import run
from failing import fails


def tables():
    rng = np.random.default_rng(0)
    return {
        site: pd.DataFrame(
            {
                "age": np.round(rng.normal(middle, 3, 80), 1),
                "sex": np.where(rng.random(80) < 0.5, "f", "m"),
            }
        )
        for site, middle in (("oslo", 40), ("rome", 70))
    }


def test_points_have_the_units_and_levels_of_their_columns():
    found = fedwad.coreset(fedwad.local(tables()), 4)
    ages = sorted(float(row["age"]) for row in found.rows)
    assert 33 < ages[0] < 47
    assert 63 < ages[-1] < 77
    assert all(row["sex"][0] in "fm" for row in found.rows)
    frame = found.to_frame()
    assert list(frame.columns) == ["weight", "age", "sex"]
    assert sorted(frame["age"]) == pytest.approx(ages, rel=1e-3)
    again = fedwad.CoresetResult.from_dict(found.to_dict())
    assert again.rows == found.rows
    plain = fedwad.coreset(np.random.default_rng(0).normal(size=(50, 2)), 3)
    assert plain.rows == ()
    with fails(fedwad.InputError, "no-schema"):
        plain.decode(plain.points[0])


def test_the_command_prints_them(tmp_path):
    for site, table in tables().items():
        table.to_csv(tmp_path / f"{site}.csv", index=False)
    done = run("coreset", tmp_path, "--size", "3", "--method", "summary")
    assert "own units and levels" in done.stdout
    assert "age" in done.stdout
    assert "sex" in done.stdout
