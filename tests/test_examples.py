"""The guides' scripts run as they stand, each in an empty folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(script, tmp_path):
    if script.stem == "boost":
        pytest.importorskip("torch", reason="the extra `learn` is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_each_guide_shows_its_script():
    guides = Path(__file__).parents[1] / "docs" / "guides"
    shown = {page.stem.replace("-", "_") for page in guides.glob("*.md")}
    assert shown == {script.stem for script in EXAMPLES}
    for page in guides.glob("*.md"):
        assert f'--8<-- "examples/{page.stem.replace("-", "_")}.py"' in page.read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning"
)  # of Jupyter's own parts
def test_the_notebook_runs(tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat

    place = Path(__file__).parents[1] / "examples" / "first_five_minutes.ipynb"
    notebook = nbformat.read(place, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    assert len(shown) == 6
    assert not any(output.output_type == "error" for output in shown)


def test_the_script_in_r_runs(tmp_path):
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    ready = [
        "Rscript",
        "-e",
        "quit(status = !requireNamespace('jsonlite', quietly = TRUE))",
    ]
    if subprocess.run(ready, check=False).returncode:
        pytest.skip("jsonlite is not installed in R")
    command = tmp_path / "fedwad"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedwad "$@"\n')
    command.chmod(0o755)
    paths = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    script = Path(__file__).parents[1] / "examples" / "from_r.R"
    done = subprocess.run(
        [shutil.which("Rscript"), str(script)],
        cwd=tmp_path,
        env=os.environ | {"PATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "oslo and paris differ" in done.stdout
    assert "age" in done.stdout
