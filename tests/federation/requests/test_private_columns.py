"""Noisy histograms through a client: budget, ledger, bins, and neighbouring tables."""

import math
from dataclasses import replace

import numpy as np
import pytest

from failing import fails
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Client,
    Envelope,
    FileLedger,
    Policy,
    PrivateColumnsReply,
    PrivateColumnsRequest,
    open_client,
    open_view,
    pack,
    read,
    unpack,
)
from fedwad.privacy import DP, mu_of
from fedwad.privacy.columns import count_rows
from fedwad.tables import Schema, SchemaColumn

DATA = np.random.default_rng(0).standard_normal((400, 3))
SCHEMA = Schema(
    (
        SchemaColumn("age", "number", centre=50.0, scale=10.0),
        SchemaColumn("chol", "number", centre=200.0, scale=40.0, missing="indicator"),
        SchemaColumn("sex", "category", levels=("f", "m")),
        SchemaColumn("ward", "category", levels=("1", "2", "other"), missing="level"),
        SchemaColumn("smoker", "boolean", centre=0.5, scale=0.5, missing="mean"),
        SchemaColumn("seen", "date", centre=18000.0, scale=300.0, missing="mean"),
    ),
    public=True,
)
PLAIN = "55,210,f,2,yes,2020-03-01"
#: The record that takes the place of PLAIN.
PAIRS = {
    "a value is missing where none may be": ",210,f,2,yes,2020-03-01",
    "a number is text": "unknown,1e400,f,2,yes,2020-03-01",
    "a number is not a number": "nan,inf,f,2,yes,2020-03-01",
    "numbers are huge": "-1e300,1e300,f,2,yes,2020-03-01",
    "numbers are out of range": "-7,99999,f,2,yes,1066-10-14",
    "categories are not listed": "55,210,x,ward 9,maybe,yesterday",
    "nothing is there": ",,,,,",
}


def asked(epsilon=1.0, clip_norm=5.0, schema=None, **options):
    return PrivateColumnsRequest.of(DP(epsilon, clip_norm=clip_norm, **options), schema)


def node(epsilon=3.0, ledger=None, data=DATA):
    return Client(read(data), Policy(allow=["describe", "private"], epsilon=epsilon), ledger)


def test_a_release_is_paid_for_once_and_sent_again(tmp_path):
    client = node(ledger=FileLedger(tmp_path / "node.sqlite"))
    first, second = client.answer(asked()), client.answer(asked())
    assert isinstance(first, PrivateColumnsReply)
    np.testing.assert_array_equal(first.counts, second.counts)
    assert client.ledger.spent == mu_of(1.0, 1e-5)
    entries = open_view(tmp_path / "node.sqlite").entries
    assert [(one.kind, one.outcome) for one in entries][:2] == [
        ("private", "spent"),
        ("private", "answered"),
    ]
    again = node(ledger=FileLedger(tmp_path / "node.sqlite")).answer(asked())
    np.testing.assert_array_equal(again.counts, first.counts)


def test_beyond_the_budget_nothing_is_answered():
    client = node(epsilon=1.3)
    client.answer(asked())
    with fails(PolicyError, "budget-spent"):
        client.answer(asked(clip_norm=6.0))
    with fails(PolicyError, "no-budget"):
        Client(read(DATA), Policy(allow=["private"])).answer(asked())


