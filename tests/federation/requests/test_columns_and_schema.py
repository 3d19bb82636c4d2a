"""What a site publishes about its columns, and the schema that a question brings: what a site takes
of it, and what nobody can make it say."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Bundle,
    Client,
    ColumnsReply,
    ColumnsRequest,
    Dataset,
    DescribeRequest,
    Envelope,
    Failure,
    FileLedger,
    Policy,
    PrototypesRequest,
    RawTable,
    RemoteFederation,
    SchemaFederation,
    SummaryRequest,
    agreed_schema,
    ensure_schema,
    open_client,
    pack,
    unpack,
)
from fedwad.tables import ColumnStatistics, Profile, Schema, SchemaColumn, agree, read_table
from fedwad.transport import Measure

KINDS = ("describe", "columns", "summary", "cells", "prototypes")
POLICY = Policy(KINDS, min_cell_size=10, classes=True, name="paris", max_schemas=1)
MANY = dataclasses.replace(POLICY, max_schemas=None)
REQUEST = SummaryRequest(5, "diag", 2.0, 0)


def table(seed=0, rows=200, rare="Fabry disease"):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(60, 9, rows).round(1),
            "illness": rng.choice(["asthma", "flu"], rows),
            "smoker": rng.random(rows) < 0.3,
            "patient_id": [f"p{k % 15}" for k in range(rows)],
        }
    )
    frame.loc[0, "illness"] = rare
    frame.loc[rng.choice(rows, 20, replace=False), "age"] = np.nan
    return frame


def client(policy=POLICY, ledger=None, label=None, **options):
    return Client(RawTable(read_table(table(**options)), label), policy, ledger)


def asking(schema, request=REQUEST):
    return dataclasses.replace(request, schema=schema.to_toml())


class Loopback(RemoteFederation):
    """Clients behind packed messages; `sent` is everything that left them."""

    def __init__(self, clients):
        super().__init__(tuple(clients))
        self.clients, self.sent = clients, []

    def exchange(self, messages, timeout):  # noqa: ARG002
        answers = {name: self.clients[name].respond(m) for name, m in messages.items()}
        self.sent += answers.values()
        return answers


def agreed(*clients):
    return agreed_schema(Loopback({f"s{k}": one for k, one in enumerate(clients)}))


def test_the_columns_are_one_query_however_often_they_are_asked():
    site = client()
    first = site.answer(ColumnsRequest())
    assert first == site.answer(ColumnsRequest())
    site.answer(asking(agreed(site)))
    assert first == site.answer(ColumnsRequest())
    assert site.ledger.queries == 2


def test_columns_survive_the_wire():
    reply = client().answer(ColumnsRequest())
    assert unpack(pack(Envelope(reply))).content == reply
    assert isinstance(reply, ColumnsReply)
    age = reply.profile["age"]
    assert (age.missing, age.count) == (20, 180)
    assert len(age.order) == len(age.order_variance) == 16
    assert np.mean(age.order) == pytest.approx(age.mean, abs=1)
    assert list(age.order) == sorted(age.order)


def test_columns_of_an_array_are_numbers():
    points = np.random.default_rng(0).normal(3, 2, (60, 2))
    reply = Client(Dataset(Measure(points)), POLICY).answer(ColumnsRequest())
    assert reply.profile.names == ("0", "1")
    assert {one.kind for one in reply.profile.columns} == {"number"}
    np.testing.assert_allclose([one.mean for one in reply.profile.columns], points.mean(axis=0))
    np.testing.assert_allclose([one.std for one in reply.profile.columns], points.std(axis=0))


def test_weighted_samples_have_weighted_moments():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(60, 1)), rng.random(60) + 0.5
    weights /= weights.sum()
    reply = Client(Dataset(Measure(points, weights)), POLICY).answer(ColumnsRequest())
    assert reply.profile["0"].mean == pytest.approx(float(weights @ points[:, 0]))


def test_the_order_of_rows_changes_no_bit():
    frame = table()
    shuffled = frame.sample(frac=1, random_state=1)
    replies = [
        pack(Envelope(Client(RawTable(read_table(one)), POLICY).answer(ColumnsRequest())))
        for one in (frame, shuffled)
    ]
    assert replies[0] == replies[1]


def test_a_minimum_counts_units():
    from fedwad.tables import profile

    frame = pd.DataFrame({"visit": np.arange(200.0), "drug": ["a"] * 150 + ["b"] * 50})
    units = np.arange(200) // 25  # eight patients
    found = profile(frame, 10, None, units)
    assert found["visit"].moments == found["visit"].order == ()
    assert found["drug"].levels == ()
    assert profile(frame, 10)["drug"].levels == ("a", "b")
    assert profile(frame, 8, None, units)["visit"].moments
    assert profile(frame, 6, None, units)["drug"].levels == ("a",)


@pytest.mark.parametrize("named", [False, True])
def test_a_category_of_one_patient_leaves_under_no_name(named):
    """Not in the columns, and not when a server names it in a schema to ask for its share."""
    fed = Loopback({"paris": client(MANY), "oslo": client(MANY, seed=1, rare="flu")})
    schema = ensure_schema(fed).schema
    if named:
        levels = (*schema["illness"].levels, "Fabry disease")
        schema = schema.edited({"illness": {"levels": levels}})
    prepared = SchemaFederation(fed, schema, fed.names)
    requests = [
        DescribeRequest(),
        ColumnsRequest(),
        SummaryRequest(10, "full", 2.0, 0),
        SummaryRequest(1, "diag", 2.0, 0),
        PrototypesRequest(5, "class", "equal", 0),
    ]
    for request in requests:
        answers = prepared.ask(dict.fromkeys(fed.names, request))
        if isinstance(request, SummaryRequest) and named:
            place = schema.feature_names.index("illness=Fabry disease")
            assert (answers["paris"].summary.means[:, place] == 0.0).all()
    assert len(fed.sent) > len(requests)
    assert not any(b"Fabry" in message for message in fed.sent)


def test_without_the_floor_the_name_leaves():
    """The same inspection finds the name where a policy asks for no minimum."""
    open_site = client(dataclasses.replace(POLICY, min_cell_size=1))
    assert b"Fabry" in open_site.respond(pack(Envelope(ColumnsRequest())))


def test_a_table_needs_the_schema_of_the_request():
    site = client()
    with fails(PolicyError, "no-schema"):
        site.answer(REQUEST)
    assert site.answer(DescribeRequest()).schema == "wanted"
    assert site.ledger.queries == 0


# A site keeps nothing of a run.


def test_the_same_question_gets_the_same_digits_whatever_was_asked_before():
    schema = agreed(client(), client(seed=1))
    other = schema.edited({"age": {"scale": 3.0}})
    alone = pack(Envelope(client(MANY).answer(asking(schema))))
    site = client(MANY)
    for one in (other, schema, other):
        site.answer(asking(one, SummaryRequest(3, "full", 2.0, 7)))
    assert pack(Envelope(site.answer(asking(schema)))) == alone


def test_two_analysts_at_once_do_not_disturb_each_other():
    fed = Loopback({"paris": client(MANY), "oslo": client(MANY, seed=1)})
    one = ensure_schema(fed)
    two = SchemaFederation(fed, one.schema.edited({"age": {"scale": 3.0}}), fed.names)
    asked = {name: SummaryRequest(4, "full", 2.0, 1) for name in fed.names}
    mixed = [federation.ask(asked) for federation in (one, two, one, two)]
    for name in fed.names:
        means = [answers[name].summary.means for answers in mixed]
        np.testing.assert_array_equal(means[0], means[2])
        np.testing.assert_array_equal(means[1], means[3])
        assert not np.array_equal(means[0], means[1])


def test_a_process_for_each_message(tmp_path):
    """Flower's own node starts one; nothing but the ledger is beside the policy."""
    table().to_csv(tmp_path / "paris.csv", index=False)
    POLICY.save(tmp_path / "paris.toml")

    def node():
        return open_client(tmp_path / "paris.csv", tmp_path / "paris.toml", unit="none")

    schema = agreed(node())
    far, here = node().answer(asking(schema)), client().answer(asking(schema))
    np.testing.assert_array_equal(far.summary.means, here.summary.means)
    assert not list(tmp_path.glob("*.schema.toml"))
    with fails(PolicyError, "too-many-schemas"):  # also after a restart
        node().answer(asking(schema.edited({"age": {"scale": 3.0}})))


