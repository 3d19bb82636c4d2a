"""Row 7 for every algorithm: whatever one site replies, an error concerns that site alone."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.errors import FedwadError
from fedwad.federation import (
    BundleReply,
    Client,
    Dataset,
    Description,
    Envelope,
    Policy,
    RemoteFederation,
    pack,
    unpack,
)
from fedwad.learning import train
from fedwad.transport import Measure

RNG = np.random.default_rng(0)
NAMES = "liar", "oslo", "paris", "rome"
HONEST = set(NAMES[1:])
LABELS = np.arange(40) % 2
DATA = {
    name: Dataset(Measure(RNG.standard_normal((40, 2)) + LABELS[:, None] + k), LABELS)
    for k, name in enumerate(NAMES)
}
NUMBERS = {
    int: (0, -1, 10**12, 10**400, True),
    float: (float("nan"), float("inf"), -1.0, 1e90, 1e300),
    str: ("", "\x1b[2J", "x" * 5000),
    bool: (None, 7),
    type(None): (1.0,),
}


class Wire(RemoteFederation):
    """Clients behind messages; `lie` changes every reply of the first one."""

    def __init__(self, lie):
        super().__init__(NAMES, timeout=5.0)
        self.clients = {name: Client(data, Policy.open()) for name, data in DATA.items()}
        self.lie = lie

    def exchange(self, messages, timeout):  # noqa: ARG002
        brought = {name: self.clients[name].respond(one) for name, one in messages.items()}
        envelope = unpack(brought["liar"]) if "liar" in brought else None
        if envelope is not None:
            content = envelope.content
            if isinstance(content, BundleReply):
                content = BundleReply(tuple(map(self.lie, content.replies)))
            else:
                content = self.lie(content)
            brought["liar"] = pack(replace(envelope, content=content))
        return brought


def arrays(array):
    """Arrays of other values and other shapes."""
    largest = np.finfo(array.dtype).max if array.dtype.kind == "f" else 0.0
    for value in (np.nan, np.inf, -1.0, largest / 1e10, largest, 0.0):
        yield np.full_like(array, value, dtype=array.dtype) if array.dtype.kind == "f" else array
    yield np.zeros((*array.shape, 1), dtype=array.dtype)
    yield np.concatenate([array, array]) if array.ndim else array
    yield array[:1] if array.ndim else array
    yield array.astype(np.float32)


def others(value):
    """What stands where `value` should."""
    if isinstance(value, np.ndarray):
        yield from arrays(value)
    elif isinstance(value, tuple):
        yield from ((), value[:1], (*value, *value), (10**30,), ("",))
    elif is_dataclass(value):
        yield from spoilt(value)
    else:
        yield from NUMBERS.get(type(value), ())


def spoilt(message):
    """Copies of a message with one field changed, at any depth."""
    for field in fields(message):
        for other in others(getattr(message, field.name)):
            try:
                changed = replace(message, **{field.name: other})
                pack(Envelope(changed))
            except (FedwadError, TypeError, ValueError):  # it cannot be built, nor sent
                continue
            yield changed


def lies(kind, run):
    """Federations in which the liar's replies of one kind have one other value each.

    A first run with honest replies counts in how many ways a reply can be changed.
    """
    seen = []

    def honest(message):
        if type(message).__name__ == kind:
            seen.append(message)
        return message

    run(Wire(honest))
    for k in range(sum(1 for _ in spoilt(seen[0]))):

        def lie(message, k=k):
            if type(message).__name__ != kind:
                return message
            return next((one for i, one in enumerate(spoilt(message)) if i == k), message)

        yield Wire(lie)


ALGORITHMS = {
    "matrix": lambda fed: fedwad.matrix(fed, method="summary"),
    "hub": lambda fed: fedwad.matrix(fed, method="hub", support=4, rounds=1),
    "pairs": lambda fed: fedwad.matrix(fed, method="pairs", support=4, rounds=1),
    "union": lambda fed: fedwad.coreset(fed, size=3, rounds=3),
    "summary": lambda fed: fedwad.coreset(fed, size=3, method="summary"),
    "direct": lambda fed: fedwad.coreset(fed, size=3, method="direct", rounds=2),
    "fedwad": lambda fed: fedwad.coreset(fed, size=3, method="fedwad", rounds=1),
    "classifier": lambda fed: fedwad.CoresetClassifier(2).fit(fed),
    "train": lambda fed: train(fed, rounds=1, epochs=1, fraction_train=1.0),
}
CASES = [
    ("direct", "ColumnsReply"),
    ("classifier", "Prototypes"),
    ("train", "Labels"),
    ("train", "TrainReply"),
]
SLOW = [
    ("train", "Description"),
    ("train", "Evaluation"),
    ("union", "CellSums"),
    ("union", "SummaryReply"),
    ("direct", "SummaryReply"),
    ("matrix", "SummaryReply"),
    ("hub", "ColumnsReply"),
    ("hub", "SummaryReply"),
    ("pairs", "TransportReply"),
    ("summary", "SummaryReply"),
    ("fedwad", "TransportReply"),
]


@pytest.mark.parametrize(
    ("algorithm", "kind"), CASES + [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]
)
def test_other_sites_get_their_result(algorithm, kind):
    if algorithm == "train":
        pytest.importorskip("torch", reason="the extra `learn` is not installed")
    tried = 0
    for federation in lies(kind, ALGORITHMS[algorithm]):
        found = ALGORITHMS[algorithm](federation)
        failed = getattr(found, "failed", None) or getattr(found, "failed_", {})
        assert not HONEST & set(failed)
        tried += 1
    assert tried > 1


@pytest.mark.parametrize(
    ("kind", "run"),
    [
        pytest.param(
            "SummaryReply",
            lambda fed: fedwad.distance(fed["liar"], fed["oslo"]),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SummaryReply",
            lambda fed: fedwad.permutation_test(fed["liar"], fed["oslo"]),
            marks=pytest.mark.slow,
        ),
        ("ColumnsReply", lambda fed: fedwad.permutation_test(fed["liar"], fed["oslo"])),
        pytest.param(
            "TransportReply",
            lambda fed: fedwad.distance(
                fed["liar"], fed["oslo"], method="fedwad", support=4, rounds=2
            ),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_between_two_sites_no_error_blames_the_honest_one(kind, run):
    for federation in lies(kind, run):
        try:
            run(federation)
        except FedwadError as error:
            assert "liar" in str(error) or "oslo" not in str(error)  # noqa: PT017


def test_without_a_majority_both_sites_are_named():
    """Nobody can say who is wrong when two sites have different features."""
    pytest.importorskip("torch", reason="the extra `learn` is not installed")

    def wider(message):
        return replace(message, features=3) if isinstance(message, Description) else message

    with fails(fedwad.InputError, "different-columns"):
        train(Wire(wider), rounds=1, clients=["liar", "oslo"])
