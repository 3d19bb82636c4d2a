"""Without PyTorch (the extra `learn`) the modules that need it are not collected for their examples."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/fedwad/training/*", "src/fedwad/learning/_train.py"]
