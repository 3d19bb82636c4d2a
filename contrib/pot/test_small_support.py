"""The module that is offered to POT, by itself, beside POT's own solver."""

import doctest
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import ot
import pytest

from contrib.pot.make import module

pytestmark = pytest.mark.slow  # it is compiled anew


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """The module, loaded from a file as one of another package would be."""
    path = tmp_path_factory.mktemp("pot") / "small_support.py"
    path.write_text(module())
    spec = importlib.util.spec_from_file_location("small_support", path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["small_support"] = loaded
    spec.loader.exec_module(loaded)
    yield loaded
    del sys.modules["small_support"]


def test_it_needs_nothing_of_the_package(offered):
    code = "import sys, small_support; print([n for n in sys.modules if 'fedwad' in n])"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(offered.__file__).parent,
    )
    assert found.stdout.strip() == "[]"


def test_its_example_runs(offered):
    assert doctest.testmod(offered) == (0, 1)


RNG = np.random.default_rng(0)
PROBLEMS = {
    "uniform": (np.full(300, 1 / 300), np.full(10, 0.1)),
    "weighted": (RNG.dirichlet(np.ones(300)), RNG.dirichlet(np.ones(10))),
    "weights of zero": (np.r_[np.zeros(5), np.full(295, 1 / 295)], np.r_[0, np.full(9, 1 / 9)]),
    "fewer samples than points": (np.full(4, 0.25), np.full(50, 0.02)),
    "very different sizes": (RNG.dirichlet(np.ones(400)), np.array([0.3, 0.7])),
    "a total that is not one": (np.full(60, 2.0), np.full(6, 20.0)),
}


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weights", PROBLEMS)
def test_plans_cost_what_the_network_simplex_finds(offered, weights, ties):
    a, b = PROBLEMS[weights]
    cost = np.random.default_rng(len(weights)).random((len(a), len(b)))
    cost = np.round(cost, 1) if ties else cost
    plan, log = offered.emd_small_support(a, b, cost, log=True)
    np.testing.assert_allclose(plan.sum(axis=1), a, atol=1e-12 * a.sum())
    np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-12 * a.sum())
    assert (plan >= 0).all()
    assert abs(log["gap"]) < 1e-11 * a.sum()
    assert (cost - log["u"][:, None] - log["v"] >= -1e-12).all()
    assert log["cost"] == pytest.approx(ot.emd2(a, b, cost, numItermax=10**7), rel=1e-9)


def test_potentials_of_a_similar_problem_start_the_search(offered):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(500, 2)), rng.normal(size=(20, 2))
    _, log = offered.emd_small_support([], [], ot.dist(x, z), log=True)
    moved = ot.dist(x, z + 0.01)
    plan = offered.emd_small_support([], [], moved, potentials_init=(log["u"], log["v"]))
    assert (plan * moved).sum() == pytest.approx(ot.emd2([], [], moved), rel=1e-10)


@pytest.mark.parametrize(
    ("a", "b", "cost"),
    [
        ([1.0], [2.0], [[0.0]]),
        ([], [], [[np.nan]]),
        ([-1.0, 2.0], [1.0], [[0.0], [0.0]]),
        ([1.0], [0.5, 0.5], [[0.0]]),
        ([], [], [0.0]),
    ],
)
def test_bad_input_is_refused(offered, a, b, cost):
    with pytest.raises(ValueError, match=r"\."):
        offered.emd_small_support(a, b, cost)
