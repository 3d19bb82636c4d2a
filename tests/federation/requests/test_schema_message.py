"""The messages in which sites agree on a schema: what they say, and what nobody can make them say."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import fedwad
from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    MAX_BUNDLE,
    AdoptSchemaRequest,
    AgreedFederation,
    Bundle,
    Client,
    DescribeRequest,
    Envelope,
    Failure,
    FileLedger,
    MomentsRequest,
    Policy,
    ProfileReply,
    ProfileRequest,
    PrototypesRequest,
    RawTable,
    RemoteFederation,
    SummaryRequest,
    ensure_schema,
    open_client,
    pack,
    unpack,
)
from fedwad.tables import Schema, SchemaColumn, read_table

KINDS = ("describe", "schema", "encode", "summary", "moments", "prototypes")
POLICY = Policy(KINDS, min_cell_size=10, classes=True, name="paris")


def table(seed=0, rows=200, rare="Fabry disease"):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(60, 9, rows).round(1),
            "illness": rng.choice(["asthma", "flu"], rows),
            "smoker": rng.random(rows) < 0.3,
        }
    )
    frame.loc[0, "illness"] = rare
    frame.loc[rng.choice(rows, 20, replace=False), "age"] = np.nan
    return frame


def client(policy=POLICY, ledger=None, **options):
    return Client(RawTable(read_table(table(**options))), policy, ledger)


class Loopback(RemoteFederation):
    """Clients behind packed messages; `sent` is everything that left them."""

    def __init__(self, clients):
        super().__init__(tuple(clients))
        self.clients, self.sent = clients, []

    def exchange(self, messages, timeout):  # noqa: ARG002
        answers = {name: self.clients[name].respond(m) for name, m in messages.items()}
        self.sent += answers.values()
        return answers


def test_the_profile_is_one_query_however_often_it_is_asked():
    site = client()
    first = site.answer(ProfileRequest())
    assert first == site.answer(ProfileRequest())
    assert site.ledger.queries == 1
    site.answer(AdoptSchemaRequest(agreed(site).to_toml()))
    assert first == site.answer(ProfileRequest())
    assert site.ledger.queries == 1
    assert [e.outcome for e in site.ledger.entries if e.kind == "schema"] == [
        "answered",
        "repeated",
        "repeated",
        "repeated",
    ]


def agreed(*clients):
    return fedwad.schema(Loopback({f"s{k}": one for k, one in enumerate(clients)}))


def test_a_profile_survives_the_wire():
    reply = client().answer(ProfileRequest())
    assert unpack(pack(Envelope(reply))).content == reply
    assert isinstance(reply, ProfileReply)
    assert reply.profile["age"].missing == 20


def test_the_order_of_rows_changes_no_bit():
    frame = table()
    shuffled = frame.sample(frac=1, random_state=1)
    replies = [
        pack(Envelope(Client(RawTable(read_table(one)), POLICY).answer(ProfileRequest())))
        for one in (frame, shuffled)
    ]
    assert replies[0] == replies[1]


@pytest.mark.parametrize("named", [False, True])
def test_a_category_of_one_patient_leaves_under_no_name(named):
    """Not in the profile, and not when a server names it in a schema to ask for its share."""
    fed = Loopback({"paris": client(), "oslo": client(seed=1, rare="flu")})
    prepared = ensure_schema(fed)
    schema = prepared.schema
    prepared.ask(dict.fromkeys(fed.names, DescribeRequest()))
    if named:
        levels = (*schema["illness"].levels, "Fabry disease")
        schema = schema.edited({"illness": {"levels": levels}})
        fed.ask(dict.fromkeys(fed.names, AdoptSchemaRequest(schema.to_toml())))
    requests = [
        DescribeRequest(),
        ProfileRequest(),
        SummaryRequest(10, "full", 2.0, 0),
        SummaryRequest(1, "diag", 2.0, 0),
        MomentsRequest(),
        PrototypesRequest(5, "class", "equal", 0),
    ]
    for request in requests:
        answers = fed.ask(dict.fromkeys(fed.names, request))
        if isinstance(request, MomentsRequest) and named:
            place = schema.feature_names.index("illness=Fabry disease")
            assert answers["paris"].mean[place] == 0.0
            assert answers["paris"].scale[place] == 0.0
    assert len(fed.sent) > len(requests)
    assert not any(b"Fabry" in message for message in fed.sent)


def test_without_the_floor_the_name_leaves():
    """The same inspection finds the name where a policy asks for no minimum."""
    open_site = client(dataclasses.replace(POLICY, min_cell_size=1))
    assert b"Fabry" in open_site.respond(pack(Envelope(ProfileRequest())))


def test_nothing_is_answered_before_there_is_a_schema():
    site = client()
    for request in (SummaryRequest(5, "diag", 2.0, 0), MomentsRequest()):
        with pytest.raises(PolicyError, match="no schema yet"):
            site.answer(request)
    assert site.answer(DescribeRequest()).schema == "wanted"
    assert site.ledger.queries == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"age": {"missing_values": ("61.5",)}}, "a setting of each site"),
        ({"illness": {"levels": ("asthma", "flu")}}, "has no level 'other'"),
    ],
)
def test_a_server_cannot_choose_what_counts_as_missing(changes, sentence):
    site = client()
    schema = agreed(site).edited(changes)
    with pytest.raises(InputError, match=sentence):
        site.answer(AdoptSchemaRequest(schema.to_toml()))
    assert site.answer(DescribeRequest()).schema == "wanted"


def test_a_schema_that_does_not_fit_is_refused_without_a_word_about_rows():
    site = client()
    wrong = Schema((SchemaColumn("illness", "number"),))
    answer = unpack(site.respond(pack(Envelope(AdoptSchemaRequest(wrong.to_toml()))))).content
    assert isinstance(answer, Failure)
    assert answer.sentence == "The schema does not fit this site's table; see the site's log."
    assert "row" not in site.ledger.entries[-1].reason


@pytest.mark.parametrize("schema", [3, "columns = 1", "x" * (1 << 23)])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(InputError):
        client().answer(AdoptSchemaRequest(schema))


def test_a_policy_says_who_answers():
    with pytest.raises(PolicyError, match="kind 'schema'"):
        client(Policy(("encode",))).answer(ProfileRequest())
    with pytest.raises(PolicyError, match="kind 'encode'"):
        client(Policy(("schema",))).answer(AdoptSchemaRequest(agreed(client()).to_toml()))
    with pytest.raises(InputError, match="not 'schema'"):
        Policy(("schema", "private"), epsilon=1.0)
    plain = Client(fedwad.federation.Dataset(fedwad.Measure([[1.0]])), Policy.open())
    with pytest.raises(PolicyError, match="encoded already"):
        plain.answer(ProfileRequest())


def test_too_few_rows_send_no_profile():
    few = Client(RawTable(read_table(pd.DataFrame({"v": [1.0, 2.0]}))), POLICY)
    with pytest.raises(PolicyError, match="fewer than the 10"):
        few.answer(ProfileRequest())


def test_the_schema_is_kept_beside_the_ledger(tmp_path):
    """Flower's own node starts a process for each message."""
    table().to_csv(tmp_path / "paris.csv", index=False)
    POLICY.save(tmp_path / "paris.toml")

    def node():
        return open_client(tmp_path / "paris.csv", tmp_path / "paris.toml")

    schema = agreed(node())
    node().answer(AdoptSchemaRequest(schema.to_toml()))
    request = SummaryRequest(5, "diag", 2.0, 0)
    here = Client(RawTable(read_table(table())), POLICY)
    here.answer(AdoptSchemaRequest(schema.to_toml()))
    np.testing.assert_array_equal(
        node().answer(request).summary.means, here.answer(request).summary.means
    )
    table().drop(columns="age").to_csv(tmp_path / "paris.csv", index=False)
    with pytest.raises(InputError, match=r"does not fit the table: .*Remove .*schema\.toml"):
        node()


