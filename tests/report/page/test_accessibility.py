"""axe-core finds nothing serious on a page of any kind, narrow and wide, light and dark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("browser")  # which skips without chromium
def test_axe_finds_nothing_serious(tmp_path):
    axe = Path(os.environ.get("FEDWAD_AXE", "node_modules/axe-core/axe.min.js"))
    if not axe.is_file():
        pytest.skip("there is no axe-core (npm install axe-core, or FEDWAD_AXE=axe.min.js)")
    script = Path(__file__).parents[3] / "scripts" / "look.py"
    words = [sys.executable, str(script), str(tmp_path), "--axe", str(axe)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
