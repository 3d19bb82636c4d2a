"""The wheel and the source archive hold what is needed and nothing else, and work in an environment
that was empty."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(*words, cwd):
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: the sites differ
    return done.stdout


def environment(folder):
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive, and the wheel that is built from it: what the archive lacks, the wheel
    lacks too."""
    folder = tmp_path_factory.mktemp("built")
    python = environment(folder / "builder")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build"]
    if subprocess.run(pip, capture_output=True, check=False).returncode:
        pytest.skip("the package index cannot be reached")
    run(python, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def tracked(under):
    listed = subprocess.run(
        ["git", "ls-files", under],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is no clone")
    return {line for line in listed.stdout.splitlines() if (ROOT / line).exists()}


def test_the_wheel_is_the_package_and_nothing_else(built):
    names = {name for name in zipfile.ZipFile(built[0]).namelist() if ".dist-info/" not in name}
    assert names >= {name.removeprefix("src/") for name in tracked("src/fedwad")}
    names.remove("fedwad_command.py")  # the command, which catches Ctrl-C while the package loads
    assert all(name.startswith("fedwad/") and "__pycache__" not in name for name in names)
    assert "fedwad/py.typed" in names


def test_the_source_archive_has_no_measurements_and_no_data(built):
    with tarfile.open(built[1]) as archive:
        sizes = {
            member.name.partition("/")[2]: member.size for member in archive if member.isfile()
        }
    wanted = {
        name
        for folder in ("src", "paper", "tests", "docs", "examples", "benchmarks")
        for name in tracked(folder)
    }
    assert set(sizes) >= wanted | {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "pyproject.toml",
        "Makefile",
        "constraints.txt",
    }
    kept = tracked("paper/results")  # rows that need a machine few people have
    assert not [name for name in sizes if name.endswith("rows.jsonl") and name not in kept]
    assert not [name for name in sizes if name.endswith((".npz", ".npy", ".pyc", ".whl"))]
    assert max(sizes.values()) < 1_000_000
    assert sum(sizes.values()) < 20_000_000


def test_both_work_where_nothing_else_is_installed(built, tmp_path):
    wheel, source = built
    python = environment(tmp_path / "empty")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    fedwad = tmp_path / "empty" / "bin" / "fedwad"
    run(*pip, wheel, cwd=tmp_path)
    assert "distance" in run(fedwad, "--help", cwd=tmp_path)
    rng = np.random.default_rng(0)
    for name, shift in (("paris", 0), ("oslo", 2)):
        table = rng.standard_normal((60, 3)) + shift
        np.savetxt(
            tmp_path / f"{name}.csv", table, delimiter=",", header="age,dose,weight", comments=""
        )
    words = ["paris.csv", "oslo.csv", "--method", "summary", "--report", "two.html", "--json"]
    two = json.loads(run(fedwad, "distance", *words, cwd=tmp_path))
    assert two["lower"] <= two["value"] <= two["upper"]
    assert "<script" in (tmp_path / "two.html").read_text()
    found = json.loads(run(fedwad, "demo", "--json", cwd=tmp_path))
    assert found["rows"] == [303, 294, 123, 200]
    assert (tmp_path / "fedwad-demo.html").stat().st_size > 10_000

    run(*pip, "--force-reinstall", "--no-deps", source, cwd=tmp_path)
    place = Path(
        run(python, "-c", "import fedwad; print(fedwad.__path__[0])", cwd=tmp_path).strip()
    ).parent
    assert place.is_relative_to(tmp_path)
    with zipfile.ZipFile(wheel) as archive:  # the same files, so what works above works here
        names = [name for name in archive.namelist() if name.startswith("fedwad/")]
        assert all((place / name).read_bytes() == archive.read(name) for name in names)
    assert "distance" in run(fedwad, "--help", cwd=tmp_path)
