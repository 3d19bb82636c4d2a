"""`fedwad warm-up`: compile beforehand, for installers and container images."""

from __future__ import annotations

import time

from fedwad.cli.console import exit_on_error, print_json, print_text
from fedwad.cli.option_groups import Json
from fedwad.ot import warm_up as compile_all

__all__ = ["warm_up"]


@exit_on_error
def warm_up(as_json: Json = False) -> None:
    """Compile everything now, so that the first distance on this machine does not wait.

    For installers and container images: numba keeps the compiled code beside the package, or in
    NUMBA_CACHE_DIR.
    """
    started = time.perf_counter()
    names = compile_all()
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"functions": list(names), "seconds": seconds})
    else:
        print_text(f"{len(names)} functions are compiled ({seconds:.1f} s).")
