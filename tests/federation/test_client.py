"""The one door: nothing leaves but declared replies, past the policy, into the ledger."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.federation import (
    KINDS,
    CellsRequest,
    Client,
    ColumnsRequest,
    Dataset,
    DescribeRequest,
    Envelope,
    Ledger,
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
from fedwad.messages import codec as kinds
from fedwad.messages.codec import digest
from fedwad.site import answers
from fedwad.transport import Measure

DATA = Dataset(Measure(np.random.default_rng(0).standard_normal((100, 3))))
SUPPORT = Measure(np.random.default_rng(1).standard_normal((5, 3)))
WEIGHTED = Measure(SUPPORT.points, [1, 2, 3, 4, 5])


def transport(support=SUPPORT, interpolant="barycentric", samples=None):
    return TransportRequest("run", support, 2.0, 0.5, interpolant, False, samples=samples)


EVERY_REQUEST = [
    DescribeRequest(),
    ColumnsRequest(),
    SummaryRequest(5, "full", 2.0, 0),
    transport(),
    CellsRequest("run", SUPPORT, 2.0, "full"),
]


def test_by_default_nothing_is_answered():
    client = Client(DATA)
    for request in EVERY_REQUEST:
        with fails(PolicyError, "kind-refused", request.kind):
            client.answer(request)
    assert [entry.outcome for entry in client.ledger.entries] == ["refused"] * len(EVERY_REQUEST)


def test_a_client_is_made_of_data_that_were_read():
    with fails(InputError, "bad-option", "a ndarray", "read"):
        Client(np.zeros((3, 2)))


def test_every_kind_of_request_is_known_to_policies():
    for base, registry in ((Request, kinds.REQUESTS), (Reply, kinds.REPLIES)):
        known = base.__subclasses__()
        known += [kind for parent in known for kind in parent.__subclasses__()]
        assert {
            kind
            for kind in known
            if kind.__module__.startswith("fedwad.") and not kind.__subclasses__()
        } == set(registry)
    # A private release and a private schema are one kind: both are paid for out of the budget.
    found = tuple(dict.fromkeys(request.kind for request in kinds.REQUESTS))
    assert Policy.open().allow == KINDS == found


def test_the_receipt_says_that_a_reply_is_about_some_rows():
    client = Client(DATA, Policy(KINDS, supports="any"))
    for samples in (None, 60, 60):
        client.answer(transport(samples=samples))
    said = [entry.content.startswith("about random rows; ") for entry in client.ledger.entries]
    assert said == [False, True, True]


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
    ("policy", "request_", "problem"),
    [
        (Policy(KINDS), transport(interpolant="exact"), ("withheld",)),
        (Policy(KINDS), transport(samples=20), ("withheld",)),
        (Policy(KINDS), transport(WEIGHTED), ("support-refused",)),
        (Policy(KINDS), CellsRequest("run", WEIGHTED, 2.0, "full"), ("support-refused",)),
        (Policy(KINDS, max_support=4), transport(), ("support-refused",)),
        (Policy(KINDS, max_support=4), SummaryRequest(5, "full", 2.0, 0), ("support-refused",)),
        (Policy(KINDS, min_cell_size=50), transport(), ("small-cells",)),
        (
            Policy(KINDS, min_cell_size=50),
            CellsRequest("run", SUPPORT, 2.0, "full"),
            ("small-cells",),
        ),
        (Policy(KINDS, min_cell_size=101), ColumnsRequest(), ("small-cells",)),
        (
            Policy(KINDS, min_cell_size=101),
            SummaryRequest(1, "full", 2.0, 0),
            ("small-cells",),
        ),
        (Policy(KINDS, max_queries=0), ColumnsRequest(), ("too-many-queries",)),
        (Policy(["summary"]), ColumnsRequest(), ("kind-refused", "columns")),
    ],
)
def test_each_rule_refuses_and_that_is_recorded(policy, request_, problem):
    client = Client(DATA, policy)
    with fails(PolicyError, *problem):
        client.answer(request_)
    (entry,) = client.ledger.entries
    assert entry.outcome == ("withheld" if "small-cells" in problem else "refused")
    assert entry.bytes == 0


def test_summaries_keep_the_policys_floor():
    client = Client(DATA, Policy(["summary"], min_cell_size=30))
    assert client.answer(SummaryRequest(50, "full", 2.0, 0)).summary.min_cell_size >= 30


def test_support_larger_than_the_data_counts_as_single_samples():
    client = Client(DATA, Policy(["transport"], min_cell_size=2))
    with fails(PolicyError, "small-cells"):
        client.answer(transport(Measure(np.random.default_rng(2).standard_normal((150, 3)))))


def test_answers_are_counted_over_the_clients_life():
    client = Client(DATA, Policy(["columns", "summary"], max_queries=2))
    client.answer(ColumnsRequest())
    client.answer(SummaryRequest(1, "auto", 2.0, 0))
    with fails(PolicyError, "too-many-queries"):
        client.answer(SummaryRequest(2, "auto", 2.0, 0))


def test_the_same_question_counts_once_and_gets_the_same_reply():
    """A site was once locked out by analysts who asked for its one summary again and again."""
    client = Client(DATA, Policy(["columns", "transport"], max_queries=2))
    digests = [digest(client.answer(ColumnsRequest())) for _ in range(5)]
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
    with fails(PolicyError, "too-many-queries"):
        client.answer(transport(Measure(SUPPORT.points + 1e-9)))
    assert client.ledger.queries == 2


def test_a_repetition_that_turns_out_otherwise_counts_and_is_withheld_after_the_last_answer(
    monkeypatch,
):
    """A client whose stored reply was removed to make room computes it again."""
    monkeypatch.setattr(Ledger, "stored_reply", lambda *_: None)
    ledger, rules = Ledger(), Policy(["columns"], max_queries=2)
    true = answers.execute
    Client(DATA, rules, ledger).answer(ColumnsRequest())

    def other(request, context, shift):
        reply, min_cell_size = true(request, context)
        columns = tuple(
            replace(s, moments=(s.mean + shift, s.sum_of_squares)) for s in reply.profile.columns
        )
        return replace(reply, profile=replace(reply.profile, columns=columns)), min_cell_size

    monkeypatch.setattr(answers, "execute", lambda request, context: other(request, context, 1.0))
    Client(DATA, rules, ledger).answer(ColumnsRequest())
    assert ledger.queries == 2
    monkeypatch.setattr(answers, "execute", lambda request, context: other(request, context, 2.0))
    with fails(PolicyError, "too-many-queries"):
        Client(DATA, rules, ledger).answer(ColumnsRequest())
    assert [entry.outcome for entry in ledger.entries] == ["answered", "answered", "withheld"]


def test_a_repeated_request_is_answered_from_the_stored_reply(monkeypatch):
    client = Client(DATA, Policy(["columns", "transport"]))
    first = [digest(client.answer(request)) for request in (ColumnsRequest(), transport())]

    def never(*_):
        raise AssertionError("executed again")

    monkeypatch.setattr(answers, "execute", never)
    monkeypatch.setattr(answers, "execute", never)
    again = [digest(client.answer(request)) for request in (ColumnsRequest(), transport())]
    assert again == first
    entries = client.ledger.entries
    assert [entry.outcome for entry in entries[2:]] == ["repeated", "repeated"]
    for one, two in ((entries[0], entries[2]), (entries[1], entries[3])):
        assert replace(one, outcome="repeated", when="") == replace(two, when="")


def test_a_stored_reply_that_was_changed_is_not_sent():
    client = Client(DATA, Policy(["columns"], max_queries=1))
    first = digest(client.answer(ColumnsRequest()))
    key = client.ledger.entries[0].request
    with client.ledger.lock():
        client.ledger.store_reply(key, pack(Envelope(DescribeRequest())), is_release=False)
    assert digest(client.answer(ColumnsRequest())) == first


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
    rules = Policy(["columns"], classes=True, max_queries=1, min_cell_size=1)
    ledger, labels = Ledger(), np.arange(100) % 2
    Client(Dataset(DATA.measure, labels), rules, ledger).answer(ColumnsRequest())
    changed = Dataset(DATA.measure, np.arange(100) // 50)
    with fails(FederationError, "changed-data"):
        Client(changed, rules, ledger)
    assert accept_data(changed, rules, ledger)
    other = Client(changed, rules, ledger)
    with fails(PolicyError, "too-many-queries"):
        other.answer(ColumnsRequest())


def test_without_answers_nothing_is_repeated_either():
    ledger = Ledger()
    Client(DATA, Policy(["columns"]), ledger).answer(ColumnsRequest())
    with fails(PolicyError, "too-many-queries"):
        Client(DATA, Policy(["columns"], max_queries=0), ledger).answer(ColumnsRequest())


@pytest.mark.parametrize("change", ["policy", "data"])
def test_under_other_rules_or_about_other_data_a_question_is_another(change):
    ledger, rules = Ledger(), Policy(["columns"], max_queries=1)
    Client(DATA, rules, ledger).answer(ColumnsRequest())
    other = Dataset(Measure(DATA.measure.points + 1))
    if change == "data":
        accept_data(other, rules, ledger)
    client = (
        Client(DATA, replace(rules, min_cell_size=9), ledger)
        if change == "policy"
        else Client(other, rules, ledger)
    )
    with fails(PolicyError, "too-many-queries"):
        client.answer(ColumnsRequest())


def test_replies_that_depend_on_more_than_the_question_always_count():
    assert {request.kind for request in kinds.REQUESTS if not request.repeatable} == {
        "private",
        "train",
        "evaluate",
    }


def test_a_refusal_reaches_the_caller_of_distance():
    rng = np.random.default_rng(0)
    data = {"paris": rng.standard_normal((60, 2)), "oslo": rng.standard_normal((60, 2))}
    fed = local(data, policy=Policy(["summary"]))
    assert fedwad.distance(fed["paris"], fed["oslo"], method="summary").value > 0
    with fails(PolicyError, "kind-refused", "columns"):
        fedwad.distance(fed["paris"], fed["oslo"], method="fedwad")


def test_wrong_requests():
    client = Client(DATA, Policy.open())
    with fails(InputError, "different-columns"):
        client.answer(transport(Measure(np.zeros((2, 7)))))

    @dataclasses.dataclass(frozen=True)
    class Odd:
        kind = "columns"

    for odd in (Odd(), None, "columns"):
        with fails(FederationError, "bad-request"):
            client.answer(odd)


def test_a_subclass_does_not_pass_for_another_kind():
    class Disguised(TransportRequest):
        kind = "columns"

    client = Client(DATA, Policy(["columns"]))
    with fails(FederationError, "bad-request", "Disguised"):
        client.answer(Disguised("run", SUPPORT, 0.5, 2.0, "barycentric", True))
    forged = transport()
    object.__setattr__(forged, "kind", "columns")
    with fails(PolicyError, "kind-refused", "transport"):
        client.answer(forged)


def test_a_support_cannot_lie_about_itself():
    class Liar(Measure):
        is_uniform = True

    client = Client(DATA, Policy(["cells"], min_cell_size=5))
    with fails(PolicyError, "support-refused"):
        client.answer(CellsRequest("run", Liar(SUPPORT.points, [1, 2, 3, 4, 5]), 2.0, "full"))
    smuggled = Measure(SUPPORT.points)
    object.__setattr__(smuggled, "points", np.full((5, 3), np.nan))
    with fails(InputError, "bad-request"):
        client.answer(CellsRequest("run", smuggled, 2.0, "full"))
    assert client.ledger.queries == 0


@pytest.mark.parametrize(
    "request_",
    [SummaryRequest(1, "spherical", 50.0, 0), CellsRequest("run", SUPPORT, 50.0, "full")],
)
def test_orders_other_than_two_are_refused(request_):
    with fails(PolicyError, "order-refused"):
        Client(DATA, Policy(KINDS, min_cell_size=1)).answer(request_)


def test_a_policy_keeps_its_own_list():
    kinds = ["columns"]
    policy = Policy(kinds)
    kinds.append("cells")
    assert policy.allow == ("columns",)


def test_what_fails_after_a_look_at_the_data_counts_as_a_look():
    client = Client(DATA, Policy(["transport"], max_queries=1, min_cell_size=50))
    with fails(PolicyError, "small-cells"):
        client.answer(transport())
    with fails(PolicyError, "withheld"):  # the same question: not worked on, and not counted
        client.answer(transport())
    with fails(PolicyError, "too-many-queries"):
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
        TransportRequest("run", SUPPORT, 2.0, "0.5", "barycentric", False),
        TransportRequest("run", SUPPORT, 2.0, 0.0, "barycentric", False),
        TransportRequest("run", SUPPORT, 2.0, 1.0, "barycentric", False),
        TransportRequest("run", SUPPORT, 2.0, np.array([0.5, 0.5]), "barycentric", False),
        TransportRequest("run", SUPPORT, np.complex64(2), 0.5, "barycentric", False),
        TransportRequest("run", SUPPORT, 2.0, 0.5, "x", False),
        TransportRequest("run", SUPPORT.points, 2.0, 0.5, "barycentric", False),
        CellsRequest("run", None, 2.0, "full"),
        CellsRequest("run", SUPPORT, 2.0, None),
        CellsRequest([1], SUPPORT, 2.0, "full"),
        CellsRequest("r" * 65, SUPPORT, 2.0, "full"),
        CellsRequest("run", object.__new__(Measure), 2.0, "full"),
        TransportRequest("run", SUPPORT, 2.0, 0.5, "barycentric", "no"),
        TransportRequest("run", SUPPORT, 1e5, 0.5, "barycentric", False),
        TransportRequest("run", SUPPORT, True, 0.5, "barycentric", False),
    ],
)
def test_requests_that_make_no_sense_are_refused_before_the_data_are_looked_at(request_):
    client = Client(DATA, Policy.open())
    with pytest.raises(InputError):
        client.answer(request_)
    assert client.ledger.queries == 0
    assert [entry.outcome for entry in client.ledger.entries] == ["refused"]


def test_columns_of_heavy_samples_have_no_moments():
    weights = np.full(100, 1e-12)
    weights[7] = 1.0
    heavy = Dataset(Measure(DATA.measure.points, weights))
    reply = Client(heavy, Policy(KINDS, min_cell_size=2)).answer(ColumnsRequest())
    assert not any(one.moments or one.order for one in reply.profile.columns)


@pytest.mark.parametrize(
    "request_", [one for one in EVERY_REQUEST[1:] if not isinstance(one, ColumnsRequest)]
)
def test_a_heavy_sample_does_not_hide_among_light_ones(request_):
    weights = np.full(100, 1e-12)
    weights[7] = 1.0
    client = Client(Dataset(Measure(DATA.measure.points, weights)), Policy(KINDS, min_cell_size=2))
    with fails(PolicyError, "small-cells"):
        client.answer(request_)


@pytest.mark.parametrize(
    "options",
    [
        {"allow": "summary"},
        {"allow": ["sumary"]},
        {"allow": None},
        {"allow": 5},
        {"splits": "no"},
        {"supports": 1},
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
    kinds = [entry.kind for entry in fed.ledgers["a"].entries]
    assert kinds == ["columns", "schema", "summary"]  # "schema": the units of block means
    assert fed.ledgers["b"].queries == 2


def test_a_federation_needs_clients():
    with fails(FedwadError, "no-sites"):
        local({})
