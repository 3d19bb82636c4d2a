"""Labelled atoms of a client: what the request may ask for, what leaves, and what a server
believes."""

from dataclasses import replace

import numpy as np
import pytest

from failing import fails
from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    Client,
    Dataset,
    Envelope,
    Failure,
    Labels,
    LabelsRequest,
    Policy,
    Prototypes,
    PrototypesRequest,
    pack,
    unpack,
)
from fedwad.messages.codec import check_reply
from fedwad.transport import Measure

RNG = np.random.default_rng(0)
POINTS, LABELS = (
    RNG.standard_normal((90, 3)),
    np.array(["cat", "dog", "eel"])[RNG.integers(0, 3, 90)],
)
ASKED = PrototypesRequest(9, "class", "equal", 0)


def client(labels=LABELS, policy=None, order=None, weights=None):
    order = np.arange(90) if order is None else order
    weights = None if weights is None else weights[order]
    return Client(Dataset(Measure(POINTS[order], weights), labels[order]), policy or Policy.open())


@pytest.mark.parametrize("atoms_per", ["class", "site"])
@pytest.mark.parametrize("weights", ["equal", "free"])
def test_one_reply_has_all_and_survives_the_wire(atoms_per, weights):
    request = PrototypesRequest(9, atoms_per, weights, 0)
    reply = client().answer(request)
    assert check_reply(request, reply) is None
    assert reply.points.shape == (9, 3)
    assert reply.names == ("cat", "dog", "eel")
    assert reply.complete
    travelled = unpack(pack(Envelope(reply))).content
    assert check_reply(request, travelled) is None
    for name in ("points", "weights", "labels"):
        np.testing.assert_array_equal(getattr(travelled, name), getattr(reply, name))


def test_the_atoms_of_a_name_are_those_of_its_samples():
    reply = client().answer(ASKED)
    for place, name in enumerate(reply.names):
        chosen = np.flatnonzero(name == LABELS)
        expected = POINTS[chosen].mean(axis=0)
        chosen_class = reply.labels == place
        mean = (
            reply.weights[chosen_class]
            @ reply.points[chosen_class]
            / reply.weights[chosen_class].sum()
        )
        np.testing.assert_allclose(mean, expected, atol=0.02)
        np.testing.assert_allclose(reply.weights[chosen_class].sum(), len(chosen) / 90)


@pytest.mark.parametrize("atoms_per", ["class", "site"])
def test_order_of_rows_and_kind_of_names_change_no_atom(atoms_per):
    request = PrototypesRequest(9, atoms_per, "equal", 0)
    numbers = np.unique(LABELS, return_inverse=True)[1] * 10
    replies = [
        client().answer(request),
        client(order=RNG.permutation(90)).answer(request),
        client(numbers).answer(request),
    ]
    for other in replies[1:]:
        np.testing.assert_array_equal(other.points, replies[0].points)
        np.testing.assert_array_equal(other.weights, replies[0].weights)
        np.testing.assert_array_equal(other.labels, replies[0].labels)
    assert replies[2].names == (0, 10, 20)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Policy(), ("kind-refused", "prototypes")),
        (Policy(["prototypes"]), ("withheld",)),
        (Policy(["prototypes"], classes=True, max_support=8), ("support-refused",)),
    ],
)
def test_policies_refuse_before_the_data_are_looked_at(policy, problem):
    asked = client(policy=policy)
    with fails(PolicyError, *problem):
        asked.answer(ASKED)
    assert asked.ledger.queries == 0


