"""Files of results that somebody changed: one sentence, or a result that can be shown."""

import copy
import json
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


KINDS = {
    "distance": fedwad.DistanceResult,
    "reference": fedwad.Reference,
    "test": fedwad.PermutationTestResult,
    "columns": fedwad.ColumnsResult,
    "coreset": fedwad.CoresetResult,
}


def contents():
    fed = fedwad.local(SITES)
    return {
        "matrix": fedwad.matrix(fed).to_dict(),
        "distance": fedwad.distance(fed["a"], fed["b"]).to_dict(),
        "embedding": fedwad.embed(fed).to_dict(),
        "reference": fedwad.Reference.from_data(SITES["a"]).to_dict(),
        "test": fedwad.permutation_test(fed["a"], fed["b"]).to_dict(),
        "columns": fedwad.columns(fed).to_dict(),
        "coreset": fedwad.coreset(fed, 3).to_dict(),
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
        found.cluster(2)
    elif kind == "embedding":
        found = fedwad.EmbeddingResult.from_dict(content)
        found.suggest()
        found.cluster(2)
    else:
        found = KINDS[kind].from_dict(content)
    repr(found)
    found._repr_html_()


@pytest.mark.filterwarnings("ignore")
def test_a_changed_file_is_one_sentence_or_a_result():
    chance, sentences, codes = random.Random(0), [], set()  # noqa: S311
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
                codes.add(error.code)
    assert len(sentences) > 200
    assert codes
    assert "" not in codes
    assert not any("\n" in sentence for sentence in sentences)


def entries(content):
    """The names of all entries, at any depth."""
    inside = content.values() if isinstance(content, dict) else content
    names = set(content) if isinstance(content, dict) else set()
    if not isinstance(content, dict | list):
        return names
    return names.union(*map(entries, inside))


def test_a_saved_test_has_the_units_of_the_question_only_where_sites_allow_to_keep_them(tmp_path):
    closed = fedwad.Policy(("describe", "columns", "summary"), keep=False)
    for policy in (closed, None):
        fed = fedwad.local(SITES, policy=policy)
        path = tmp_path / "test.json"
        path.unlink(missing_ok=True)
        fedwad.permutation_test(fed["a"], fed["b"]).save(path)
        assert not {"centre", "scale", "request"} & entries(json.loads(path.read_text()))
    matrix = {keep: tmp_path / f"{keep}.json" for keep in (True, False)}
    for keep, path in matrix.items():
        policy = fedwad.Policy(("describe", "columns", "summary"), keep=keep)
        fedwad.matrix(fedwad.local(SITES, policy=policy)).save(path)
        found = entries(json.loads(path.read_text()))
        assert ({"centre", "scale", "request"} <= found) == keep


@pytest.mark.parametrize("name", ["\x1b[31mparis", "\u202eparis", "paris\x9b2J"])
def test_names_of_sites_in_a_file_reach_a_terminal_as_text(name, tmp_path):
    fed = fedwad.local(SITES)
    content = fedwad.distance(fed["a"], fed["b"]).to_dict()
    content["sites"][0] = content["method"] = name
    (tmp_path / "distance.json").write_text(json.dumps(content))
    result = fedwad.DistanceResult.load(tmp_path / "distance.json")
    for text in (repr(result), result.sentence):
        assert text.replace("\n", "").isprintable()
        assert "paris" in text
