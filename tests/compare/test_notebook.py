"""What notebooks show of results: a table each, and a frame only with pandas."""

import sys

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad import InputError


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(0)
    return {
        name: pd.DataFrame(
            {"age": rng.normal(50 + 20 * k, 9, 80), "sex": rng.choice(["f", "m"], 80)}
        )
        for k, name in enumerate(("oslo", "paris", "rome"))
    }


def test_every_result_has_a_table(sites):
    fed = fedwad.local(sites)
    m = fedwad.matrix(fed)
    points = fedwad.coreset(fed, size=3, method="summary")
    shown = {
        "heterogeneity": m.heterogeneity,
        "rome": m.eccentricity,
        "eigenvalues": m.suggest(),
        "smallest possible": m.test,
        points.rows[0]["age"]: points,
    }
    for word, result in shown.items():
        html = result._repr_html_()
        assert "<table>" in html
        assert word in html


def test_a_fitted_classifier_says_how_small_it_is_and_decodes_its_atoms(sites):
    fed = fedwad.local(sites, label_column="sex")
    model = fedwad.CoresetClassifier(size=4)
    assert repr(model) == "CoresetClassifier(size=4)"
    model.fit(fed)
    assert f"{len(model.points_)} atoms of 3 sites" in repr(model)
    frame = model.to_frame()
    assert list(frame) == ["site", "label", "weight", "age"]
    assert frame.groupby("site")["age"].mean().between([40, 60, 80], [60, 80, 100]).all()
    arrays = {name: (X[["age"]].to_numpy(), X["sex"].to_numpy()) for name, X in sites.items()}
    unnamed = fedwad.CoresetClassifier(size=4).fit(arrays).to_frame()
    assert list(unnamed) == ["site", "label", "weight", 0]


def test_a_frame_without_pandas_says_how_to_get_it(sites, monkeypatch):
    m = fedwad.matrix({name: table[["age"]].to_numpy() for name, table in sites.items()})
    monkeypatch.setitem(sys.modules, "pandas", None)
    with fails(InputError, "missing-package", "pandas"):
        m.to_frame()


def test_a_coreset_is_a_figure_without_a_file():
    points = fedwad.coreset(np.random.default_rng(0).normal(size=(60, 3)), 3)
    assert len(points.plot().axes[0].collections) == 1
