"""The solver of `fedwad.transport._small` and what it imports, as the source of one module."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

from contrib.pot import front
from fedwad.transport import _small, compiled
from fedwad.transport._small import levels, paths
from fedwad.transport.measures import row_slices
from fedwad.transport.plans import row_potentials

_MARK = "# --- solver ---"


def _body(module: ModuleType) -> str:
    """A module without its imports, wherever they stand; its text is a comment."""
    source = inspect.getsource(module)
    tree = ast.parse(source)
    lines = source.splitlines()
    imports = [one for one in ast.walk(tree) if isinstance(one, (ast.Import, ast.ImportFrom))]
    text = tree.body[0]
    assert isinstance(text, ast.Expr)  # every module has a docstring
    gone = {
        number
        for one in [*imports, text]
        for number in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }
    kept = [line for number, line in enumerate(lines, 1) if number not in gone]
    comment = [f"# {line}".rstrip() for line in (inspect.getdoc(module) or "").splitlines()]
    return "\n".join([*comment, "", *kept])


def module() -> str:
    """The source of the module; it needs NumPy and numba."""
    before, after = inspect.getsource(front).split(_MARK + "\n")
    before = before[: before.index("def small_support(")]
    solver = [
        *(inspect.getsource(one.py_func) for one in (compiled.least, compiled.first_at)),
        *map(inspect.getsource, (row_slices, row_potentials)),
        *map(_body, (paths, levels, _small)),
    ]
    after = after.replace("  # doctest: +SKIP", "")  # here the solver is missing
    return "\n\n".join([before, *solver, after])
