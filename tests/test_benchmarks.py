"""Benchmarks follow the package: all of them import, and their commands say what they do."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))
WITH_PARSER = [
    name for name in MODULES if "ArgumentParser(" in (ROOT / f"benchmarks/{name}.py").read_text()
]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_imports(name):
    module = import_module(f"benchmarks.{name}")
    assert module.__doc__


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "rivals", *(f".{name}" for name in WITH_PARSER)])
def test_a_benchmark_says_what_it_does(name):
    words = [f"benchmarks{name}"] if name[:1] in ("", ".") else ["benchmarks", name]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--help"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ") or name == ".rivals"
