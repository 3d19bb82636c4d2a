"""The way from `fedwad.matrix` to the summary of a client is short, and visits nothing twice."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import fedwad
from fedwad.site import context

SOURCE = str(Path(fedwad.__file__).parent)
MOST_FRAMES = 9  # one of them chooses between a table in memory and one that is read in batches


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
    submit, summarise = ThreadPoolExecutor.submit, context.summarise

    def traced_submit(pool, *arguments):
        asking.append(frames_above())
        return submit(pool, *arguments)

    def traced_summarise(*arguments):
        working.append(frames_above())
        return summarise(*arguments)

    rng = np.random.default_rng(0)
    fed = fedwad.local({name: rng.standard_normal((40, 2)) for name in ("paris", "oslo")})
    monkeypatch.setattr(ThreadPoolExecutor, "submit", traced_submit)
    monkeypatch.setattr(context, "summarise", traced_summarise)
    fedwad.matrix(fed, method="summary")
    asked = [one for one in asking if one[-1].endswith("LocalFederation.ask")]
    path = [*asked[-1], *working[0], "statistics/summaries.py summarise"]
    assert len(path) <= MOST_FRAMES, path
    assert len(set(path)) == len(path), path
    assert path[-2] == "site/context.py ClientContext.summarise"
