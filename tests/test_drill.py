"""The fault drill finds what docs/nodes.md says."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_drill_finds_what_is_documented():
    script = Path(__file__).parents[1] / "scripts" / "drill.py"
    done = subprocess.run(
        [sys.executable, str(script), "600"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT AS DOCUMENTED" not in done.stdout
