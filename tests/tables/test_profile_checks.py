"""Profiles that arrive: right ones pass, others are refused in one sentence."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from failing import fails
from fedwad.datasets.loading import HEART_LABEL, heart_files
from fedwad.errors import InputError
from fedwad.messages.codec import check_reply
from fedwad.messages.columns import ColumnsReply, ColumnsRequest
from fedwad.tables import check_profile, profile, smallest_group

TABLE = pd.DataFrame({"v": [1, 2, 2, 0] * 10, "w": ["a", "b", None, "a"] * 10, "y": range(40)})
RIGHT = profile(TABLE, 5, label="y")


@pytest.mark.parametrize("least", [1, 5, 10])
def test_right_ones(least):
    for path in heart_files().values():
        found = profile(path, least, label=HEART_LABEL)
        check_profile(found)
        assert smallest_group(found) >= least
    check_profile(profile(TABLE[:1], least))


WRONG = [
    {"count": 41},
    {"count": -1},
    {"kind": "secret"},
    {"name": "w"},
    {"moments": (float("inf"), 1.0)},
    {"moments": (1.0, -1.0)},
    {"moments": (1.0, float("nan"))},
    {"moments": (1.0,)},
    {"levels": ("0", "1")},
    {"levels": ("0", "1", "1")},
    {"level_counts": (10, 10, 40)},
    {"level_counts": (10, 10, 4), "other": 16},
    {"level_counts": (10, 10, 0)},
    {"other": 7},
    {"sentinels": (3.0,)},
    {"sentinel_counts": (50,)},
    {"distinct": 1000},
    {"kind": "label"},
]


@pytest.mark.parametrize("change", WRONG)
def test_wrong_ones(change):
    columns = (replace(RIGHT.columns[0], **change), *RIGHT.columns[1:])
    with fails(InputError, "bad-profile"):
        check_profile(replace(RIGHT, columns=columns))


TYPES = [{"count": 40.0}, {"missing": True}, {"name": 3}]
TYPES += [{"moments": ("high", 1.0)}, {"moments": (True, 1.0)}]


@pytest.mark.parametrize("change", TYPES)
def test_wrong_types_are_no_reply(change):
    columns = (replace(RIGHT.columns[0], **change), *RIGHT.columns[1:])
    found = check_reply(ColumnsRequest(), ColumnsReply(replace(RIGHT, columns=columns)))
    assert found.code == "invalid_reply"


def test_the_name_of_a_label_column_has_a_limit_too():
    """Once failed. Its length was checked for all other columns only."""
    label = next(column for column in RIGHT.columns if column.kind == "label")
    check_profile(replace(RIGHT, columns=(replace(label, name="y" * 1000),)))
    with fails(InputError, "bad-profile"):
        check_profile(replace(RIGHT, columns=(replace(label, name="y" * 1001),)))


@pytest.mark.parametrize(
    "wrong",
    [replace(RIGHT, rows=0), replace(RIGHT, rows=39), replace(RIGHT, min_cell_size=0)],
)
def test_rows_that_cannot_be(wrong):
    with fails(InputError, "bad-profile"):
        check_profile(wrong)


@pytest.mark.parametrize("common", [(0.0, 1.0), (1.0, 2.0), (0.0, 0.5, 2.0)])
def test_one_odd_value_beside_a_few_frequent_ones_does_not_follow_from_the_squares(common):
    """For each number of rows with each frequent value the mean tells the odd one, and only for the
    true numbers the sum of squares fits."""
    values = np.resize(common, 200)
    values[17] = 7.3
    assert not profile(pd.DataFrame({"flag": values}), 10)["flag"].moments
    values[17:40] = np.arange(23) + 0.5  # enough others
    assert profile(pd.DataFrame({"flag": values}), 10)["flag"].moments


@pytest.mark.parametrize("name", ["name", "USUBJID", "patientid", "nhs_number", "code"])
def test_persons_with_equally_many_visits_are_no_levels(name):
    persons = pd.DataFrame({name: np.repeat([f"ABC-01-{k:03d}" for k in range(20)], 12)})
    assert profile(persons, 10)[name].levels == ()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "levels",
    [[f"I{k:03d}" for k in range(30)], [f"ward {k}" for k in range(12)], list("abcdefghijkl")],
)
def test_codes_of_a_category_are_levels(levels, seed):
    rng = np.random.default_rng(seed)
    drawn = pd.DataFrame({"code": rng.choice(levels, 600)})
    assert len(profile(drawn, 10)["code"].levels) > 0.8 * len(levels)
    months = pd.DataFrame({"month": np.resize(["Jan", "Feb", "Mar", "Apr", "May", "Jun"] * 2, 600)})
    assert len(profile(months, 10)["month"].levels) == 6