def test_a_node_with_its_own_schema(tmp_path):
    table().to_csv(tmp_path / "paris.csv", index=False)
    dataclasses.replace(POLICY, min_cell_size=10).save(tmp_path / "paris.toml")
    schema = agreed(client(), client(seed=1, rare="flu"))
    schema.save(tmp_path / "schema.toml")
    files = tmp_path / "paris.csv", tmp_path / "paris.toml"
    own = open_client(*files, schema=tmp_path / "schema.toml")
    taken = client()
    taken.answer(AdoptSchemaRequest(schema.to_toml()))
    request = SummaryRequest(5, "diag", 2.0, 0)
    np.testing.assert_array_equal(
        own.answer(request).summary.means, taken.answer(request).summary.means
    )
    with pytest.raises(PolicyError, match="encoded already"):
        own.answer(AdoptSchemaRequest(schema.to_toml()))
    assert own.answer(DescribeRequest()).schema == ""


def test_sites_behind_messages_give_the_bits_of_this_process():
    frames = {"paris": table(), "oslo": table(1)}
    fed = Loopback({n: Client(RawTable(read_table(t)), POLICY) for n, t in frames.items()})
    agreed = ensure_schema(fed)
    here = fedwad.local(frames, policy=POLICY)
    far = fedwad.distance(agreed["paris"], agreed["oslo"], method="summary")
    near = fedwad.distance(here["paris"], here["oslo"], method="summary")
    assert (far.value, far.lower, far.upper) == (near.value, near.lower, near.upper)
    assert far.traffic == near.traffic
    assert far.traffic.messages == 4  # a profile and a summary of each site
    assert len(fed.sent) == 6  # and who each is
    later = ensure_schema(fed)  # the sites have the schema, and repeat the profiles that led to it
    assert later.schema == agreed.schema
    again = fedwad.distance(later["paris"], later["oslo"], method="summary")
    assert (again.value, again.traffic.messages) == (far.value, 4)
    assert again.explain().names == far.explain().names