def test_noise_is_drawn_only_after_the_line_is_on_disk(tmp_path, monkeypatch):
    path = tmp_path / "node.sqlite"
    client = node(3.0, FileLedger(path))

    def interrupted(*_, **__):
        assert [entry.outcome for entry in open_view(path).entries] == ["spent"]
        raise KeyboardInterrupt

    name = "fedwad.site.answers.release_columns"
    monkeypatch.setattr(name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.answer(asked())
    assert FileLedger(path).spent == mu_of(1.0, 1e-5)


NUMBER = np.linspace(-1.0, 1.0, 5)
NONE = np.zeros(0)


@pytest.mark.parametrize(
    "request_",
    [
        replace(asked(), epsilon="1"),
        replace(asked(), epsilon=-1.0),
        replace(asked(), delta=0.0),
        replace(asked(), edges=()),
        replace(asked(), edges=(NONE,)),
        replace(asked(), edges=(NUMBER, NUMBER)),
        replace(asked(), edges=(NUMBER[::-1].copy(),)),
        replace(asked(), edges=(np.array([0.0, math.nan, 1.0]),)),
        replace(asked(), edges=([0.0, 1.0, 2.0],)),
        replace(asked(), edges=(np.linspace(0, 1, 5000),)),
        replace(asked(), widths=(1, 1), edges=(NUMBER, NUMBER)),
        replace(asked(), widths=(3,), edges=(NUMBER,)),
        replace(asked(), widths=(0, 3), edges=(NONE, NONE)),
        replace(asked(), widths=(True, 2), edges=(NONE, NONE)),
        replace(asked(), widths=["3"], edges=(NONE,)),
        asked(centre=[0.0, 0.0]),
    ],
)
def test_requests_that_make_no_sense_are_refused_before_they_cost(request_):
    client = node()
    with pytest.raises((InputError, FederationError)):
        client.answer(request_)
    assert client.ledger.spent == 0


def test_replies_travel_and_are_checked():
    request = unpack(pack(Envelope(asked()))).content
    reply = unpack(pack(Envelope(node().answer(request)))).content
    reply.check_values()
    request.check(reply)
    assert request.dimension(reply) == 3
    for change in (
        {"count": 0},
        {"counts": np.full(48, np.nan)},
        {"counts": np.zeros(0)},
        {"noise": 0.0},
        {"noise": math.inf},
    ):
        with pytest.raises(InputError):
            replace(reply, **change).check_values()
    for change in ({"counts": reply.counts[:-1]}, {"noise": reply.noise / 2}):
        with pytest.raises(InputError):
            request.check(replace(reply, **change))


@pytest.fixture
def opened(tmp_path):
    def build(last):
        rng = np.random.default_rng(0)
        lines = [
            f"{rng.normal(50, 10):.3f},{rng.normal(200, 40):.3f},{'fm'[k % 2]},{1 + k % 2},"
            f"{('yes', 'no')[k % 3 == 0]},2019-0{1 + k % 9}-11"
            for k in range(60)
        ]
        folder = tmp_path / str(abs(hash(last)))
        folder.mkdir(exist_ok=True)
        head = "age,chol,sex,ward,smoker,seen"
        (folder / "data.csv").write_text("\n".join([head, *lines, last]) + "\n")
        (folder / "policy.toml").write_text(
            'name = "paris"\nallow = ["describe", "private"]\nepsilon = 3.0\n'
        )
        SCHEMA.save(folder / "schema.toml")
        return open_client(
            folder / "data.csv", folder / "policy.toml", schema=folder / "schema.toml"
        )

    return build


@pytest.mark.parametrize("last", PAIRS.values(), ids=PAIRS)
def test_one_record_moves_one_bin_of_each_column(opened, last):
    clients = [opened(PLAIN), opened(last)]
    request = asked(schema=SCHEMA)
    points = [client.data.measure.points for client in clients]
    columns = request.columns(points[0].shape[1])
    before, after = (count_rows(one, columns) for one in points)
    ends = np.cumsum([column.size for column in columns])[:-1]
    for first, second in zip(np.split(before, ends), np.split(after, ends), strict=True):
        assert first.sum() <= 61
        assert np.abs(first - second).sum() <= 2
    assert np.linalg.norm(before - after) <= math.sqrt(2 * len(columns))
    replies = [client.answer(request) for client in clients]
    assert replies[0].noise == replies[1].noise
    assert replies[0].count == replies[1].count == 61
    assert replies[0].noise >= math.sqrt(2 * len(columns)) / mu_of(1.0, 1e-5)


def test_one_row_of_numbers_moves_one_bin_of_each_column():
    request = asked(clip_norm=2.0)
    columns = request.columns(3)
    before = count_rows(DATA, columns)
    for row in ([1e300, -1e300, 0.0], [2.0, -2.0, 2.0], [np.nan, np.inf, -np.inf]):
        changed = DATA.copy()
        changed[17] = row
        after = count_rows(changed, columns)
        assert after.sum() == before.sum() == 3 * len(DATA)
        assert np.linalg.norm(before - after) <= math.sqrt(6)


def test_a_release_that_fails_says_one_constant_sentence(monkeypatch):
    client = node()

    def broken(*_, **__):
        raise InputError("row 7 holds 'Smith'.")

    monkeypatch.setattr("fedwad.site.answers.release_columns", broken)
    said = unpack(client.respond(pack(Envelope(asked())))).content
    assert "Smith" not in said.sentence


def test_bins_need_a_clip_norm_or_a_public_schema():
    with fails(InputError, "missing-option"):
        PrivateColumnsRequest.of(DP(1.0), None)
    assert PrivateColumnsRequest.of(DP(1.0), SCHEMA).widths == (1, 2, 2, 4, 1, 1)


def test_a_schema_of_other_features_is_refused():
    with fails(InputError, "wrong-shape"):
        node().answer(asked(schema=SCHEMA))
