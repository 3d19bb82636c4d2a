"""Files of results that somebody changed: one sentence, or a result that can be shown."""

import copy
import random
import warnings

import numpy as np
import pytest

import fedwad
from fedwad.errors import FedwadError

RNG = np.random.default_rng(0)
SITES = {name: RNG.normal(k, 1, (60, 3)) for k, name in enumerate("abc")}
ODD = [
    *(None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), -0.5, 2**63),
    *("", "1", "\x1b[2J<script>", [], [1], [[1]], [None], [["a"]], [[[[]]]], {}, {"a": 1}),
]


def contents():
    fed = fedwad.local(SITES)
    return {
        "matrix": fedwad.matrix(fed).to_dict(),
        "distance": fedwad.distance(fed["a"], fed["b"]).to_dict(),
        "reference": fedwad.Reference.from_data(SITES["a"]).to_dict(),
    }


def places(content, start=()):
    yield start
    inside = content.items() if isinstance(content, dict) else ()
    if isinstance(content, list):
        inside = list(enumerate(content))[:2]
    for key, value in inside:
        yield from places(value, (*start, key))


def shown(kind, content):
    if kind == "matrix":
        found = fedwad.MatrixResult.from_dict(content)
        found.nearest(found.sites[0])
    elif kind == "distance":
        found = fedwad.DistanceResult.from_dict(content)
    else:
        found = fedwad.Reference.from_dict(content)
    repr(found)
    found._repr_html_()


@pytest.mark.filterwarnings("ignore")
def test_a_changed_file_is_one_sentence_or_a_result():
    chance, sentences = random.Random(0), []  # noqa: S311
    for kind, whole in contents().items():
        known = [place for place in places(whole) if place]
        for _ in range(150):
            content, place = copy.deepcopy(whole), chance.choice(known)
            inner = content
            for key in place[:-1]:
                inner = inner[key]
            if chance.random() < 0.8:
                inner[place[-1]] = copy.deepcopy(chance.choice(ODD))
            else:
                del inner[place[-1]]
            try:
                with warnings.catch_warnings():
                    shown(kind, content)
            except FedwadError as error:
                sentences.append(str(error))
    assert len(sentences) > 100
    assert not any("\n" in sentence for sentence in sentences)
