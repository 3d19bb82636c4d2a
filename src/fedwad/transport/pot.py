"""Compiled solvers of POT and SciPy, without the rest of their packages.

`import ot` loads PyTorch, JAX, scikit-learn and pandas where they are installed, which takes longer
than comparing four hospitals. The compiled module needs nothing of this: it only takes `ot.utils`
for functions that are not called here. `scipy.optimize` takes a tenth of that comparison.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

from fedwad.transport.measures import Floats, Indices

__all__ = ["linear_sum_assignment", "simplex"]

_NAME = "_fedwad_pot"  # a package that shares POT's files
_lock = Lock()


def simplex(
    a: Floats, b: Floats, cost: Floats, pivots: int
) -> tuple[Floats, Floats, Floats, str | None]:
    """The optimal plan, both potentials, and what POT warns about, or None."""
    with _lock:
        solver = _solver()
    cost = np.ascontiguousarray(cost, dtype=np.float64)
    plan, _, u, v, code = solver.emd_c(a, b, cost, pivots, 1)
    # Both have the same mean, as in `ot.emd`: a large constant in them would cost digits.
    shift = (u @ a - v @ b) / (a.sum() + b.sum())
    return plan, u - shift, v + shift, solver.check_result(code)


@cache
def _solver() -> Any:
    """The compiled module; it is POT's own if that is loaded, and both are one in a process."""
    spec = find_spec("ot")
    if "ot" in sys.modules or spec is None or not spec.submodule_search_locations:
        return import_module("ot.lp.emd_wrap")
    folder = spec.submodule_search_locations[0]
    for name, path in ((_NAME, folder), (f"{_NAME}.lp", f"{folder}/lp")):
        package = ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package
    utils: Any = ModuleType(f"{_NAME}.utils")
    utils.__getattr__ = lambda attribute: _later(attribute)
    sys.modules[utils.__name__] = utils
    return import_module(f"{_NAME}.lp.emd_wrap")


def _later(name: str) -> Any:
    """A function of `ot.utils`, which loads when it is called."""
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *args, **options: getattr(import_module("ot.utils"), name)(*args, **options)


def linear_sum_assignment(cost: Floats) -> tuple[Indices, Indices]:
    """Rows and columns of the cheapest assignment, by SciPy."""
    rows, columns = _assignment()(cost)
    return rows, columns


@cache
def _assignment() -> Any:
    """SciPy's function; its compiled module alone if that is where SciPy has it."""
    spec = find_spec("scipy")
    if "scipy.optimize" not in sys.modules and spec and spec.submodule_search_locations:
        folder = f"{spec.submodule_search_locations[0]}/optimize"
        found = PathFinder.find_spec("_lsap", [folder])
        if found is not None and found.loader is not None:
            module = module_from_spec(found)
            found.loader.exec_module(module)
            if hasattr(module, "linear_sum_assignment"):
                return module.linear_sum_assignment
    return import_module("scipy.optimize").linear_sum_assignment
