"""A private release takes the same steps whatever one record holds.

Time cannot be tested on a busy machine. Numbers of calls can, and what takes time is called.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad.federation import Client, Dataset, Policy, PrivateRequest
from fedwad.privacy import DP
from fedwad.transport import Measure

PACKAGE = str(Path(fedwad.__file__).parent)  # not the folder of a clone, which holds others too
POINTS = np.random.default_rng(0).standard_normal((200, 3))
LABELS = np.array([0, 1] * 100, dtype=object)
POLICY = Policy(("private",), epsilon=3.0, label_names=(0, 1))


def steps(points, labels, asked):
    """The calls of one release, of the package's functions and by them, by name."""
    client, found = Client(Dataset(Measure(points), labels), POLICY), []

    def count(frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            found.append(frame.f_code.co_qualname)
        elif event == "c_call":
            found.append(getattr(argument, "__qualname__", "?"))

    sys.setprofile(count)
    try:
        client.answer(asked)
    finally:
        sys.setprofile(None)
    return sorted(found)  # classes are numbered by their content, in any order


@pytest.mark.parametrize("labels", [None, (0, 1)], ids=["cells", "classes"])
def test_one_record_changes_no_step_of_a_release(labels):
    asked = PrivateRequest.of(DP(2.0, clip_norm=4.0, labels=labels))
    steps(POINTS, LABELS, asked)  # loads what is loaded late
    plain = steps(POINTS, LABELS, asked)
    for place, row in ((0, 0.0), (7, 1e99), (199, 5e-320), (3, -1e6)):
        odd = POINTS.copy()
        odd[place] = row
        assert steps(odd, LABELS, asked) == plain
    for label in ("?", None, 1.5, 10**40, "w" * 300):
        other = LABELS.copy()
        other[11] = label
        assert steps(POINTS, other, asked) == plain