@pytest.mark.parametrize("atoms_per", ["class", "site"])
@pytest.mark.parametrize("weights", ["equal", "free"])
def test_each_atom_averages_as_many_samples_as_the_policy_asks_for(atoms_per, weights):
    labels = np.repeat(["common", "middle", "rare"], [60, 25, 5])
    asked = client(labels, Policy(["prototypes"], classes=True, min_cell_size=8))
    reply = asked.answer(PrototypesRequest(90, atoms_per, weights, 0))
    assert reply.names == ("common", "middle")
    assert not reply.complete
    entry = asked.ledger.entries[-1]
    assert entry.min_cell_size >= 8
    assert len(reply.points) <= 90 // 8
    if atoms_per == "class" and weights == "equal":
        assert np.bincount(reply.labels).tolist() == [60 // 8, 25 // 8]


def test_the_ledger_says_that_a_nearest_label_is_of_one_sample():
    asked = client()
    asked.answer(PrototypesRequest(3, "site", "equal", 0))
    assert asked.ledger.entries[-1].min_cell_size == 1
    asked.answer(PrototypesRequest(3, "class", "equal", 0))
    assert asked.ledger.entries[-1].min_cell_size > 1


def test_a_heavy_sample_does_not_hide_among_light_ones():
    weights = np.full(90, 1e-9)
    weights[np.flatnonzero(LABELS == "cat")[0]] = 1.0
    policy = Policy(["prototypes"], classes=True, min_cell_size=2)
    with fails(PolicyError, "small-cells"):  # the others are all but all minus that sample
        client(policy=policy, weights=weights).answer(ASKED)
    with fails(PolicyError, "small-cells"):
        client(policy=policy, weights=weights).answer(PrototypesRequest(1, "site", "equal", 0))


def test_no_class_of_enough_samples_is_refused():
    asked = client(policy=Policy(["prototypes"], classes=True, min_cell_size=80))
    with fails(PolicyError, "small-cells"):
        asked.answer(ASKED)


@pytest.mark.parametrize(
    "change",
    [
        {"size": 0},
        {"size": 2.5},
        {"size": True},
        {"atoms_per": "client"},
        {"masses": "heavy"},
        {"seed": -1},
        {"atoms_per": None},
    ],
)
def test_requests_that_make_no_sense(change):
    asked = client()
    with pytest.raises(InputError):
        asked.answer(replace(ASKED, **change))
    assert asked.ledger.queries == 0


def test_labels_are_needed():
    with fails(InputError, "missing-labels"):
        Client(Dataset(Measure(POINTS)), Policy.open()).answer(ASKED)


@pytest.mark.parametrize(
    "change",
    [
        {"points": np.full((9, 3), np.nan)},
        {"points": np.zeros((8, 3))},
        {"points": np.zeros((9, 3), dtype=np.float32)},
        {"weights": np.full(9, 1 / 3)},
        {"weights": -np.ones(9)},
        {"labels": np.full(9, 3)},
        {"labels": np.full(9, -1)},
        {"labels": np.zeros(8, dtype=np.int64)},
        {"labels": np.zeros(9)},
        {"names": ("dog", "cat", "eel")},
        {"names": ("cat", "dog", "dog")},
        {"names": ("cat", "dog", 3)},
        {"names": ()},
        {"names": ("cat", "dog", "e\nel")},
        {"complete": 1},
        {"points": None},
    ],
)
def test_the_server_believes_no_damaged_reply(change):
    reply = client().answer(ASKED)
    assert isinstance(check_reply(ASKED, replace(reply, **change)), Failure)


def test_classes_are_no_way_around_the_largest_support():
    asked = client(policy=Policy(["prototypes"], classes=True, min_cell_size=1, max_support=2))
    with fails(PolicyError, "support-refused"):
        asked.answer(replace(ASKED, size=1))
    assert len(asked.answer(PrototypesRequest(2, "site", "equal", 0)).points) == 2


def test_mutated_messages_get_nothing_forbidden(caplog):
    rng = np.random.default_rng(0)
    guarded = client(
        policy=Policy(["labels", "prototypes"], classes=True, max_support=9, min_cell_size=10)
    )
    messages = [
        pack(Envelope(request))
        for request in (ASKED, replace(ASKED, atoms_per="site"), LabelsRequest())
    ]
    answered = 0
    for number in range(600):
        message = bytearray(messages[number % 3])
        for place in rng.integers(0, len(message), rng.integers(1, 4)):
            message[place] = (
                rng.choice(bytearray(b'0123456789abcdefl,"}'))
                if rng.random() < 0.8
                else rng.integers(256)
            )
        reply = unpack(guarded.respond(bytes(message))).content
        assert isinstance(reply, Failure | Prototypes | Labels)
        if isinstance(reply, Failure):
            assert reply.code != "internal"
        elif isinstance(reply, Prototypes):
            answered += 1
            assert len(reply.points) <= 9
            assert guarded.ledger.entries[-1].min_cell_size >= 10
    assert answered
    assert not caplog.records


def test_more_atoms_than_asked_for_are_refused():
    reply = client().answer(ASKED)
    assert "more atoms" in check_reply(replace(ASKED, size=8), reply).sentence
    assert "more atoms" in check_reply(PrototypesRequest(2, "site", "equal", 0), reply).sentence
    few = client().answer(replace(ASKED, size=1))  # one a class at least
    assert len(few.points) == 3
    assert check_reply(replace(ASKED, size=1), few) is None
