"""Inside `single_threaded_blas`, matrix products run on one thread; outside, all is as it was."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

BEGINNING = """
import json, threading
import fedwad
from fedwad._blas import single_threaded_blas
from threadpoolctl import threadpool_info

def threads():
    return sorted({lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"})

seen = {"start": threads()}
"""


def seen(code, beginning="import scipy.linalg\n"):  # SciPy brings a BLAS of its own
    """What a fresh process of two threads a library notes in `seen`: in this one others may have
    set limits."""
    two = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            beginning + BEGINNING + textwrap.dedent(code) + "\nprint(json.dumps(seen))",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **two},
    )
    found = json.loads(done.stdout)
    if found.pop("start") != [2]:
        pytest.skip("the BLAS of this machine does not run on two threads")
    return found


def test_one_thread_inside_and_as_before_outside_nested_and_after_errors():
    found = seen("""
        with single_threaded_blas():
            seen["inside"] = threads()
            with single_threaded_blas():
                seen["nested"] = threads()
            seen["still inside"] = threads()
        seen["outside"] = threads()
        try:
            with single_threaded_blas(), single_threaded_blas():
                raise ZeroDivisionError
        except ZeroDivisionError:
            seen["after an error"] = threads()
        with single_threaded_blas():
            seen["inside again"] = threads()
        seen["outside again"] = threads()
    """)
    assert found == {
        "inside": [1],
        "nested": [1],
        "still inside": [1],
        "outside": [2],
        "after an error": [2],
        "inside again": [1],
        "outside again": [2],
    }


# Once failed with threadpoolctl 3.8, where only the thread that set a limit can lift it as long as
# it lives: when a thread that lives on entered first and left first, the process stays at one
# thread for good.
def test_whoever_leaves_last_restores():
    found = seen("""
        inside, both, alone, end = (threading.Event() for _ in range(4))

        def first():
            with single_threaded_blas():
                inside.set()
                both.wait(20)
            alone.set()
            end.wait(20)

        def second():
            inside.wait(20)
            with single_threaded_blas():
                both.set()
                alone.wait(20)
                seen["the last one inside"] = threads()
            seen["outside"] = threads()

        workers = [threading.Thread(target=work) for work in (first, second)]
        for worker in workers:
            worker.start()
        workers[1].join()
        seen["outside, seen from elsewhere"] = threads()
        end.set()
        workers[0].join()
        with single_threaded_blas():
            seen["inside again"] = threads()
        seen["outside again"] = threads()
    """)
    assert found == {
        "the last one inside": [1],
        "outside": [2],
        "outside, seen from elsewhere": [2],
        "inside again": [1],
        "outside again": [2],
    }


def test_threads_that_come_and_go_leave_nothing_behind():
    found = seen("""
        seen["inside"] = []

        def work():
            for _ in range(20):
                with single_threaded_blas():
                    seen["inside"] += threads()

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seen["inside"] = sorted(set(seen["inside"]))
        seen["outside"] = threads()
    """)
    assert found == {"inside": [1], "outside": [2]}


def test_a_matrix_leaves_threads_as_they_were():
    found = seen("""
        import numpy as np
        rng = np.random.default_rng(0)
        # no solver to load
        data = {name: rng.standard_normal((n, 1)) for name, n in (("a", 20), ("b", 30))}
        inside = {}
        fedwad.matrix(data, callback=lambda bit: bit.stage in inside or inside.update({bit.stage: threads()}))
        seen["inside"] = sorted({number for found in inside.values() for number in found})
        seen["outside"] = threads()
        fedwad.distance(data["a"], data["b"], method="summary")
        seen["after a distance"] = threads()
    """)
    assert found == {"inside": [1], "outside": [2], "after a distance": [2]}


# Once failed. Limits reach only the libraries that are loaded when `single_threaded_blas` is
# entered; SciPy has a BLAS of its own, and `import fedwad` does not load it: the first matrix of a
# process runs SciPy's eigh on all cores, later ones on one.
def test_libraries_that_are_loaded_inside_are_steady_too():
    found = seen(
        """
        with single_threaded_blas():
            import scipy.linalg
            seen["inside"] = threads()
        seen["outside"] = threads()
        """,
        beginning="",
    )
    assert found == {"inside": [1], "outside": [2]}