def test_what_sites_have_said_before_the_run_is_not_asked_again():
    fed = Loopback({"paris": client(), "oslo": client(seed=1)})
    fed.descriptions = fed.ask(dict.fromkeys(fed.names, DescribeRequest()))
    fed.sent.clear()
    agreed = ensure_schema(fed)
    fedwad.distance(agreed["paris"], agreed["oslo"])
    assert len(fed.sent) == 4


def test_a_round_of_bundles_takes_the_schema_too():
    fed = Loopback({"paris": client(), "oslo": client(seed=1)})
    agreed = ensure_schema(fed)
    parts = (DescribeRequest(), MomentsRequest())
    full = Bundle((DescribeRequest(),) * MAX_BUNDLE)  # no place for the schema in it
    answers = agreed.ask({"paris": Bundle(parts), "oslo": full})
    assert [type(reply).__name__ for reply in answers["paris"].replies] == [
        "Description",
        "Moments",
    ]
    assert {reply.features for reply in answers["oslo"].replies} == {agreed.schema.width}


def test_a_site_that_does_not_take_the_schema():
    refusing = dataclasses.replace(POLICY, allow=[k for k in POLICY.allow if k != "encode"])
    agreed = ensure_schema(Loopback({"paris": client(), "oslo": client(refusing, seed=1)}))
    with pytest.raises(PolicyError, match=r"oslo.*'encode' are not allowed"):
        fedwad.distance(agreed["paris"], agreed["oslo"])


