"""The way from `fedwad.matrix` to the summary of a client is short, and visits nothing twice."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import fedwad
from fedwad.federation.requests import summary

SOURCE = str(Path(fedwad.__file__).parent)
MOST_FRAMES = 8


def frames_above():
    """Our own functions on the stack, outermost first."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(SOURCE):
            found.append(f"{Path(code.co_filename).relative_to(SOURCE)} {code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def test_the_call_path_from_matrix_to_summarise(monkeypatch):
    asking, working = [], []
    submit, summarise = ThreadPoolExecutor.submit, summary.summarise

    def traced_submit(pool, *arguments):
        asking.append(frames_above())
        return submit(pool, *arguments)

    def traced_summarise(*arguments):
        working.append(frames_above())
        return summarise(*arguments)

    rng = np.random.default_rng(0)
    fed = fedwad.local({name: rng.standard_normal((40, 2)) for name in ("paris", "oslo")})
    monkeypatch.setattr(ThreadPoolExecutor, "submit", traced_submit)
    monkeypatch.setattr(summary, "summarise", traced_summarise)
    fedwad.matrix(fed, method="summary")
    path = [*asking[0], *working[0], "ot/_summary.py summarise"]
    assert len(path) <= MOST_FRAMES, path
    assert len(set(path)) == len(path), path
    assert path[-2].endswith("SummaryRequest.execute")