def test_a_node_with_its_own_schema_trusts_it(tmp_path):
    table().to_csv(tmp_path / "paris.csv", index=False)
    POLICY.save(tmp_path / "paris.toml")
    schema = agreed(client(), client(seed=1, rare="flu"))
    schema.save(tmp_path / "schema.toml")
    files = tmp_path / "paris.csv", tmp_path / "paris.toml"
    own = open_client(*files, schema=tmp_path / "schema.toml", unit="none")
    taken = client().answer(asking(schema))
    np.testing.assert_array_equal(own.answer(REQUEST).summary.means, taken.summary.means)
    np.testing.assert_array_equal(own.answer(asking(schema)).summary.means, taken.summary.means)
    with fails(PolicyError, "schema-refused"):
        own.answer(asking(schema.edited({"age": {"scale": 3.0}})))
    fed = Loopback({"paris": own, "oslo": client(seed=1)})
    with fails(InputError, "different-schema"):
        ensure_schema(fed)
    given = ensure_schema(fed, schema=schema)
    assert fedwad.distance(given["paris"], given["oslo"]).value > 0
    with fails(InputError, "different-schema"):
        ensure_schema(fed, schema=schema.edited({"age": {"scale": 3.0}}))


# A schema from outside is a proposal.


def refused(site, schema):
    """Whether the site refuses the schema in the one sentence, and counts it once."""
    before = site.ledger.queries
    answers = [unpack(site.respond(pack(Envelope(asking(schema))))).content for _ in range(2)]
    sentences = {answer.sentence for answer in answers if isinstance(answer, Failure)}
    if not sentences:
        return False
    assert len(sentences) == 1
    assert "does not follow from what the site publishes" in sentences.pop()
    assert site.ledger.queries == before + 1
    return True