def test_a_site_that_is_silent_about_the_schema_is_not_asked_more(monkeypatch):
    fed = Loopback({"paris": client(), "oslo": client(seed=1)})
    agreed = ensure_schema(fed)
    asked, ask = [], fed.ask

    def silent(requests):
        asked.append(requests)
        return {name: reply for name, reply in ask(requests).items() if name != "oslo"}

    monkeypatch.setattr(fed, "ask", silent)
    answers = agreed.ask(dict.fromkeys(fed.names, Bundle((DescribeRequest(),) * MAX_BUNDLE)))
    assert list(answers) == ["paris"]
    assert [list(requests) for requests in asked] == [["oslo", "paris"], ["paris"]]


def test_a_site_that_joins_later_leads_to_another_schema():
    clients = {"paris": client(), "oslo": client(seed=1)}
    first = ensure_schema(Loopback(clients))
    grown = Loopback(clients | {"rome": client(seed=2)})
    second = ensure_schema(grown, ("paris", "rome"))
    assert second.schema != first.schema
    assert fedwad.matrix(second).value.shape == (3, 3)
    assert all(one.data.schema == second.schema for one in grown.clients.values())


def test_a_table_that_waits_and_data_that_do_not():
    plain = Client(fedwad.federation.Dataset(fedwad.Measure([[1.0]])), Policy.open())
    with pytest.raises(InputError, match=r"paris takes the schema .* and oslo has its own"):
        ensure_schema(Loopback({"paris": client(), "oslo": plain}))
    silent = Client(RawTable(read_table(table())), Policy(("summary",)))
    fed = Loopback({"paris": silent})
    assert ensure_schema(fed) is fed


def test_another_schema_in_the_middle_of_a_run_is_noticed():
    """Two analysts at once: no number of one is computed under the schema of the other."""
    fed = Loopback({"paris": client(), "oslo": client(seed=1)})
    agreed = ensure_schema(fed)
    agreed.ask(dict.fromkeys(fed.names, MomentsRequest()))
    other = agreed.schema.edited({"age": {"scale": 3.0}})
    for one in fed.clients.values():
        one.answer(AdoptSchemaRequest(other.to_toml()))
    answers = fed.ask(dict.fromkeys(fed.names, MomentsRequest()))
    assert all(isinstance(answer, Failure) for answer in answers.values())


def test_the_ledger_has_a_line_for_each(tmp_path):
    site = client(ledger=FileLedger(tmp_path / "a.jsonl"))
    site.answer(ProfileRequest())
    site.answer(AdoptSchemaRequest(agreed(client()).to_toml()))
    kinds = [(e.kind, e.outcome, e.min_cell_size) for e in site.ledger.entries]
    assert [kind[:2] for kind in kinds] == [("schema", "answered"), ("encode", "answered")]
    assert kinds[0][2] >= 10
    assert (tmp_path / "a.schema.toml").exists()


def test_distinct_replies_count_whatever_the_schema():
    limited = dataclasses.replace(POLICY, max_distinct_replies=1)
    site = client(limited)
    schema = agreed(site)
    request = SummaryRequest(5, "diag", 2.0, 0)
    site.answer(AdoptSchemaRequest(schema.to_toml()))
    site.answer(request)
    site.answer(AdoptSchemaRequest(schema.edited({"age": {"scale": 1.0}}).to_toml()))
    with pytest.raises(PolicyError, match="different replies"):
        site.answer(request)


def test_a_site_may_take_another_schema_together_with_a_request():
    sites = Loopback({"paris": client(), "oslo": client(seed=1)})
    first = agreed(client())
    for schema in (first, agreed(client(seed=1))):
        federation = AgreedFederation(sites, schema, sites.names)
        answers = federation.ask(dict.fromkeys(sites.names, MomentsRequest()))
        assert {type(answer).__name__ for answer in answers.values()} == {"Moments"}


def test_the_traffic_of_a_schema_leaves_out_that_of_the_one_before():
    tables = {"paris": table(), "oslo": table(seed=1)}
    assert fedwad.schema(fedwad.local(tables)).traffic == fedwad.schema(tables).traffic
