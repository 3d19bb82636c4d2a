"""`python -m contrib.pot FILE`: the small-support solver in one file, without the package."""

import sys
from pathlib import Path

from contrib.pot.make import module

Path(sys.argv[1] if len(sys.argv) > 1 else "small_support.py").write_text(module())
