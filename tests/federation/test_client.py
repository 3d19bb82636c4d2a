"""The one door: nothing leaves but declared replies, past the policy, into the ledger."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

import fedwad
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.federation import (
    KINDS,
    CellsRequest,
    Client,
    Dataset,
    DescribeRequest,
    Envelope,
    Ledger,
    MomentsRequest,
    Policy,
    Reply,
    Request,
    SummaryRequest,
    TransportRequest,
    accept_data,
    local,
    pack,
    payload_bytes,
)
from fedwad.federation import (
    requests as kinds,
)
from fedwad.federation.codec import digest
from fedwad.federation.sent_replies import ReplyCache
from fedwad.ot import Measure

DATA = Dataset(Measure(np.random.default_rng(0).standard_normal((100, 3))))
SUPPORT = Measure(np.random.default_rng(1).standard_normal((5, 3)))
WEIGHTED = Measure(SUPPORT.points, [1, 2, 3, 4, 5])


def transport(support=SUPPORT, interpolant="barycentric"):
    return TransportRequest("run", support, 0.5, 2.0, interpolant, False)


EVERY_REQUEST = [
    DescribeRequest(),
    MomentsRequest(),
    SummaryRequest(5, "full", 2.0, 0),
    transport(),
    CellsRequest("run", SUPPORT, 2.0, "full"),
]


def test_by_default_nothing_is_answered():
    client = Client(DATA)
    for request in EVERY_REQUEST:
        with pytest.raises(PolicyError, match=f"kind '{request.kind}' are not allowed"):
            client.answer(request)
    assert [entry.outcome for entry in client.ledger.entries] == ["refused"] * len(EVERY_REQUEST)


def test_every_kind_of_request_is_known_to_policies():
    for base, registry in ((Request, kinds.REQUESTS), (Reply, kinds.REPLIES)):
        assert {
            kind for kind in base.__subclasses__() if kind.__module__.startswith("fedwad.")
        } == set(registry)
    # A private release and a private schema are one kind: both are paid for out of the budget.
    found = tuple(dict.fromkeys(request.kind for request in kinds.REQUESTS))
    assert Policy.open().allow == KINDS == found


def test_every_reply_is_recorded_with_its_size():
    client = Client(DATA, Policy.open())
    for request in EVERY_REQUEST:
        reply = client.answer(request)
        entry = client.ledger.entries[-1]
        assert (entry.kind, entry.outcome, entry.bytes) == (
            request.kind,
            "answered",
            payload_bytes(reply),
        )
        assert entry.min_cell_size >= 1 or request.kind == "describe"
    assert len(client.ledger) == len(EVERY_REQUEST)


@pytest.mark.parametrize(
    ("policy", "request_", "sentence"),
    [
        (Policy(KINDS), transport(interpolant="exact"), "reveals every sample"),
        (Policy(KINDS), transport(WEIGHTED), "equal weights"),
        (Policy(KINDS), CellsRequest("run", WEIGHTED, 2.0, "full"), "equal weights"),
        (Policy(KINDS, max_support=4), transport(), "up to 4"),
        (Policy(KINDS, max_support=4), SummaryRequest(5, "full", 2.0, 0), "up to 4"),
        (Policy(KINDS, min_cell_size=50), transport(), "fewer than the 50 samples"),
        (
            Policy(KINDS, min_cell_size=50),
            CellsRequest("run", SUPPORT, 2.0, "full"),
            "fewer than the 50 samples",
        ),
        (Policy(KINDS, min_cell_size=101), MomentsRequest(), "fewer than the 101 samples"),
        (
            Policy(KINDS, min_cell_size=101),
            SummaryRequest(1, "full", 2.0, 0),
            "fewer than the 101 samples",
        ),
        (Policy(KINDS, max_queries=0), MomentsRequest(), "all 0 queries"),
        (Policy(["summary"]), MomentsRequest(), "kind 'moments'"),
    ],
)
def test_each_rule_refuses_and_that_is_recorded(policy, request_, sentence):
    client = Client(DATA, policy)
    with pytest.raises(PolicyError, match=sentence):
        client.answer(request_)
    (entry,) = client.ledger.entries
    assert entry.outcome == ("withheld" if "fewer than" in sentence else "refused")
    assert entry.bytes == 0


def test_summaries_keep_the_policys_floor():
    client = Client(DATA, Policy(["summary"], min_cell_size=30))
    assert client.answer(SummaryRequest(50, "full", 2.0, 0)).summary.min_cell_size >= 30


def test_support_larger_than_the_data_counts_as_single_samples():
    client = Client(DATA, Policy(["transport"], min_cell_size=2))
    with pytest.raises(PolicyError, match="fewer than the 2 samples"):
        client.answer(transport(Measure(np.random.default_rng(2).standard_normal((150, 3)))))


def test_answers_are_counted_over_the_clients_life():
    client = Client(DATA, Policy(["moments", "summary"], max_queries=2))
    client.answer(MomentsRequest())
    client.answer(SummaryRequest(1, "auto", 2.0, 0))
    with pytest.raises(PolicyError, match="all 2 queries"):
        client.answer(SummaryRequest(2, "auto", 2.0, 0))


def test_the_same_question_counts_once_and_gets_the_same_reply():
    """A site was once locked out by analysts who asked for its one summary again and again."""
    client = Client(DATA, Policy(["moments", "transport"], max_queries=2))
    digests = [digest(client.answer(MomentsRequest())) for _ in range(5)]
    rounds = [digest(client.answer(replace(transport(), run=name))) for name in ("a", "b", "c")]
    assert (len(set(digests)), len(set(rounds))) == (1, 1)
    assert client.ledger.queries == 2
    assert [entry.outcome for entry in client.ledger.entries] == [
        "answered",
        *["repeated"] * 4,
        "answered",
        "repeated",
        "repeated",
    ]
    assert {entry.digest for entry in client.ledger.entries} == {
        digests[0],
        rounds[0],
    }  # nothing leaves unrecorded
    with pytest.raises(PolicyError, match="all 2 queries"):
        client.answer(transport(Measure(SUPPORT.points + 1e-9)))
    assert client.ledger.queries == 2


def test_a_repetition_that_turns_out_otherwise_counts_and_is_withheld_after_the_last_answer(
    monkeypatch,
):
    """A client that was restarted has no stored reply and computes it again."""
    ledger, rules = Ledger(), Policy(["moments"], max_queries=2)
    true = MomentsRequest.execute
    Client(DATA, rules, ledger).answer(MomentsRequest())

    def other(request, context, shift):
        moments, min_cell_size = true(request, context)
        return replace(moments, mean=moments.mean + shift), min_cell_size

    monkeypatch.setattr(
        MomentsRequest, "execute", lambda request, context: other(request, context, 1.0)
    )
    Client(DATA, rules, ledger).answer(MomentsRequest())
    assert ledger.queries == 2
    monkeypatch.setattr(
        MomentsRequest, "execute", lambda request, context: other(request, context, 2.0)
    )
    with pytest.raises(PolicyError, match="all 2 queries"):
        Client(DATA, rules, ledger).answer(MomentsRequest())
    assert [entry.outcome for entry in ledger.entries] == ["answered", "answered", "withheld"]


def test_a_repeated_request_is_answered_from_the_stored_reply(monkeypatch):
    client = Client(DATA, Policy(["moments", "transport"]))
    first = [digest(client.answer(request)) for request in (MomentsRequest(), transport())]

    def never(*_):
        raise AssertionError("executed again")

    monkeypatch.setattr(MomentsRequest, "execute", never)
    monkeypatch.setattr(TransportRequest, "execute", never)
    again = [digest(client.answer(request)) for request in (MomentsRequest(), transport())]
    assert again == first
    entries = client.ledger.entries
    assert [entry.outcome for entry in entries[2:]] == ["repeated", "repeated"]
    for one, two in ((entries[0], entries[2]), (entries[1], entries[3])):
        assert replace(one, outcome="repeated", when="") == replace(two, when="")


def test_a_stored_reply_that_was_changed_is_not_sent():
    client = Client(DATA, Policy(["moments"], max_queries=1))
    first = digest(client.answer(MomentsRequest()))
    (key,) = client._sent_replies.cache._replies
    client._sent_replies.cache.put(key, pack(Envelope(DescribeRequest())))
    assert digest(client.answer(MomentsRequest())) == first


def test_the_cache_of_replies_forgets_the_oldest():
    cache = ReplyCache(limit=10)
    for key, size in (("a", 4), ("b", 4), ("a", 5), ("c", 5), ("d", 11)):
        cache.put(key, bytes(size))
    assert [cache.get(key) for key in "abcd"] == [bytes(5), None, bytes(5), None]


def test_labels_are_part_of_the_fingerprint_of_the_data():
    """Other labels are other data: their names are not, which rows share one is."""
    labels = np.arange(100) % 2
    one = Client(Dataset(DATA.measure, labels)).fingerprint
    assert one != Client(DATA).fingerprint
    assert (
        one != Client(Dataset(DATA.measure, np.roll(labels, 1) * (np.arange(100) > 1))).fingerprint
    )
    assert one == Client(Dataset(DATA.measure, np.where(labels, "ill", "well"))).fingerprint


def test_other_labels_are_other_data_to_the_ledger():
    rules = Policy(["moments"], classes=True, max_queries=1, min_cell_size=1)
    ledger, labels = Ledger(), np.arange(100) % 2
    Client(Dataset(DATA.measure, labels), rules, ledger).answer(MomentsRequest("diag"))
    changed = Dataset(DATA.measure, np.arange(100) // 50)
    with pytest.raises(FederationError, match="data changed"):
        Client(changed, rules, ledger)
    assert accept_data(changed, rules, ledger)
    other = Client(changed, rules, ledger)
    with pytest.raises(PolicyError, match="all 1 queries"):
        other.answer(MomentsRequest("diag"))


def test_without_answers_nothing_is_repeated_either():
    ledger = Ledger()
    Client(DATA, Policy(["moments"]), ledger).answer(MomentsRequest())
    with pytest.raises(PolicyError, match="all 0 queries"):
        Client(DATA, Policy(["moments"], max_queries=0), ledger).answer(MomentsRequest())


@pytest.mark.parametrize("change", ["policy", "data"])
def test_under_other_rules_or_about_other_data_a_question_is_another(change):
    ledger, rules = Ledger(), Policy(["moments"], max_queries=1)
    Client(DATA, rules, ledger).answer(MomentsRequest())
    other = Dataset(Measure(DATA.measure.points + 1))
    if change == "data":
        accept_data(other, rules, ledger)
    client = (
        Client(DATA, replace(rules, min_cell_size=9), ledger)
        if change == "policy"
        else Client(other, rules, ledger)
    )
    with pytest.raises(PolicyError, match="all 1 queries"):
        client.answer(MomentsRequest())


def test_replies_that_depend_on_more_than_the_question_always_count():
    assert {request.kind for request in kinds.REQUESTS if not request.repeatable} == {
        "describe",
        "encode",
        "private",
        "train",
        "evaluate",
    }


def test_a_refusal_reaches_the_caller_of_distance():
    rng = np.random.default_rng(0)
    data = {"paris": rng.standard_normal((60, 2)), "oslo": rng.standard_normal((60, 2))}
    fed = local(data, policy=Policy(["summary"]))
    assert fedwad.distance(fed["paris"], fed["oslo"], method="summary").value > 0
    with pytest.raises(PolicyError, match="kind 'moments'"):
        fedwad.distance(fed["paris"], fed["oslo"], method="fedwad")


def test_wrong_requests():
    client = Client(DATA, Policy.open())
    with pytest.raises(InputError, match="same features"):
        client.answer(transport(Measure(np.zeros((2, 7)))))

    @dataclasses.dataclass(frozen=True)
    class Odd:
        kind = "moments"

    for odd in (Odd(), None, "moments"):
        with pytest.raises(FederationError, match="is not a request"):
            client.answer(odd)


def test_a_subclass_does_not_pass_for_another_kind():
    class Disguised(TransportRequest):
        kind = "moments"

    client = Client(DATA, Policy(["moments"]))
    with pytest.raises(FederationError, match="Disguised is not a request"):
        client.answer(Disguised("run", SUPPORT, 0.5, 2.0, "barycentric", True))
    forged = transport()
    object.__setattr__(forged, "kind", "moments")
    with pytest.raises(PolicyError, match="kind 'transport'"):
        client.answer(forged)


def test_a_support_cannot_lie_about_itself():
    class Liar(Measure):
        is_uniform = True

    client = Client(DATA, Policy(["cells"], min_cell_size=5))
    with pytest.raises(InputError, match="is a Liar"):
        client.answer(CellsRequest("run", Liar(SUPPORT.points, [1, 2, 3, 4, 5]), 2.0, "full"))
    smuggled = Measure(SUPPORT.points)
    object.__setattr__(smuggled, "points", np.full((5, 3), np.nan))
    with pytest.raises(InputError, match="NaN"):
        client.answer(CellsRequest("run", smuggled, 2.0, "full"))
    assert client.ledger.queries == 0


@pytest.mark.parametrize(
    "request_",
    [SummaryRequest(1, "spherical", 50.0, 0), CellsRequest("run", SUPPORT, 50.0, "full")],
)
def test_orders_other_than_two_are_refused(request_):
    with pytest.raises(PolicyError, match="answers p = 2 only"):
        Client(DATA, Policy(KINDS, min_cell_size=1)).answer(request_)


def test_a_policy_keeps_its_own_list():
    kinds = ["moments"]
    policy = Policy(kinds)
    kinds.append("cells")
    assert policy.allow == ("moments",)


def test_what_fails_after_a_look_at_the_data_counts_as_a_look():
    client = Client(DATA, Policy(["transport"], max_queries=1, min_cell_size=50))
    with pytest.raises(PolicyError, match="fewer than the 50"):
        client.answer(transport())
    with pytest.raises(
        PolicyError, match="fewer than the 50"
    ):  # the same question: not worked on, and not counted
        client.answer(transport())
    with pytest.raises(PolicyError, match="all 1 queries"):
        client.answer(transport(Measure(SUPPORT.points + 1)))
    assert client.ledger.queries == 1
    assert [entry.outcome for entry in client.ledger.entries] == ["withheld", "refused", "refused"]
    assert "fewer than the 50" in client.ledger.entries[1].reason
    assert "all 1 queries" in client.ledger.entries[2].reason


@pytest.mark.parametrize(
    "request_",
    [
        SummaryRequest(0, "full", 2.0, 0),
        SummaryRequest(1.5, "full", 2.0, 0),
        SummaryRequest(float("nan"), "full", 2.0, 0),
        SummaryRequest("3", "full", 2.0, 0),
        SummaryRequest(3, "half", 2.0, 0),
        SummaryRequest(3, "full", 0.5, 0),
        SummaryRequest(3, "full", float("nan"), 0),
        SummaryRequest(3, "full", 0, 0),
        SummaryRequest(3, "full", 2.0, -1),
        TransportRequest("run", SUPPORT, "0.5", 2.0, "barycentric", False),
        TransportRequest("run", SUPPORT, None, 2.0, "barycentric", False),
        TransportRequest("run", SUPPORT, 1.0, 2.0, "barycentric", False),
        TransportRequest("run", SUPPORT, np.array([0.5, 0.5]), 2.0, "barycentric", False),
        TransportRequest("run", SUPPORT, 0.5, np.complex64(2), "barycentric", False),
        TransportRequest("run", SUPPORT, 0.5, 2.0, "x", False),
        TransportRequest("run", SUPPORT.points, 0.5, 2.0, "barycentric", False),
        CellsRequest("run", None, 2.0, "full"),
        CellsRequest("run", SUPPORT, 2.0, None),
        CellsRequest([1], SUPPORT, 2.0, "full"),
        CellsRequest("r" * 65, SUPPORT, 2.0, "full"),
        CellsRequest("run", object.__new__(Measure), 2.0, "full"),
        TransportRequest("run", SUPPORT, 0.5, 2.0, "barycentric", "no"),
        TransportRequest("run", SUPPORT, 0.5, 1e5, "barycentric", False),
        TransportRequest("run", SUPPORT, 0.5, True, "barycentric", False),
    ],
)
def test_requests_that_make_no_sense_are_refused_before_the_data_are_looked_at(request_):
    client = Client(DATA, Policy.open())
    with pytest.raises(InputError):
        client.answer(request_)
    assert client.ledger.queries == 0
    assert [entry.outcome for entry in client.ledger.entries] == ["refused"]


@pytest.mark.parametrize("request_", EVERY_REQUEST[1:])
def test_a_heavy_sample_does_not_hide_among_light_ones(request_):
    weights = np.full(100, 1e-12)
    weights[7] = 1.0
    client = Client(Dataset(Measure(DATA.measure.points, weights)), Policy(KINDS, min_cell_size=2))
    with pytest.raises(PolicyError, match="fewer than the 2 samples"):
        client.answer(request_)


@pytest.mark.parametrize(
    "options",
    [
        {"allow": "summary"},
        {"allow": ["sumary"]},
        {"allow": None},
        {"allow": 5},
        {"exact_interpolant": "no"},
        {"orders": [0.5]},
        {"min_cell_size": 0},
        {"min_cell_size": float("nan")},
        {"max_support": 0},
        {"max_queries": -1},
    ],
)
def test_a_policy_that_would_protect_nothing_is_refused(options):
    with pytest.raises(InputError):
        Policy(**options)


def test_nothing_prints_samples():
    assert repr(DATA) == "Dataset(100 samples, 3 features)"
    assert repr(DATA.measure) == "Measure(100 points, 3 features)"


def test_a_site_shows_a_name_and_no_data():
    site = local({"paris": [[1.0], [2.0]]})["paris"]
    assert repr(site) == "Site('paris')"
    assert {field.name for field in dataclasses.fields(site)} == {"federation", "name"}


def test_ledgers_can_be_read():
    fed = local({"a": np.zeros((30, 1)), "b": np.ones((30, 1))})
    fedwad.distance(fed["a"], fed["b"], method="summary")
    assert [entry.kind for entry in fed.ledgers["a"].entries] == ["summary"]
    assert fed.ledgers["b"].queries == 1


def test_a_federation_needs_clients():
    with pytest.raises(FedwadError, match="at least one site"):
        local({})
