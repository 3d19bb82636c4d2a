"""Results in notebooks and pipelines."""

import json
import re
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError

PAGE = Path(__file__).parents[1] / "docs" / "pipelines.md"
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def results():
    data = {f"<b>{k}</b>": RNG.normal(k, 1, (100, 3)) for k in range(3)}
    one, two, _ = data.values()
    matrix = fedwad.matrix(data)
    reference = fedwad.Reference.from_data(one)
    return [
        fedwad.distance(one, two),
        fedwad.permutation_test(one, two),
        matrix,
        reference,
        reference.compare(two),
        fedwad.coreset(data, size=3, method="summary"),
    ]


def test_each_result_has_a_format_with_a_version(results):
    for result in results:
        content = json.loads(json.dumps(result.to_dict()))
        assert re.fullmatch(r"fedwad [a-z ]+ [0-9]+", content["format"])
        assert next(iter(content)) == "format"
        assert type(result).from_dict(content) == result
        with fails(InputError, "wrong-format"):
            type(result).from_dict(content | {"format": "fedwad something 9"})


def test_each_result_shows_itself_in_a_notebook(results):
    for result in results:
        shown = result._repr_html_()
        assert shown.startswith("<p><b>")
        assert "<b>0" not in shown  # names are escaped
    placed = results[2].add(RNG.normal(1, 1, (100, 3)), "new").placement("new")
    assert "<table>" in placed._repr_html_()


def test_the_recipe_for_mlflow_runs(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/store")
    block = next(b for b in re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL))
    with chdir(tmp_path):
        exec(compile(block, "recipe", "exec"), {"__name__": "__main__"})  # noqa: S102 - ours
        runs = mlflow.search_runs(experiment_names=["drift"], output_format="list")
    found = {run.info.run_name: run.data.metrics["drift"] for run in runs}
    assert found == {"may": 0.0, "june": 1.0}
