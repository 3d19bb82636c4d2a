"""Compiling beforehand."""

import json
import os
import subprocess
import sys

import pytest

from command_line import run
from fedwad.transport import announce_compiling, warm_up
from fedwad.transport.compiling import compiling_began

AGAIN = """
import numpy as np
from numba.core import event
compiled = []
class Count(event.Listener):
    def on_start(self, e): compiled.append(str(e.data["dispatcher"].py_func))
    def on_end(self, e): pass
event.register("numba:compile", Count())
import fedwad
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(2, 6000, 3))
fedwad.distance(X[:400], Y[:400])
fedwad.distance(X, Y, method="fedwad", support=20, rounds=2)
fedwad.matrix({f"s{k}": X[k * 60 : (k + 1) * 60] for k in range(35)})
fedwad.matrix({f"s{k}": X[k * 60 : (k + 1) * 60 + k] for k in range(35)})
print(compiled)
"""


def test_every_solver_is_compiled():
    names = warm_up()
    assert {"match", "push_excess", "run_auction", "assign", "run_auctions"} <= set(names)


def test_command():
    content = json.loads(run("warm-up", "--json").stdout)
    assert "match" in content["functions"]
    assert "compiled" in run("warm-up").stdout


def test_the_notice_is_given_once():
    given = []
    announce_compiling(lambda: given.append("earlier"))
    announce_compiling(lambda: given.append("later"))
    compiling_began()
    compiling_began()
    assert given == ["later"]


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path):
    variables = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    start = [sys.executable, "-c"]
    subprocess.run(
        [*start, "from fedwad.transport import warm_up; warm_up()"], env=variables, check=True
    )
    again = subprocess.run(
        [*start, AGAIN], env=variables, check=True, capture_output=True, text=True
    )
    assert again.stdout.strip() == "[]"
