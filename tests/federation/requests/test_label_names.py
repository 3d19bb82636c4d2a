"""Names of labels: which may leave, as what, and that nothing else about them does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failing import fails
from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    Client,
    Dataset,
    Envelope,
    Labels,
    LabelsRequest,
    Policy,
    all_label_names,
    pack,
    unpack,
)
from fedwad.messages.codec import check_reply
from fedwad.messages.learning import check_names
from fedwad.transport import Measure, as_labels

POINTS = np.random.default_rng(0).standard_normal((60, 2))


def client(labels, policy=None, order=None):
    order = np.arange(len(labels)) if order is None else order
    labels = as_labels(labels)[order]
    return Client(Dataset(Measure(POINTS[: len(labels)][order]), labels), policy or Policy.open())


def names(labels, **options):
    return client(labels, **options).answer(LabelsRequest()).names


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b", "a"], ("a", "b")),
        (np.array([7, -3, 7, 1000]), (-3, 7, 1000)),
        (np.array([7, 3], dtype=np.uint8), (3, 7)),
        (np.array([True, False, True]), (False, True)),
        (np.array([2.0, 0.0, 2.0]), (0, 2)),  # as a table with a float column has them
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (["Größe", "年"], ("Größe", "年")),
        ([5, 5, 5], (5,)),
        (["1", "2"], ("1", "2")),  # words stay words
    ],
)
def test_each_type_of_label(labels, expected):
    found = names(labels)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))
    travelled = unpack(pack(Envelope(Labels(found)))).content
    travelled.check_values()
    assert travelled.names == expected
    assert list(map(type, travelled.names)) == list(map(type, expected))


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([1, "a"], "bad-labels"),
        ([True, 2], "bad-labels"),
        ([0.5, 1.0], "bad-labels"),
        ([np.inf, 1.0], "bad-labels"),
        (np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"), "bad-labels"),
        (np.array([b"a", b"b"]), "bad-labels"),
        (["a", None], "missing-labels"),
        (["a", "x" * 201], "bad-labels"),
        (["a", "b\n"], "bad-labels"),
        (["a", "\x1b[31m"], "bad-labels"),
        ([2**70, 1], "bad-labels"),
        (None, "missing-labels"),
    ],
)
def test_labels_that_have_no_plain_name(labels, problem):
    data = Dataset(Measure(POINTS[:2]), None if labels is None else as_labels(labels))
    with fails(InputError, problem) as caught:
        Client(data, Policy.open()).answer(LabelsRequest())
    assert "\n" not in str(caught.value)


def test_too_many_names_look_like_identifiers():
    with fails(InputError, "bad-labels"):
        check_names(tuple(range(10_001)))


@given(st.permutations(range(12)))
def test_the_order_of_rows_changes_nothing(order):
    labels = ["c", "a", "b"] * 4
    one, other = client(labels), client(labels, order=np.array(order))
    assert one.answer(LabelsRequest()).names == other.answer(LabelsRequest()).names
    assert one.ledger.entries[0].digest == other.ledger.entries[0].digest


def test_names_stand_beside_the_right_samples():
    labels = np.repeat(["z", "m", "a"], 20)
    data = Dataset(Measure(POINTS), labels).canonical()
    for code, name in enumerate(data.names):
        own = sorted(POINTS[labels == name].tolist())
        assert sorted(data.measure.points[data.labels == code].tolist()) == own
    again = data.canonical()
    assert again.names == data.names
    assert again.labels.tolist() == data.labels.tolist()


def test_by_default_and_without_classes_names_stay_inside():
    with fails(PolicyError, "kind-refused", "labels"):
        client(["a", "b"], Policy()).answer(LabelsRequest())
    strict = client(["a", "b"] * 20, Policy(["labels"]))
    with fails(PolicyError, "withheld"):
        strict.answer(LabelsRequest())
    assert strict.ledger.queries == 0


def test_a_rare_label_is_not_stated():
    policy = Policy(["labels"], classes=True, min_cell_size=10)
    asked = client(["common"] * 30 + ["rare"] * 9 + ["other"] * 10, policy)
    assert asked.answer(LabelsRequest()).names == ("common", "other")
    assert asked.ledger.entries[-1].min_cell_size == 10
    with fails(PolicyError, "small-cells"):
        client(["a", "b"], policy).answer(LabelsRequest())


def test_clients_must_name_their_labels_by_one_type():
    assert all_label_names({"a": ("x", "y"), "b": ("y", "z")}) == ("x", "y", "z")
    assert all_label_names({"a": (False,), "b": (True,)}) == (False, True)
    with fails(InputError, "bad-labels"):
        all_label_names({"paris": ("0", "1"), "oslo": (0, 1)})
    with fails(InputError, "bad-labels"):
        all_label_names({"paris": (0, 1), "oslo": (False, True)})


@pytest.mark.parametrize(
    "names", [(), ("a", "a"), ("a", 1), (1.5,), ("a\0",), ("x" * 201,), (None,), ("a", True)]
)
def test_the_server_takes_no_other_names(names):
    assert check_reply(LabelsRequest(), Labels(names)) is not None
