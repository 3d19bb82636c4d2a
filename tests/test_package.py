"""The package as a whole: light to import, all names there, rooms in order."""

import ast
import importlib
import re
import subprocess
import sys
import types
from pathlib import Path

import fedwad

SOURCE = Path(fedwad.__file__).parent
HEAVY = {
    "scipy",
    "sklearn",
    "numba",
    "matplotlib",
    "pyarrow",
    "pandas",
    "narwhals",
    "torch",
    "typer",
    "rich",
}
HEAVY |= {"flwr", "nvflare", "pooch", "PIL", "ray", "threadpoolctl"}
# Libraries that extras bring, and those that come along with them.
EXTRAS = {"torch", "flwr", "nvflare", "ray", "psutil", "cryptography", "grpc", "openpyxl"}
EXTRAS |= {"pandas", "polars", "matplotlib", "duckdb", "geomloss", "mlflow"}
# Behind these modules is an extra: whoever asks for it gets there, nobody else.
DOORS = (
    "fedwad.engines.flower",
    "fedwad.engines.flare",
    "fedwad.engines._processes",  # processes of a simulated engine
    "fedwad.learning.local",
)
WALK = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Blocked())
import fedwad

for module in pkgutil.walk_packages(fedwad.__path__, "fedwad."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            print(module.name, error.name)
"""
ROOMS = [
    "errors",
    "_checks",
    "_blas",
    "_html",
    "_files",
    "_words",
    "transport",
    "statistics",
    "tables",
    "_options",
    "methods",
    "datasets",
    "learning.local",
    "privacy",
    "messages",
    "site",
    "federation",
    "compare",
    "coresets",
    "learning",
    "audit",
    "engines",
    "report",
    "cli",
]


def test_import_loads_nothing_heavy():
    code = "import sys, fedwad; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert HEAVY.isdisjoint(loaded)


def test_no_module_needs_an_extra_to_be_imported():
    printed = subprocess.run(
        [sys.executable, "-c", WALK, *EXTRAS], capture_output=True, text=True, check=True
    ).stdout
    needs = dict(line.split() for line in printed.splitlines())
    closed = {name for name in needs if not name.startswith(DOORS)}
    assert closed == set(), {name: needs[name] for name in closed}


def test_fixed_names_are_there():
    for name in fedwad.__all__:
        assert hasattr(fedwad, name)
    for name in (
        "wasserstein",
        "local",
        "distance",
        "Policy",
        "InputError",
        "PolicyError",
        "FederationError",
    ):
        assert name in fedwad.__all__


def test_each_room_imports_only_from_earlier_ones():
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if module.split(".")[0] in ("__init__", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedwad."):
                used = node.module.removeprefix("fedwad.")
                assert room(used) <= room(module), f"{path} imports {node.module}"


def room(module: str) -> int:
    """The place of a module's room; a sub-package that is listed is a room of its own."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next(ROOMS.index(name) for name in names if name in ROOMS)


def test_the_table_for_contributors_has_each_room_in_order():
    table = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    places = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `src/")]
    names = [name for place in places for name in re.findall(r"`(?:src/fedwad/)?([^`]+)`", place)]
    found = [name.removesuffix(".py").strip("/").replace("/", ".") for name in names]
    assert [name for name in found if name != "local"] == ROOMS


def test_no_name_hides_a_public_module():
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[0] in ("engines", "cli") or any(part.startswith("_") for part in parts):
            continue
        parent = importlib.import_module(".".join(("fedwad", *parts[:-1])))
        found = getattr(parent, parts[-1], None)
        assert found is None or isinstance(found, types.ModuleType), path


def test_each_package_has_a_folder_of_tests_of_its_name():
    tests = Path(__file__).parent
    packages = [
        path.parent.name for path in Path(fedwad.__file__).parent.glob("[a-z]*/__init__.py")
    ]
    assert [name for name in packages if not list((tests / name).rglob("test_*.py"))] == []


MISSING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"matplotlib", "pooch", "PIL", "torch"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without_extras(code: str) -> str:
    """What a program prints where the extras `plot`, `learn` and `paper` are not installed."""
    done = subprocess.run(
        [sys.executable, "-c", MISSING + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_and_commands_need_no_extra():
    """Except those behind the door of an extra: training on one machine, and the engines."""
    behind_doors = ("fedwad.learning.local", "fedwad.engines.flower", "fedwad.engines.flare")
    code = f"""
import importlib, pkgutil, fedwad
from fedwad.cli.app import app
from typer.testing import CliRunner
for found in pkgutil.walk_packages(fedwad.__path__, "fedwad."):
    if not found.name.startswith({behind_doors!r}) and not found.name.endswith("__main__"):
        importlib.import_module(found.name)
for command in app.registered_commands:
    name = command.name or command.callback.__name__.rstrip("_").replace("_", "-")
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, (name, result.output)
print("all")
"""
    assert without_extras(code).split() == ["all"]


def test_a_picture_without_matplotlib_is_one_sentence(tmp_path):
    code = f"""
import fedwad, numpy as np
rng = np.random.default_rng(0)
try:
    fedwad.coreset(rng.normal(size=(60, 3)), 3).plot({str(tmp_path / "a.svg")!r})
except fedwad.InputError as error:
    print(error.code)
"""
    assert without_extras(code).split() == ["missing-package"]


def test_a_function_stays_when_the_folder_of_its_name_is_imported():
    code = "import fedwad.audit.api, fedwad; assert callable(fedwad.audit), fedwad.audit"
    subprocess.run([sys.executable, "-c", code], check=True)