CHANGES = {
    "values for missing ones": {"age": {"missing_values": ("61.5",)}},
    "no other level": {"illness": {"levels": ("asthma", "flu")}},
    "no rule for missing values": {"age": {"missing": "refuse"}},
    "a scale far below": {"age": {"scale": 1e-3}},
    "a scale far above": {"age": {"scale": 1e5}},
    "a scale that overflows": {"age": {"scale": 1e-300}},
    "a heavy category": {"illness": {"weight": 1e5}},
    "another kind": {"illness": {"kind": "number", "levels": ()}},
    "a date": {"age": {"kind": "date"}},
    "an identifier": {
        "patient_id": {"kind": "category", "levels": ("p1", "p2", "other"), "reason": ""}
    },
    "a number as levels": {
        "age": {"kind": "category", "levels": ("61.5", "other"), "missing": "level"}
    },
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_schema_that_does_not_follow_is_refused(change):
    site = client(MANY)
    schema = agreed(site)
    assert not refused(site, schema)
    assert refused(site, schema.edited(CHANGES[change]))


def test_a_column_that_a_site_does_not_have_is_missing_and_its_label_is_refused():
    site = client(MANY, label="smoker")
    schema = agreed(site)
    height = SchemaColumn("height", "number", scale=9.0)
    assert refused(site, dataclasses.replace(schema, columns=(*schema.columns, height)))
    height = dataclasses.replace(height, missing="indicator")
    more = dataclasses.replace(schema, columns=(*schema.columns, height))
    means = site.answer(asking(more, SummaryRequest(1, "diag", 2.0, 0))).summary.mean
    assert means[-2:].tolist() == [0.0, 1.0]
    assert refused(site, schema.edited({"smoker": {"kind": "boolean", "scale": 0.5}}))


def test_a_label_from_outside_is_none():
    """Which column is the label is a setting of the site."""
    site = client(MANY)
    schema = agreed(site).edited(
        {"illness": {"kind": "label", "levels": (), "weight": 2.0, "missing": "refuse"}}
    )
    with fails(InputError, "missing-labels"):
        site.answer(asking(schema, SummaryRequest(1, "diag", 2.0, 0, "diag")))
    with fails(InputError, "missing-labels"):
        site.answer(asking(schema, PrototypesRequest(5, "class", "equal", 0)))


@pytest.mark.parametrize("text", ["columns = 1", "version = 1", "[" * 5000, "x" * 1000])
def test_what_is_no_schema_is_refused(text):
    with fails(PolicyError, "schema-refused"):
        client().answer(dataclasses.replace(REQUEST, schema=text))


@pytest.mark.parametrize("schema", [3, "x" * (1 << 23)])
def test_what_is_no_text_is_refused(schema):
    with fails(InputError, "bad-request"):
        client().answer(dataclasses.replace(REQUEST, schema=schema))


def test_no_centre_and_no_scale_is_an_oracle_for_a_single_value():
    """Two tables that differ in their largest value, which no profile shows, are refused or
    answered alike, however the server chooses centre and scale."""
    frames = [table(), table()]
    frames[1].loc[5, "age"] = 130.0
    sites = [Client(RawTable(read_table(frame)), MANY) for frame in frames]
    schema = agreed(*sites)
    for centre in (0.0, 130.0 - 1e-9, 1e300, -1e308):
        for scale in (1e-320, 1e-98, 2e-2, 9.0, 5e3, 1e100):
            changed = schema.edited({"age": {"centre": centre, "scale": scale}})
            outcomes = {refused(site, changed) for site in sites}
            assert len(outcomes) == 1


def test_a_schema_of_many_levels_is_refused_before_anything_is_made():
    import tracemalloc

    site = client(MANY, rows=20_000)
    levels = tuple(f"x{k}" for k in range(1000))  # 50 s and 1.4 GB while twice as many were taken
    schema = agreed(site).edited({"illness": {"levels": (*levels, "other")}})
    tracemalloc.start()
    assert refused(site, schema)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e8


def test_a_schema_is_no_wider_than_a_covariance_may_be():
    """50,000 levels in 389 kB of text: 18.6 GB for a full covariance."""
    site = client(MANY, rows=300)
    levels = tuple(f"x{k}" for k in range(4200))
    assert refused(site, agreed(site).edited({"illness": {"levels": (*levels, "other")}}))


def test_numbers_of_thousands_of_digits_are_refused_like_any_schema():
    site = client(MANY)
    for text in ("version = " + "1" * 5000, "version = 1\n[columns.a]\ncentre = 0x" + "f" * 5000):
        before = site.ledger.queries
        with fails(PolicyError, "schema-refused"):
            site.answer(dataclasses.replace(REQUEST, schema=text))
        assert site.ledger.queries == before + 1


def test_a_reply_that_comes_as_a_request_is_refused_and_listed():
    site = client(MANY)
    reply = site.answer(DescribeRequest())
    before = len(site.ledger)
    answer = unpack(site.respond(pack(Envelope(reply)))).content
    assert isinstance(answer, Failure)
    assert answer.code == "input"
    assert len(site.ledger) == before + 1


def test_many_names_of_a_liar_are_compared_with_nobody(monkeypatch):
    """Each name was compared with each: 30 s for 2000 columns."""
    import fedwad.tables.agreement as module

    compared, similar = [], module.similar_name

    def counted(name, names):
        compared.append(len(names))
        return similar(name, names)

    monkeypatch.setattr(module, "similar_name", counted)
    honest = client(MANY).answer(ColumnsRequest()).profile
    (shared,) = (column for column in honest.columns if column.name == "illness")
    more = [dataclasses.replace(shared, name=f"age{k:05d}") for k in range(400)]
    liar = dataclasses.replace(honest, columns=(shared, *more))
    schema = agree({"a": honest, "z": liar}, majority=True)
    assert len(schema.columns) > 400
    assert sum(compared) < 1e4


def test_levels_that_a_site_did_not_list_become_other():
    site = client(MANY)
    schema = agreed(site)
    levels = ("asthma", "malaria", "other")
    changed = schema.edited({"illness": {"levels": levels}})
    means = site.answer(asking(changed, SummaryRequest(1, "diag", 2.0, 0))).summary.mean
    shares = schema.edited({"illness": {"levels": levels}}).describe(means)["illness"]
    counts = table()["illness"].value_counts(normalize=True)
    assert shares["asthma"] == pytest.approx(counts["asthma"])
    assert shares["malaria"] == 0
    assert shares["other"] == pytest.approx(1 - counts["asthma"])


def test_how_many_schemas_a_site_answers_about_is_a_rule():
    site = client()
    schema = agreed(site)
    site.answer(asking(schema))
    site.answer(asking(schema, SummaryRequest(3, "diag", 2.0, 0)))
    with fails(PolicyError, "too-many-schemas"):
        site.answer(asking(schema.edited({"age": {"scale": 3.0}})))
    # Reasons of ignored columns name other sites, and change no encoding.
    site.answer(asking(schema.edited({"patient_id": {"reason": "none"}})))
    assert [e.kind for e in site.ledger.entries].count("schema") == 1
    assert client(Policy.open()).policy.max_schemas is None


def test_a_policy_says_who_answers():
    with fails(PolicyError, "kind-refused"):
        client(Policy(("summary",))).answer(ColumnsRequest())
    with fails(InputError, "bad-policy"):
        Policy(("columns", "private"), epsilon=1.0)


def test_too_few_rows_send_no_columns():
    few = Client(RawTable(read_table(pd.DataFrame({"v": [1.0, 2.0]}))), POLICY)
    with fails(PolicyError, "small-cells"):
        few.answer(ColumnsRequest())


# The analyst's side.


def test_sites_behind_messages_give_the_bits_of_this_process():
    frames = {"paris": table(), "oslo": table(1)}
    fed = Loopback({n: Client(RawTable(read_table(t)), POLICY) for n, t in frames.items()})
    prepared = ensure_schema(fed)
    here = fedwad.local(frames, policy=POLICY, unit=None)
    far = fedwad.distance(prepared["paris"], prepared["oslo"], method="summary")
    near = fedwad.distance(here["paris"], here["oslo"], method="summary")
    assert (far.value, far.lower, far.upper) == (near.value, near.lower, near.upper)
    assert far.traffic == near.traffic
    assert far.traffic.messages == 4  # columns and a summary of each site
    assert far.traffic.down > 2 * len(prepared.schema.to_request())
    assert len(fed.sent) == 6  # and who each is
    later = ensure_schema(fed)
    again = fedwad.distance(later["paris"], later["oslo"], method="summary")
    assert (again.value, again.traffic.messages) == (far.value, 4)


def test_a_pair_then_a_matrix_then_a_newcomer_under_one_schema():
    strict = dataclasses.replace(POLICY, keep=True, max_distinct_replies=1)
    clients = {name: client(strict, seed=k) for k, name in enumerate(("paris", "oslo", "rome"))}
    fed = Loopback(clients)
    pair = ensure_schema(fed, ("paris", "oslo"))
    fedwad.distance(pair["paris"], pair["oslo"])
    every = ensure_schema(fed)
    matrix = fedwad.matrix(every)
    assert every.schema == pair.schema
    assert matrix.sites == fed.names
    late = Loopback({"bern": client(strict, seed=4)})
    grown = matrix.add(ensure_schema(late, schema=every.schema)["bern"])
    assert grown.sites == (*fed.names, "bern")
    # Another schema, of fewer sites, is one too many.
    fewer = SchemaFederation(fed, agreed(clients["paris"], clients["oslo"]), fed.names)
    with fails(PolicyError, "too-many-schemas"):
        fedwad.distance(fewer["paris"], fewer["oslo"])


def test_what_sites_have_said_before_the_run_is_not_asked_again():
    fed = Loopback({"paris": client(), "oslo": client(seed=1)})
    fed.descriptions = fed.ask(dict.fromkeys(fed.names, DescribeRequest()))
    fed.sent.clear()
    prepared = ensure_schema(fed)
    fedwad.distance(prepared["paris"], prepared["oslo"])
    assert len(fed.sent) == 4


def test_the_schema_travels_once_in_a_bundle():
    fed = Loopback({"paris": client(), "oslo": client(seed=1)})
    prepared = ensure_schema(fed)
    parts = (DescribeRequest(), REQUEST, ColumnsRequest())
    answers = prepared.ask(dict.fromkeys(fed.names, Bundle(parts)))
    kinds = [type(reply).__name__ for reply in answers["paris"].replies]
    assert kinds == ["Description", "SummaryReply", "ColumnsReply"]


def test_a_table_and_data_that_are_encoded():
    plain = Client(Dataset(fedwad.Measure([[1.0]])), Policy.open())
    with fails(InputError, "different-schema"):
        ensure_schema(Loopback({"paris": client(), "oslo": plain}))
    silent = Client(RawTable(read_table(table())), Policy(("summary",)))
    fed = Loopback({"paris": silent})
    assert ensure_schema(fed) is fed


# A lie of a site costs that site.


class Lying(Client):
    """A client that answers the question about its columns as `lie` says."""

    def __init__(self, lie, **options):
        super().__init__(RawTable(read_table(table(**options))), POLICY)
        self.lie = lie

    def respond(self, message):
        envelope = unpack(message)
        if not isinstance(envelope.content, ColumnsRequest):
            return super().respond(message)
        answer = self.lie(self.answer(envelope.content))
        return answer if isinstance(answer, bytes) else pack(Envelope(answer, envelope.request_id))


def huge(reply):
    columns = tuple(ColumnStatistics(f"c{k}", "empty", 0, 200) for k in range(40_000))
    return dataclasses.replace(reply, profile=Profile(200, columns, 10))


def long_names(reply):
    columns = tuple(ColumnStatistics(f"{k:0999d}", "empty", 0, 200) for k in range(2000))
    columns += reply.profile.columns
    return dataclasses.replace(reply, profile=dataclasses.replace(reply.profile, columns=columns))


USELESS = {
    "refused": lambda _: Failure("policy", "no."),
    "wrong request": lambda _: Failure("input", "no."),
    "garbled": lambda _: b"fedwad and more",
    "another reply": lambda _: DescribeRequest(),
    "contradictory": lambda reply: dataclasses.replace(
        reply, profile=dataclasses.replace(reply.profile, rows=7)
    ),
    "huge": huge,
    "long names": long_names,
}


def with_liar(lie):
    clients = {name: client(seed=k) for k, name in enumerate(("paris", "oslo", "rome"))}
    return Loopback(clients | {"liar": Lying(lie, seed=9)})


@pytest.mark.parametrize("lie", USELESS)
def test_columns_that_cannot_be_used_cost_one_site(lie):
    prepared = ensure_schema(with_liar(USELESS[lie]))
    assert set(prepared.failed) == {"liar"}
    assert prepared.failed["liar"]
    honest = Loopback({n: client(seed=k) for k, n in enumerate(("paris", "oslo", "rome"))})
    assert prepared.schema == ensure_schema(honest).schema
    result = fedwad.matrix(prepared, sites=("paris", "oslo", "rome"))
    np.testing.assert_array_equal(result.value, fedwad.matrix(ensure_schema(honest)).value)


def test_a_late_site_costs_that_site(monkeypatch):
    fed = with_liar(lambda reply: reply)
    exchange = fed.exchange

    def late(messages, timeout):
        answers = exchange(messages, timeout)
        content = unpack(next(iter(messages.values()))).content
        if isinstance(content, ColumnsRequest):
            del answers["liar"]
        return answers

    monkeypatch.setattr(fed, "exchange", late)
    assert set(ensure_schema(fed).failed) == {"liar"}


def changed(**fields):
    """A lie in the column "age"."""

    def lie(reply):
        columns = tuple(
            dataclasses.replace(c, **fields) if c.name == "age" else c
            for c in reply.profile.columns
        )
        return dataclasses.replace(
            reply, profile=dataclasses.replace(reply.profile, columns=columns)
        )

    return lie


def absent(reply):
    columns = tuple(c for c in reply.profile.columns if c.name != "age")
    return dataclasses.replace(reply, profile=dataclasses.replace(reply.profile, columns=columns))


def all_other(reply):
    """A site that lists no level, as one of few rows does."""
    columns = tuple(
        dataclasses.replace(c, levels=(), level_counts=(), other=c.count) if c.levels else c
        for c in reply.profile.columns
    )
    return dataclasses.replace(reply, profile=dataclasses.replace(reply.profile, columns=columns))


def crowd(reply):
    """A site that says that it has a billion rows."""
    rows = 10**9
    columns = tuple(
        dataclasses.replace(c, count=rows - c.missing) if c.name == "age" else c
        for c in (dataclasses.replace(c, missing=rows - c.count) for c in reply.profile.columns)
    )
    return dataclasses.replace(reply, profile=Profile(rows, columns, 10))


def labels(reply):
    columns = tuple(ColumnStatistics(c.name, "label") for c in reply.profile.columns)
    return dataclasses.replace(reply, profile=dataclasses.replace(reply.profile, columns=columns))


PLAUSIBLE = {
    "sum of squares": changed(moments=(60.0, 1e14), order=(), order_variance=()),
    "mean": changed(moments=(1e12, 100.0), order=(), order_variance=()),
    "identifier": changed(identifier=True),
    "kind": changed(kind="date"),
    "unusable": changed(kind="unusable", count=200, missing=0, moments=(), distinct=0),
    "absent": absent,
    "labels": labels,
    "all other": all_other,
    "rows": crowd,
}


@pytest.mark.parametrize("lie", PLAUSIBLE)
def test_a_plausible_lie_does_not_blank_a_column_of_the_others(lie):
    honest = ensure_schema(
        Loopback({n: client(seed=k) for k, n in enumerate(("paris", "oslo", "rome"))})
    ).schema
    prepared = ensure_schema(with_liar(PLAUSIBLE[lie]))
    assert prepared.schema["age"].kind == "number"
    assert prepared.schema["illness"].levels == honest["illness"].levels
    assert 0.5 < prepared.schema["age"].scale / honest["age"].scale < 2
    matrix = fedwad.matrix(prepared, sites=("paris", "oslo", "rome"))
    alone = fedwad.matrix(
        ensure_schema(
            Loopback({n: client(seed=k) for k, n in enumerate(("paris", "oslo", "rome"))})
        )
    )
    np.testing.assert_allclose(matrix.value, alone.value, rtol=0.3)


def test_a_site_that_lists_no_level_is_left_out():
    """Because it lies or is small: at such a site the levels of the others would be "other"."""
    small = Client(RawTable(read_table(table(rows=25, seed=8))), POLICY)
    for fed in (with_liar(all_other), Loopback(with_liar(crowd).clients | {"liar": small})):
        prepared = ensure_schema(fed)
        assert "too few levels" in prepared.failed["liar"]
        result = fedwad.matrix(prepared)
        assert result.sites == ("paris", "oslo", "rome")
        assert set(result.failed) == {"liar"}
        # The others have spent their only schema on that which they agree on without it.
        alone = Loopback({name: fed.clients[name] for name in result.sites})
        np.testing.assert_array_equal(fedwad.matrix(ensure_schema(alone)).value, result.value)


def test_columns_of_one_site_are_neither_sent_nor_compared_with_every_name():
    def many(reply):
        more = tuple(ColumnStatistics(f"ages{k}", "empty", 0, 200) for k in range(5000))
        columns = (*reply.profile.columns, *more)
        return dataclasses.replace(
            reply, profile=dataclasses.replace(reply.profile, columns=columns)
        )

    prepared = ensure_schema(with_liar(many))
    assert len(prepared.schema) > 5000
    assert not prepared.schema.conflicts
    assert prepared.schema_bytes < 2000
    assert fedwad.matrix(prepared, sites=("paris", "oslo", "rome")).sites[0] == "paris"


def test_fewer_than_two_sites_agree_on_nothing():
    fed = Loopback({"paris": client(), "liar": Lying(USELESS["refused"], seed=1)})
    with pytest.raises((PolicyError, FederationError)):
        ensure_schema(fed)


def test_the_ledger_has_a_line_for_each(tmp_path):
    site = client(ledger=FileLedger(tmp_path / "a.jsonl"))
    site.answer(ColumnsRequest())
    site.answer(asking(agreed(client())))
    kinds = [(e.kind, e.outcome) for e in site.ledger.entries]
    assert kinds == [("columns", "answered"), ("schema", "answered"), ("summary", "answered")]
    assert site.ledger.queries == 2


def test_distinct_replies_count_whatever_the_schema():
    site = client(dataclasses.replace(MANY, max_distinct_replies=1))
    schema = agreed(site)
    site.answer(asking(schema))
    with fails(PolicyError, "too-many-queries"):
        site.answer(asking(schema.edited({"age": {"scale": 3.0}})))


def test_the_traffic_of_a_schema_leaves_out_that_of_the_one_before():
    tables = {"paris": table(), "oslo": table(seed=1)}
    assert fedwad.schema(fedwad.local(tables)).traffic == fedwad.schema(tables).traffic


def test_an_empty_column_says_nothing():
    frame = table()
    frame["age"] = np.nan
    site = Client(RawTable(read_table(frame)), MANY)
    schema = agreed(client(), client(seed=1))
    assert not refused(site, schema)
    assert Schema.from_toml(schema.to_toml()) == schema


def test_control_characters_in_names_end_at_the_door():
    """No escape sequence of a site reaches the terminal of an analyst."""
    frame = table().rename(columns={"age": "age\x1b[2J"})
    with fails(InputError, "bad-name"):
        Client(RawTable(read_table(frame)), POLICY).answer(ColumnsRequest())
    frame = table()
    frame.loc[:50, "illness"] = "flu\x1b[2J"
    found = Client(RawTable(read_table(frame)), POLICY).answer(ColumnsRequest())
    assert set(found.profile["illness"].levels) == {"asthma", "flu"}

    def escape(reply):
        columns = tuple(
            dataclasses.replace(c, name=f"{c.name}\x1b[2J") for c in reply.profile.columns
        )
        return dataclasses.replace(
            reply, profile=dataclasses.replace(reply.profile, columns=columns)
        )

    assert set(ensure_schema(with_liar(escape)).failed) == {"liar"}


def test_a_schema_that_makes_values_too_large_is_refused_like_any_other_and_counts():
    site = client()
    levels = {"levels": ("a", "other"), "missing": "level"}
    absent = SchemaColumn("absent", "category", weight=1e300, **levels)
    columns = agreed(site).columns
    before = site.ledger.queries
    with fails(PolicyError, "schema-refused"):
        site.answer(asking(Schema((*columns, absent))))
    assert site.ledger.queries == before + 1


def test_of_a_number_that_a_name_makes_an_identifier_only_counts_leave():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"patient_id": rng.integers(0, 10**6, 400), "age": rng.normal(50, 9, 400)})
    fed = fedwad.local({"paris": table}, fedwad.Policy(["describe", "columns"], 10))
    number, age = sorted(
        fed.ask({"paris": ColumnsRequest()})["paris"].profile.columns,
        key=lambda s: s.name != "patient_id",
    )
    assert (number.moments, number.order, number.sentinels, number.levels) == ((), (), (), ())
    assert number.count == 400
    assert age.moments
    assert age.order
