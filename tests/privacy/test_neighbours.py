"""Neighbouring tables: whatever one record holds, it moves one contribution and no public answer.

Each pair differs in one record, in the field that could do most harm. The released numbers are
drawn 20,000 times by the package's own mechanism. The best test between the two tables, at the
threshold that separates them best, bounds epsilon from below (Clopper and Pearson), and that bound
must stay within what was granted.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from failing import fails
from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    Client,
    Dataset,
    DescribeRequest,
    Envelope,
    Policy,
    PrivateRequest,
    open_client,
    pack,
    unpack,
)
from fedwad.privacy import DP, mu_of, split
from fedwad.privacy._mechanism import SUM_UNIT, add_noise
from fedwad.privacy._release import (
    CELL_SENSITIVITY,
    MOMENT_SENSITIVITY,
    class_sums,
    clip_to_unit_ball,
    moment_sums,
    multiply_rows,
)
from fedwad.site.answers import _class_indices
from fedwad.site.columns import Columns
from fedwad.site.reading import read_raw
from fedwad.tables import Schema, SchemaColumn
from fedwad.transport import Measure

COUNT, DRAWS, DELTA, EPSILON, RADIUS = 90, 20_000, 1e-5, 3.0, 4.0
HEADER = "id,age,chol,sex,ward,smoker,seen,diagnosis"
SCHEMA = Schema(
    (
        SchemaColumn("id", "ignored"),
        SchemaColumn("age", "number", centre=50.0, scale=10.0),
        SchemaColumn("chol", "number", centre=200.0, scale=40.0, missing="indicator"),
        SchemaColumn("sex", "category", levels=("f", "m")),
        SchemaColumn("ward", "category", levels=("1", "2", "other"), missing="level"),
        SchemaColumn("smoker", "boolean", centre=0.5, scale=0.5, missing="mean"),
        SchemaColumn("seen", "date", centre=18000.0, scale=300.0, missing="mean"),
        SchemaColumn("diagnosis", "label"),
    )
)
POLICY = 'name = "paris"\nallow = ["describe", "private"]\nepsilon = 3.0\nlabel_names = [0, 1]\n'
ASKED = PrivateRequest.of(DP(EPSILON, delta=DELTA, clip_norm=RADIUS, labels=(0, 1)))
PLAIN = "90,55,210,f,2,yes,2020-03-01,1"
#: The record that takes the place of PLAIN, and where; by the field that it is worst in.
PAIRS = {
    "the label is missing": "90,55,210,f,2,yes,2020-03-01,?",
    "the label is a word among numbers": "90,55,210,f,2,yes,2020-03-01,unclear",
    "the label is a fraction": "90,55,210,f,2,yes,2020-03-01,1.5",
    "the label has twenty digits": "90,55,210,f,2,yes,2020-03-01,99999999999999999999",
    "a value is missing where none may be": "90,,210,f,2,yes,2020-03-01,1",
    "a number is text": "90,unknown,1e400,f,2,yes,2020-03-01,1",
    "a number weighs all others down": "90,-1e300,1e300,f,2,yes,2020-03-01,0",
    "a category is not listed": '90,55,210,x,"ward 9",maybe,yesterday,1',
    "the id is another one's, and a word": "one,55,210,m,other,no,2020-03-01,0",
    "nothing is there, at the end of the file": ",,,,,,,",
    "the order of rows": "first",
}


def rows():
    rng = np.random.default_rng(0)
    found = []
    for k in range(COUNT - 1):
        age, chol = rng.normal(50, 10), rng.normal(200, 40)
        sex, ward, smoker = "fm"[k % 2], 1 + k % 2, ("yes", "no")[k % 3 == 0]
        found.append(f"{k},{age:.4f},{chol:.3f},{sex},{ward},{smoker},2019-0{1 + k % 9}-11,{k % 2}")
    return found


@pytest.fixture
def opened(tmp_path):
    """A function that opens a node with this last record."""

    def build(last):
        folder = tmp_path / str(abs(hash(last)))
        folder.mkdir(exist_ok=True)
        lines = [PLAIN, *rows()] if last == "first" else [*rows(), last]
        (folder / "data.csv").write_text("\n".join([HEADER, *lines]) + "\n")
        (folder / "policy.toml").write_text(POLICY)
        SCHEMA.save(folder / "schema.toml")
        return open_client(
            folder / "data.csv", folder / "policy.toml", schema=folder / "schema.toml"
        )

    return build


@dataclass
class Sums:
    """What a release adds noise to, given the outcome of its first query, and its costs."""

    values: list[NDArray[np.int64]]
    sensitivities: tuple[float, ...] = (MOMENT_SENSITIVITY, MOMENT_SENSITIVITY, CELL_SENSITIVITY)

    @classmethod
    def of(cls, client, whitening):
        points = client.data.measure.points
        n, d = points.shape
        shares = split(n, d, mu_of(EPSILON, DELTA), 2)
        first = clip_to_unit_ball(points / RADIUS)
        whitened = clip_to_unit_ball(multiply_rows(RADIUS * first, whitening / shares.clip_norm))
        classes = _class_indices(ASKED, client._context)
        sums = [moment_sums(first), moment_sums(whitened), class_sums(whitened, classes, 2).ravel()]
        return cls(sums), (shares.mu_first, shares.mu_second, shares.mu_cells)


def statistic(own, sums, costs, draws):
    """Log likelihood ratios of `draws` releases of one world, by whoever knows both."""
    zero, one = sums
    total = np.zeros(draws)
    for k, (sensitivity, mu) in enumerate(zip(zero.sensitivities, costs, strict=True)):
        a, b = (world.values[k] * SUM_UNIT for world in (zero, one))
        moved = np.flatnonzero(a != b)  # the rest has the same distribution in both
        if not len(moved):
            continue
        drawn, noise = add_noise(
            np.tile(own.values[k][moved], (draws, 1)),
            sensitivity,
            mu,
            np.random.default_rng(k).bytes,
        )
        a, b = a[moved], b[moved]
        total += (((drawn - a) ** 2).sum(axis=1) - ((drawn - b) ** 2).sum(axis=1)) / 2 / noise**2
    return total


def epsilon_bound(zero, one):
    """A number that epsilon exceeds with 99.9% confidence."""
    half = len(zero) // 2
    cuts = np.quantile(np.concatenate([zero[:half], one[:half]]), np.linspace(0.01, 0.99, 99))
    best, found = -math.inf, 0.0
    for cut in cuts:
        gain = ((one[:half] > cut).mean() - DELTA) / ((zero[:half] > cut).mean() + 1e-3)
        if gain > best:
            best, found = gain, cut
    n = len(zero) - half
    hits, alarms = int((one[half:] > found).sum()), int((zero[half:] > found).sum())
    hit = stats.beta.ppf(0.0005, hits, n - hits + 1) if hits else 0.0
    alarm = stats.beta.ppf(0.9995, alarms + 1, n - alarms) if alarms < n else 1.0
    return math.log((hit - DELTA) / alarm) if hit > DELTA else 0.0


def worlds(opened, last):
    clients = [opened(PLAIN), opened(last)]
    d = clients[0].data.measure.dimension
    found = [Sums.of(client, np.eye(d)) for client in clients]
    return [sums for sums, _ in found], found[0][1]


@pytest.mark.parametrize("last", PAIRS.values(), ids=PAIRS)
def test_one_record_moves_one_contribution(opened, last):
    sums, _ = worlds(opened, last)
    for zero, one, sensitivity in zip(
        *(world.values for world in sums),
        (MOMENT_SENSITIVITY, MOMENT_SENSITIVITY, CELL_SENSITIVITY),
        strict=True,
    ):
        moved = np.linalg.norm((zero - one) * SUM_UNIT)
        assert moved <= sensitivity + math.sqrt(zero.size) * SUM_UNIT


@pytest.mark.parametrize("last", PAIRS.values(), ids=PAIRS)
def test_no_public_answer_depends_on_one_record(opened, last):
    clients = [opened(PLAIN), opened(last)]
    asked = (
        DescribeRequest(),
        PrivateRequest.of(
            DP(1.0, delta=DELTA, clip_norm=RADIUS, labels=("0", "1"))
        ),  # refused: words
        PrivateRequest.of(
            DP(1.0, delta=DELTA, clip_norm=RADIUS, labels=(0, 1, 2))
        ),  # refused: one more
        PrivateRequest.of(DP(9.0, delta=DELTA, clip_norm=RADIUS)),  # refused: over the budget
        PrivateRequest.of(
            DP(1.0, delta=DELTA, clip_norm=RADIUS, centre=[0.0, 0.0])
        ),  # refused: two features
    )
    for request in asked:
        plain, other = (unpack(one.respond(pack(Envelope(request)))).content for one in clients)
        assert plain == other
    plain, other = (one.answer(ASKED) for one in clients)
    assert plain.count == other.count == COUNT
    assert np.array_equal(plain.noise, other.noise)


@pytest.mark.slow
@pytest.mark.parametrize("last", PAIRS.values(), ids=PAIRS)
def test_outputs_differ_by_no_more_than_epsilon_allows(opened, last):
    sums, costs = worlds(opened, last)
    zero, one = (statistic(world, sums, costs, DRAWS) for world in sums)
    assert epsilon_bound(zero, one) <= EPSILON
    assert epsilon_bound(-one, -zero) <= EPSILON


def test_the_bound_sees_what_a_label_column_of_text_did(opened):
    """If one label turned the column into text, all contributions to classes would vanish."""
    sums, costs = worlds(opened, PLAIN)
    gone = Sums([*sums[0].values[:2], np.zeros_like(sums[0].values[2])])
    zero, one = (statistic(world, [sums[0], gone], costs, 2000) for world in (sums[0], gone))
    assert epsilon_bound(zero, one) > EPSILON


@pytest.mark.parametrize("odd", [None, float("nan"), 1.5, "?", "", 2**70, "two\nlines", "w" * 300])
def test_labels_beside_arrays_are_read_one_by_one(odd):
    X = np.random.default_rng(0).uniform(-1, 1, (COUNT, 2))
    labels = np.empty(COUNT, dtype=object)
    labels[:] = [k % 2 for k in range(COUNT)]
    rules = Policy(("describe", "private"), epsilon=3.0, label_names=(0, 1))
    plain = Client(Dataset(Measure(X), labels.copy()), rules)
    labels[17] = odd
    other = Client(Dataset(Measure(X), labels), rules)
    codes = [_class_indices(ASKED, client._context) for client in (plain, other)]
    assert sorted(codes[1].tolist()) == sorted(
        [-1, *sorted(codes[0].tolist())[: COUNT // 2], *[1] * (COUNT // 2 - 1)]
    )
    assert plain.answer(DescribeRequest()) == other.answer(DescribeRequest())


def test_a_release_that_fails_says_one_constant_sentence(monkeypatch):
    client = Client(Dataset(Measure(np.zeros((10, 2)))), Policy(("private",), epsilon=3.0))

    def broken(*_, **__):
        raise InputError("row 7 holds 'Smith'.")

    monkeypatch.setattr("fedwad.site.answers.release", broken)
    said = unpack(client.respond(pack(Envelope(PrivateRequest.of(DP(1.0, clip_norm=1.0)))))).content
    assert "Smith" not in said.sentence
    assert "log" in said.sentence
    assert all("Smith" not in entry.reason for entry in client.ledger.entries)


def test_what_cannot_be_released_is_found_out_when_the_client_opens():
    rules = Policy(("private",), epsilon=3.0)
    with fails(InputError, "bad-weights"):
        Client(Dataset(Measure(np.eye(3), np.array([0.5, 0.25, 0.25]))), rules)
    with fails(InputError, "too-many-features"):
        Client(Dataset(Measure(np.zeros((10, 300)))), rules)
    with fails(InputError, "missing-labels"):
        Client(Dataset(Measure(np.eye(3))), Policy(("private",), epsilon=3.0, label_names=["a"]))


def test_classes_are_those_of_the_policy():
    labels = np.array(["ill"] * 5 + ["well"] * 5)
    client = Client(Dataset(Measure(np.zeros((10, 2))), labels), Policy(("private",), epsilon=3.0))
    with fails(PolicyError, "unknown-label"):
        client.answer(PrivateRequest.of(DP(1.0, clip_norm=1.0, labels=("ill",))))
    for names in ([1.5], ["a", 1], ["a", "a"], [1, 1], "ab", [10**20], ["1", "01"]):
        with fails(InputError, "bad-policy"):
            Policy(("private",), epsilon=3.0, label_names=names)
    with fails(InputError, "bad-policy"):
        Policy(("summary",), label_names=["a"])


@pytest.mark.parametrize("odd", ['"50', '5"0,"', '""50', '"a"b', '50,"'])
def test_a_quote_that_stays_open_takes_no_other_record(tmp_path, odd):
    """Under an epsilon a record ends where its line ends; one quote once swallowed nine others."""
    rows = [
        f'{age},"{word}"' for age, word in zip(range(30, 50), "abcdefghijklmnopqrst", strict=True)
    ]
    columns = replace(Columns.of(unit=None, header=True, encoding="utf-8"), elementwise=True)

    def read_lines(lines):
        (tmp_path / "a.csv").write_text("\n".join(["age,word", *lines]) + "\n", encoding="utf-8")
        return read_raw(tmp_path / "a.csv", columns=columns).table

    table = read_lines(rows)
    changed = read_lines([*rows[:4], odd if "," in odd else f"{odd},e", *rows[5:]])
    assert changed.rows == table.rows
