"""Row 7: one client that lies, or fails, costs its own row of a matrix and nobody else's."""

import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import (
    Client,
    Dataset,
    Failure,
    Policy,
    RemoteFederation,
    SummaryReply,
    SummaryRequest,
    pack,
    unpack,
)
from fedwad.statistics.synthetic import count_synthetic_transports
from fedwad.transport import Measure
from oracles import options_of

RNG = np.random.default_rng(0)
NAMES = "liar", "oslo", "paris", "rome"
HONEST = NAMES[1:]
DATA = {name: Dataset(Measure(RNG.standard_normal((80, 3)) + k)) for k, name in enumerate(NAMES)}
CLIENTS = {name: Client(data, Policy.open()) for name, data in DATA.items()}


class Wire(RemoteFederation):
    """Clients behind messages; `lie` changes what the first one answers."""

    def __init__(self, lie, features=None):
        super().__init__(NAMES, timeout=5.0)
        self.clients = CLIENTS  # a request that comes again is answered by the stored reply
        self.lie, self.digests = lie, features or {}

    def exchange(self, messages, timeout):  # noqa: ARG002
        brought = {}
        for name, message in messages.items():
            answer = unpack(self.clients[name].respond(message))
            if name == "liar" and isinstance(answer.content, SummaryReply):
                answer = replace(answer, content=self.lie(answer.content))
            if name in self.digests:
                answer = replace(answer, features=self.digests[name])
            brought[name] = pack(answer)
        return brought


def in_summary(**changes):
    def lie(message):
        given = {key: value(message.summary) for key, value in changes.items()}
        return replace(message, summary=replace(message.summary, **given))

    return lie


def consistent(summary, factor):
    """A summary scaled as a whole, so that its numbers agree with each other."""
    return replace(
        summary,
        means=summary.means * factor,
        covariance=summary.covariance * factor**2,
        within_std=summary.within_std * factor,
    )


def widened(message):
    """Consistent in itself, with one feature more than the others have."""
    summary = message.summary
    means = np.column_stack([summary.means, np.zeros(len(summary.means))])
    covariance = np.zeros((4, 4))
    covariance[:3, :3] = summary.covariance
    return replace(message, summary=replace(summary, means=means, covariance=covariance))


def with_factors(message, rows):
    summary = message.summary
    d = summary.dimension
    factors = np.zeros((rows, d))
    diagonal = np.diag(summary.covariance).copy()
    return replace(message, summary=replace(summary, covariance=diagonal, factors=factors))


LIES = {
    "an input failure": lambda message: Failure("input", "the question is wrong."),  # noqa: ARG005
    "a policy failure": lambda message: Failure("policy", "not allowed."),  # noqa: ARG005
    "a failure of an unknown code": lambda message: Failure("no such code", "hm."),  # noqa: ARG005
    "another dimension": widened,
    "means of 1e100": lambda message: replace(message, summary=consistent(message.summary, 1e100)),
    "means of 1e150": lambda message: replace(message, summary=consistent(message.summary, 1e150)),
    "count = 10^400": in_summary(count=lambda _: 10**400),
    "count = 10^18": in_summary(count=lambda _: 10**18),
    "count = 10^7": in_summary(count=lambda _: 10**7),
    "count = -1": in_summary(count=lambda _: -1),
    "factors of 32 MB": lambda message: with_factors(message, 1_400_000),
    "a smallest cell above the count": in_summary(min_cell_size=lambda _: 10**6),
}


@cache
def without_the_liar():
    return fedwad.matrix(fedwad.local({name: DATA[name] for name in HONEST}), method="summary")


def check(result):
    """The honest pairs are there; whether the liar is left out or its numbers are used is the
    server's choice.
    """
    assert set(HONEST) <= set(result.sites)
    places = [result.sites.index(name) for name in HONEST]
    reference = without_the_liar()
    kept = [reference.sites.index(name) for name in HONEST]
    honest = result.value[np.ix_(places, places)]
    assert np.allclose(honest, reference.value[np.ix_(kept, kept)], rtol=1e-9)


@pytest.mark.parametrize("lie", LIES)
def test_a_matrix_goes_on_without_the_liar(lie):
    check(fedwad.matrix(Wire(LIES[lie]), method="summary"))


def test_large_factors_cost_the_server_no_memory():
    tracemalloc.start()
    try:
        fedwad.matrix(Wire(LIES["factors of 32 MB"]), method="summary")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300e6, f"{peak / 1e6:.0f} MB"


def test_a_site_that_claims_many_records_costs_as_much_as_one_of_two_thousand():
    pairs = [(0, 1), (0, 2), (1, 2)]
    honest = count_synthetic_transports([2000, 80, 80], pairs)
    assert count_synthetic_transports([10**12, 80, 80], pairs) == honest


def test_a_false_digest_that_comes_first_blames_no_honest_client():
    """Names of features are those of the majority, not those of whoever was first."""
    digests = dict.fromkeys(HONEST, "a" * 16) | {"liar": "b" * 16}
    result = fedwad.matrix(Wire(lambda message: message, digests), method="summary")
    assert set(result.sites) == set(HONEST)
    assert set(result.failed) == {"liar"}


@pytest.mark.parametrize("method", ["hub", "pairs"])
def test_rounds_go_on_without_a_client_that_says_input(method):
    result = fedwad.matrix(Wire(LIES["an input failure"]), **options_of(method, 5, rounds=2))
    assert set(HONEST) <= set(result.sites)


def test_a_distance_names_the_client_that_failed():
    """With two clients there is no majority: the error names who said what."""
    wire = Wire(LIES["an input failure"])
    with fails(fedwad.FederationError, "federation", "liar"):
        fedwad.distance(wire["liar"], wire["oslo"], method="summary")


def test_classes_and_cells_of_a_liar_are_bounded():
    """Two sites of 10,000 classes ended a matrix for all: 75 GB."""
    labels = np.repeat(np.arange(2), 40)
    site = Client(Dataset(DATA["oslo"].measure, labels), Policy.open())
    request = SummaryRequest(6, "diag", 2.0, 0, "diag", calibration=False)
    reply = site.answer(request)
    request.check(reply)

    def with_parts(parts):
        summary = replace(reply.summary, parts=parts, weights=np.full(len(parts), 1 / len(parts)))
        return replace(reply, summary=summary)

    small = replace(request, cells=3)
    assert sum(len(part.weights) for part in reply.summary.parts) > 3
    with fails(InputError, "bad-reply"):
        small.check(reply)
    with fails(InputError, "bad-reply"):
        with_parts(reply.summary.parts * 501).check_values()
