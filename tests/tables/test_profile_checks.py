"""Profiles that arrive: right ones pass, others are refused in one sentence."""

from dataclasses import replace

import pandas as pd
import pytest

from fedwad.datasets._heart import HEART_LABEL, heart_files
from fedwad.errors import InputError
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
    {"count": 40.0},
    {"missing": True},
    {"kind": "secret"},
    {"name": 3},
    {"name": "w"},
    {"moments": (float("inf"), 1.0)},
    {"moments": ("high", 1.0)},
    {"moments": (True, 1.0)},
    {"moments": (1.0, -1.0)},
    {"moments": (1.0, float("nan"))},
    {"moments": (1.0,)},
    {"levels": ("0", "1")},
    {"levels": ["0", "1", "2"]},
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
    with pytest.raises(InputError) as caught:
        check_profile(replace(RIGHT, columns=columns))
    assert "\n" not in str(caught.value)


def test_the_name_of_a_label_column_has_a_limit_too():
    """Once failed. Its length was checked for all other columns only."""
    label = next(column for column in RIGHT.columns if column.kind == "label")
    check_profile(replace(RIGHT, columns=(replace(label, name="y" * 1000),)))
    with pytest.raises(InputError, match="do not fit together"):
        check_profile(replace(RIGHT, columns=(replace(label, name="y" * 1001),)))


@pytest.mark.parametrize(
    "wrong",
    [None, {}, replace(RIGHT, rows=0), replace(RIGHT, columns=(1,)), replace(RIGHT, rows=39)],
)
def test_what_is_not_a_profile(wrong):
    with pytest.raises(InputError):
        check_profile(wrong)
