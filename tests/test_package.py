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
    "ot",
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
ROOMS = [
    "errors",
    "_checks",
    "_blas",
    "_html",
    "_files",
    "_words",
    "tables",
    "ot",
    "_options",
    "methods",
    "datasets",
    "learning.local",
    "privacy",
    "federation",
    "_explain",
    "_distance",
    "_drift",
    "clusters",
    "_matrix",
    "_embedding",
    "_coreset",
    "learning",
    "_audit",
    "engines",
    "report",
    "experiments",
    "cli",
]


def test_import_loads_nothing_heavy():
    code = "import sys, fedwad; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert HEAVY.isdisjoint(loaded)


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
    packages = [path.parent.name for path in Path(fedwad.__file__).parent.glob("*/__init__.py")]
    assert [name for name in packages if not list((tests / name).rglob("test_*.py"))] == []
