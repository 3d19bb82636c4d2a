"""What can go wrong on the way from a client, each injected, each named, none taken for an answer.

The faults go into the messages of one client of three, between its door and the server. A distance
must end with an error that names the client and the reason; a matrix must go on without it and say
so. Faults of processes and networks are injected into real ones in tests/engines.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fedwad
from failing import assert_one_sentence, fails
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.federation import (
    BundleReply,
    Client,
    Dataset,
    Envelope,
    Failure,
    Labels,
    Policy,
    RemoteFederation,
    SummaryReply,
    TransportReply,
    pack,
    unpack,
)
from fedwad.messages import codec
from fedwad.transport import Measure
from oracles import options_of

RNG = np.random.default_rng(0)
NAMES = "paris", "oslo", "rome"
DATA = {name: Dataset(Measure(RNG.standard_normal((80, 3)) + k)) for k, name in enumerate(NAMES)}


class Wire(RemoteFederation):
    """Clients behind messages. `fault(client, message, answers so far)` gives what comes back from
    rome."""

    def __init__(self, fault=None, clients=None):
        super().__init__(NAMES, timeout=5.0)
        self.clients = clients or {name: Client(data, Policy.open()) for name, data in DATA.items()}
        self.fault, self.sent = fault, []

    def exchange(self, messages, timeout):
        assert timeout == 5.0
        brought = {}
        for name, message in messages.items():
            if name != "rome" or self.fault is None:
                brought[name] = self.clients[name].respond(message)
                continue
            answer = self.fault(self.clients[name], message, self.sent)
            if answer is not None:
                brought[name] = answer
        return brought


def changed(change):
    """A fault that rewrites the message of each answer."""

    def fault(client, message, sent):  # noqa: ARG001
        answer = unpack(client.respond(message))
        if isinstance(answer.content, BundleReply):
            return pack(
                replace(answer, content=BundleReply(tuple(map(change, answer.content.replies))))
            )
        return pack(replace(answer, content=change(answer.content)))

    return fault


def on_summary(**changes):
    """A fault that computes some fields of each summary anew."""

    def change(reply):
        if not isinstance(reply, SummaryReply):
            return reply
        new = {name: compute(reply.summary) for name, compute in changes.items()}
        kept = None if "means" in changes else reply.calibration  # it would be of other features
        return replace(reply, summary=replace(reply.summary, **new), calibration=kept)

    return changed(change)


def late(client, message, sent):
    sent.append(client.respond(message))
    return sent[-2] if len(sent) > 1 else pack(Envelope(unpack(sent[-1]).content, "an older round"))


def crashed(client, message, sent):  # noqa: ARG001
    client._context = None
    return client.respond(message)


def full_disk(client, message, sent):  # noqa: ARG001
    def record(*_, **__):
        raise FederationError("The site's ledger cannot be written.", "cannot-write")

    client.ledger.record = record
    return client.respond(message)


def named_otherwise(client, message, sent):  # noqa: ARG001
    return pack(replace(unpack(client.respond(message)), features="0123456789abcdef"))


FAULTS = {
    "says nothing": (lambda *_: None, "no-reply"),
    "is dead, the engine says": (
        lambda *_: Failure("silent", "no answer came within 5 seconds."),
        "no-reply",
    ),
    "answers a round late": (late, "bad-reply"),
    "sends random bytes": (lambda *_: b"\x00\x01garbage" * 9, "bad-reply"),
    "sends nothing but a start": (lambda *_: b"", "bad-reply"),
    "is cut off": (lambda client, message, _: client.respond(message)[:-9], "bad-reply"),
    "appends something": (
        lambda client, message, _: client.respond(message) + b"12345678",
        "bad-reply",
    ),
    "runs another version": (
        lambda client, message, _: (
            (answer := client.respond(message))[:6] + b"\x09\x00" + answer[8:]
        ),
        "wrong-version",
    ),
    "sends another kind of reply": (
        changed(lambda _: Labels((0, 1))),
        "bad-reply",
    ),
    "sends a request back": (lambda _client, message, _sent: message, "bad-reply"),
    "sends NaN": (on_summary(means=lambda s: np.full_like(s.means, np.nan)), "bad-reply"),
    "sends infinities": (
        on_summary(covariance=lambda s: np.full_like(s.covariance, np.inf)),
        "bad-reply",
    ),
    "sends another dimension": (
        on_summary(
            means=lambda s: s.means[:, :2], covariance=lambda s: np.asarray(s.within_std**2 / 2)
        ),
        "bad-reply",
    ),
    "sends a wrong shape": (
        on_summary(weights=lambda s: s.weights[:-1]),
        "bad-reply",
    ),
    "sends more cells than asked for": (
        on_summary(weights=lambda _: np.full(5000, 1 / 5000), means=lambda _: np.zeros((5000, 3))),
        "bad-reply",
    ),
    "sends negative weights": (
        on_summary(weights=lambda s: -s.weights),
        "bad-reply",
    ),
    "sends weights that sum to two": (on_summary(weights=lambda s: 2 * s.weights), "bad-reply"),
    "sends a negative variance": (
        on_summary(covariance=lambda s: np.asarray(-s.covariance)),
        "bad-reply",
    ),
    "sends a spread that is not its covariance's": (
        on_summary(within_std=lambda s: s.within_std / 2),
        "bad-reply",
    ),
    "counts no samples": (on_summary(count=lambda _: 0), "bad-reply"),
    "sends words for numbers": (on_summary(count=lambda _: "many"), "bad-reply"),
    "fails inside": (crashed, "site-failed"),
    "cannot write its ledger": (full_disk, "cannot-write"),
}


def distance(fed):
    return fedwad.distance(fed["paris"], fed["rome"], method="fedwad", support=4, rounds=3)


@pytest.mark.parametrize("name", FAULTS)
def test_a_distance_names_the_client_and_the_reason(name, caplog):
    fault, code = FAULTS[name]
    with fails(FedwadError, code, "rome"):
        distance(Wire(fault))
    assert len(caplog.records) == (name == "fails inside")  # reported in the client's own log only


@pytest.mark.parametrize("method", ["summary", "hub", "pairs"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_matrix_goes_on_without_the_client_and_says_so(name, method):
    fault, _ = FAULTS[name]
    result = fedwad.matrix(Wire(fault), **options_of(method, 4, rounds=2))
    assert result.sites == ("paris", "oslo")
    assert list(result.failed) == ["rome"]
    assert_one_sentence(result.failed["rome"])
    if method != "hub":  # the hub has moved with rome's first answers in it
        np.testing.assert_array_equal(result.value, without_rome(method).value)


@cache
def without_rome(method):
    return fedwad.matrix(Wire(), sites=["paris", "oslo"], **options_of(method, 4, rounds=2))


def test_answering_twice_changes_nothing_but_the_ledger():
    def twice(client, message, sent):  # noqa: ARG001
        client.respond(message)
        return client.respond(message)

    fed = Wire(twice)
    assert fedwad.matrix(fed).value.tolist() == fedwad.matrix(Wire()).value.tolist()
    entries = fed.clients["rome"].ledger.entries
    assert [e.outcome for e in entries if e.kind == "summary"] == ["answered", "repeated"]


def test_a_client_that_restarts_between_rounds_changes_nothing():
    def restarted(client, message, sent):  # noqa: ARG001
        return Client(DATA["rome"], Policy.open()).respond(message)

    one, two = distance(Wire(restarted)), distance(Wire())
    assert (one.value, one.lower, one.upper, one.fedwad) == (
        two.value,
        two.lower,
        two.upper,
        two.fedwad,
    )


def test_messages_and_the_process_give_the_same_bits():
    local = fedwad.local(DATA)
    for method in ("summary", "hub", "pairs"):
        one, two = (
            fedwad.matrix(Wire(), **options_of(method, 4)),
            fedwad.matrix(local, **options_of(method, 4)),
        )
        for table in ("value", "lower", "upper"):
            assert getattr(one, table).tobytes() == getattr(two, table).tobytes()
        assert one.traffic == two.traffic
    one, two = distance(Wire()), distance(local)
    assert (one.value, one.lower, one.upper, one.fedwad) == (
        two.value,
        two.lower,
        two.upper,
        two.fedwad,
    )
    assert one.support.points.tobytes() == two.support.points.tobytes()


def test_an_oversized_message_is_not_read(monkeypatch):
    monkeypatch.setattr(codec, "MAX_MESSAGE_BYTES", 20_000)
    huge = changed(
        lambda reply: (
            replace(reply, interpolant=Measure(np.ones((4000, 3))))
            if isinstance(reply, TransportReply)
            else reply
        )
    )
    with fails(FederationError, "bad-reply", "rome"):
        distance(Wire(huge))


def test_other_names_of_features_are_noticed():
    def by_column(client, message, sent):
        return named_otherwise(client, message, sent)

    clients = {
        name: Client(Dataset(data.measure, None, ("a", "b", "c")), Policy.open())
        for name, data in DATA.items()
    }
    found = fedwad.matrix(Wire(by_column, clients))
    assert list(found.failed) == ["rome"]
    assert "its features, or their schema, are not the most frequent ones" in found.failed["rome"]
    names = dict(
        zip(DATA, (None, ("a", "b", "c"), ("a", "b", "d")), strict=True)
    )  # the first has none
    clients = {
        name: Client(Dataset(DATA[name].measure, None, names[name]), Policy.open()) for name in DATA
    }
    with fails(InputError, "different-columns", "oslo"):
        fedwad.matrix(Wire(clients=clients))


def test_a_policy_that_refuses_is_named_and_recorded():
    clients = {name: Client(data, Policy.open()) for name, data in DATA.items()}
    clients["rome"] = Client(DATA["rome"], Policy(("summary",)))
    with fails(PolicyError, "kind-refused", "rome"):
        distance(Wire(clients=clients))
    assert [entry.outcome for entry in clients["rome"].ledger.entries] == ["refused"]
    result = fedwad.matrix(Wire(clients=clients), method="hub", support=4)
    assert "not allowed" in result.failed["rome"]


def test_too_few_left_is_an_error():
    deaf = Wire(lambda *_: None)
    deaf.exchange = lambda messages, timeout: {}  # noqa: ARG005
    with fails(FederationError, "no-reply", "paris"):
        fedwad.matrix(deaf)


def test_an_engine_may_bring_any_kind_of_bytes():
    for kind in (bytearray, memoryview):
        wire = Wire(lambda client, message, _, kind=kind: kind(client.respond(message)))
        assert fedwad.matrix(wire).failed == {}


def test_an_engine_that_brings_nothing():
    wire = Wire()
    wire.exchange = lambda messages, timeout: None  # noqa: ARG005
    with fails(FederationError, "bad-message", "exchange", "None"):
        fedwad.matrix(wire)
    wire.exchange = lambda messages, timeout: dict.fromkeys(messages)  # noqa: ARG005
    with fails(FederationError, "no-reply", "paris"):
        fedwad.matrix(wire)
