"""What a site that is curious, lies, or shares all it sees with others learns about the rest.

With one message from each site it is sent nothing that depends on them. In rounds it sees what the
honest server sends to everybody; with two sites that is the other's reply.
"""

from dataclasses import replace

import numpy as np
import pytest

import fedwad
from fedwad.federation import (
    CellsRequest,
    Client,
    Policy,
    RemoteFederation,
    SummaryReply,
    SummaryRequest,
    pack,
    read,
    unpack,
)
from oracles import options_of
from parameters import mostly_slow

RNG = np.random.default_rng(0)
NAMES = "curious", "oslo", "rome"
SITES = {name: RNG.standard_normal((240, 2)) + k for k, name in enumerate(NAMES)}
OTHER = {"oslo": RNG.standard_exponential((300, 2)), "rome": RNG.uniform(-9, 9, (280, 2))}
HUB = Policy(["describe", "columns", "cells"], min_cell_size=20, max_support=5, supports="one-size")


class Watched(RemoteFederation):
    """Sites behind messages. It keeps what the curious site is sent; `lie` changes its replies."""

    def __init__(self, data, policy, lie=None):
        super().__init__(tuple(data), timeout=5.0)
        self.clients = {name: Client(read(points), policy) for name, points in data.items()}
        self.lie, self.seen, self.sent = lie, [], {name: [] for name in data}

    def exchange(self, messages, timeout):  # noqa: ARG002
        brought = {}
        for name, message in messages.items():
            answer = unpack(self.clients[name].respond(message))
            if name == "curious":
                request = unpack(message).content
                self.seen.append(request)
                if self.lie is not None:
                    answer = replace(answer, content=self.lie(request, answer.content))
            self.sent[name].append(answer.content)
            brought[name] = pack(answer)
        return brought


ONE_MESSAGE = {
    "summary": lambda fed: fedwad.matrix(fed),
    "private": lambda fed: fedwad.matrix(fed, privacy=fedwad.DP(3, clip_norm=9)),
}


def without_units(request):
    """The request without the pooled mean and scale of all sites, which are public."""
    if not isinstance(request, SummaryRequest):
        return request
    return replace(request, centre=np.zeros(0), scale=np.zeros(0))


@pytest.mark.parametrize("question", mostly_slow(ONE_MESSAGE, 1))
def test_a_site_that_is_asked_once_is_sent_nothing_about_the_others(question):
    seen = []
    for others in ({}, OTHER):
        fed = Watched(SITES | others, Policy.open())
        ONE_MESSAGE[question](fed)
        seen.append([repr(without_units(request)) for request in fed.seen])
    assert seen[0] == seen[1]
    assert seen[0]


def supports(fed):
    return [one.support.points for one in fed.seen if isinstance(one, CellsRequest)]


def cells(fed, name):
    return [one.summary.means for one in fed.sent[name] if isinstance(one, SummaryReply)]


def test_of_two_sites_each_reads_the_reply_of_the_other_from_the_support():
    """Hence the sentence in the threat model; the other site's own policy limits what that is."""
    fed = Watched({name: SITES[name] for name in NAMES[:2]}, HUB)
    fedwad.matrix(fed, **options_of("hub", 5, rounds=3))
    own, places = cells(fed, "curious"), supports(fed)
    for k in range(1, len(places)):
        found = 2 * places[k] - own[k - 1]
        np.testing.assert_allclose(found, cells(fed, "oslo")[k - 1], atol=1e-9)


def test_of_three_sites_it_reads_a_sum():
    fed = Watched(SITES, HUB)
    fedwad.matrix(fed, **options_of("hub", 5, rounds=2))
    rest = 3 * supports(fed)[1] - cells(fed, "curious")[0]
    both = cells(fed, "oslo")[0] + cells(fed, "rome")[0]
    np.testing.assert_allclose(rest, both, atol=1e-9)


def test_a_liar_steers_the_support_and_gets_no_more_than_the_others_policy_gives():
    """It places the points where it likes, as a curious server may: each answer still averages
    `min_cell_size` records, and what the policy forbids is refused."""
    wanted = np.column_stack([np.linspace(-3, 3, 5), np.zeros(5)])

    def lie(request, answer):
        if not isinstance(request, CellsRequest):
            return answer
        guess = request.support.points  # of what the other says
        return replace(answer, summary=replace(answer.summary, means=2 * wanted - guess))

    fed = Watched({name: SITES[name] for name in NAMES[:2]}, HUB, lie)
    fedwad.matrix(fed, **options_of("hub", 5, rounds=4))
    steered = supports(fed)[-1]
    assert np.abs(steered - wanted).max() < np.abs(supports(fed)[0] - wanted).max()
    ledger = fed.clients["oslo"].ledger
    answered = [entry for entry in ledger.entries if entry.kind == "cells"]
    assert answered
    assert all(entry.min_cell_size >= 20 for entry in answered if entry.outcome == "answered")
