"""Without PyTorch (the extra `learn`) the modules that need it are not collected for their
examples."""

from importlib.util import find_spec

_NEED_TORCH = [
    "src/fedwad/learning/local/*",
    "src/fedwad/learning/_train.py",
    "src/fedwad/experiments/_boosting_*",
]
collect_ignore_glob = [] if find_spec("torch") else _NEED_TORCH
