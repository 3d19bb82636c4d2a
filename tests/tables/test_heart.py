"""Four hospitals as published: raw files in, the right distances out."""

import itertools
import re

import numpy as np
import ot
import pytest

import fedwad
from fedwad.datasets.loading import HEART_LABEL, heart_files
from fedwad.tables import agree, profile, read_table
from fedwad.tables.encode import label_values

CATEGORIES = {"sex", "cp", "fbs", "restecg", "exang", "slope", "ca", "thal"}


@pytest.fixture(scope="module")
def tables():
    return {site: read_table(path, site) for site, path in heart_files().items()}


@pytest.fixture(scope="module")
def schema(tables):
    return agree({site: profile(table, 5, label=HEART_LABEL) for site, table in tables.items()})


def test_every_row_is_kept(tables, schema):
    rows = {site: schema.encode(table).shape[0] for site, table in tables.items()}
    assert rows == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
    for table in tables.values():
        assert set(label_values(table["num"], table.name).tolist()) <= {0, 1, 2, 3, 4}


def test_kinds(schema):
    kinds = {column.name: column.kind for column in schema.columns}
    assert {name for name, kind in kinds.items() if kind == "category"} == CATEGORIES
    assert {name for name, kind in kinds.items() if kind == "number"} == {
        "age",
        "trestbps",
        "chol",
        "thalach",
        "oldpeak",
    }
    assert schema.label == "num"
    # Level 1 is in 5% of all rows; a site with 123 rows lists none with fewer than ten.
    assert schema["cp"].levels == ("2", "3", "4", "other")


def test_conflicts_are_cholesterol_and_what_was_not_measured(schema):
    missing = [c for c in schema.conflicts if c.problem == "mostly missing"]
    assert {(c.column, c.sites) for c in missing} == {
        ("ca", ("hungarian", "switzerland", "va")),
        ("thal", ("hungarian",)),
    }
    others = [c for c in schema.conflicts if c.problem != "mostly missing"]
    found = {conflict.sites[0]: conflict for conflict in others}
    assert set(found) == {"switzerland", "va"}
    assert {conflict.column for conflict in others} == {"chol"}
    assert all(conflict.problem == "suspicious value" for conflict in others)
    assert re.findall(r"\d+", found["switzerland"].sentence)[:2] == ["123", "0"]
    assert re.findall(r"\d+", found["va"].sentence)[:3] == ["49", "193", "0"]


@pytest.mark.filterwarnings("ignore::fedwad.DataWarning")
def test_zeros_that_are_missing_values(tables):
    """Once 0 is known to be missing, the mean is that of the patients who were measured."""
    schema = fedwad.schema(heart_files(), HEART_LABEL, missing={"chol": ["0"]})
    found = [conflict for conflict in schema.conflicts if conflict.column == "chol"]
    assert {(c.problem, c.column, c.sites[0]) for c in found} == {
        ("all missing", "chol", "switzerland")
    }
    values = np.concatenate([table["chol"].values for table in tables.values()])
    values = values[values > 0]
    assert schema["chol"].centre == pytest.approx(values.mean(), rel=1e-12)
    assert schema["chol"].scale == pytest.approx(values.std(), rel=1e-12)
    place = schema.feature_names.index("chol=missing")
    lost = {site: int(schema.encode(table)[:, place].sum()) for site, table in tables.items()}
    assert lost == {"cleveland": 0, "hungarian": 23, "switzerland": 123, "va": 56}


@pytest.mark.filterwarnings("ignore::fedwad.DataWarning")
def test_distances_are_those_of_columns_encoded_by_hand(tables):
    """Against pandas and scikit-learn on the pooled table, level by level."""
    import pandas as pd
    from sklearn.preprocessing import StandardScaler

    frames = {s: pd.read_csv(path, na_values="?") for s, path in heart_files().items()}
    pooled = pd.concat(frames.values(), keys=frames.keys()).drop(columns="num")
    pooled["chol"] = pooled["chol"].replace(0, np.nan)
    schema = fedwad.schema(heart_files(), HEART_LABEL, missing={"chol": ["0"]})
    parts = []
    for name in pooled:
        if name in CATEGORIES:
            hot = pd.get_dummies(
                pooled[name], dummy_na=schema[name].missing == "level", dtype=float
            )
            parts.append(hot.to_numpy() * np.sqrt(schema[name].weight / 2))
        else:
            scaled = StandardScaler().fit_transform(pooled[[name]])
            parts += [np.nan_to_num(scaled), np.isnan(scaled).astype(float)]
    stacked = pd.DataFrame(np.hstack(parts), index=pooled.index)
    for one, two in itertools.combinations(frames, 2):
        expected = _squared(stacked.loc[one].to_numpy(), stacked.loc[two].to_numpy())
        found = _squared(schema.encode(tables[one]), schema.encode(tables[two]))
        assert found == pytest.approx(expected, rel=1e-9)


def _squared(x, y):
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    return ot.emd2(a, b, ot.dist(x, y), numItermax=10**7)
