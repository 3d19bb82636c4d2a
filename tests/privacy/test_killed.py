"""A node that is killed between spending and answering: the budget is never under-counted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_killed_node_never_forgets_what_it_spent(tmp_path):
    script = Path(__file__).with_name("spending_node.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "100"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 100
    assert found["under"] == 0
    assert found["paid"] >= found["answered"] > 0
    assert found["between"] > 0  # some were killed in between, or nothing was tested
