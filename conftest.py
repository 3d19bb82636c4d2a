"""Examples run where the extra of their module is installed; with `--once` no test runs twice."""

from importlib.util import find_spec
from pathlib import Path

_BEHIND = {
    "torch": ["src/fedwad/learning/local.py", "src/fedwad/learning/training.py"],
    "psutil": ["src/fedwad/engines/_processes.py"],
}
collect_ignore_glob = [
    path for library, paths in _BEHIND.items() if not find_spec(library) for path in paths
]


def pytest_addoption(parser):
    parser.addoption(
        "--once",
        type=Path,
        metavar="FILE",
        help="leave out the tests that the file names, and add those that pass to it",
    )


def pytest_collection_modifyitems(config, items):
    path = config.getoption("--once")
    done = set(path.read_text().splitlines()) if path and path.exists() else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_configure(config):
    if config.getoption("--once") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Passed(config.getoption("--once")))


class _Passed:
    """Writes the names of the tests that pass into a file."""

    def __init__(self, path):
        self.path = path

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            with self.path.open("a") as file:
                file.write(report.nodeid + "\n")
