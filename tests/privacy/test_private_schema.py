"""A schema under differential privacy: sensitivity, likelihood ratios, accuracy, budget, errors."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwad
from failing import fails
from fedwad.engines.job import Job, run
from fedwad.errors import DataWarning, InputError, PolicyError
from fedwad.federation import (
    Client,
    Columns,
    Envelope,
    Policy,
    PrivateRequest,
    RawTable,
    pack,
    private_schema,
    read_raw,
    unpack,
)
from fedwad.federation.in_process import schema_of_tables
from fedwad.messages.private import PrivateSchemaReply, PrivateSchemaRequest
from fedwad.privacy import DP, compose, mu_of
from fedwad.privacy._mechanism import SUM_UNIT
from fedwad.privacy._schema import release_schema, schema_sensitivity, schema_sums
from fedwad.tables import Schema

DRAFT = Schema.from_toml(
    """
version = 1
[columns.age]
kind = "number"
range = [0, 100]
[columns.dose]
kind = "number"
range = [-2, 6]
missing = "indicator"
[columns.sex]
kind = "category"
levels = ["f", "m", "other"]
missing = "level"
[columns.smokes]
kind = "boolean"
missing = "indicator"
[columns.num]
kind = "label"
""",
    public=True,
)


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    dose = rng.normal(2, 1, rows)
    dose[rng.random(rows) < 0.2] = np.nan
    smokes = rng.choice(np.array([True, False, None], dtype=object), rows, p=[0.3, 0.6, 0.1])
    return pd.DataFrame(
        {
            "age": rng.normal(40, 12, rows),
            "dose": dose,
            "sex": rng.choice(np.array(["f", "m", "other", None], dtype=object), rows),
            "smokes": smokes,
            "num": rng.integers(0, 2, rows),
        }
    )


def row(age, dose, sex, smokes):
    return {"age": age, "dose": dose, "sex": sex, "smokes": smokes, "num": 0}


ROWS = st.builds(
    row,
    st.one_of(st.sampled_from([-1e300, 0.0, 21.3, 50.0, 100.0, 1e300]), st.floats(-20, 120)),
    st.one_of(st.just(math.nan), st.floats(-3, 7)),
    st.sampled_from(["f", "m", "unheard of", None]),
    st.sampled_from([True, False, None]),
)


def sums_of(rows):
    return schema_sums(DRAFT.encode(pd.DataFrame(rows)), DRAFT)


@given(ROWS, ROWS)
def test_one_row_changes_the_sums_by_no_more_than_claimed(first, second):
    fixed = row(50.0, 2.0, "f", True)  # so that no column is empty
    change = np.linalg.norm((sums_of([first, fixed]) - sums_of([second, fixed])) * SUM_UNIT)
    assert change <= schema_sensitivity(DRAFT) + math.sqrt(len(sums_of([fixed]))) * SUM_UNIT


def test_the_claimed_sensitivity_of_a_number_is_attained():
    draft = Schema(DRAFT.columns[:1], public=True)
    u = np.linspace(-1, 1, 401)
    sums = np.array(
        [schema_sums(draft.encode(pd.DataFrame({"age": [50 + 50 * x]})), draft) for x in u]
    )
    largest = max(np.linalg.norm((sums - one) * SUM_UNIT, axis=1).max() for one in sums)
    assert largest == pytest.approx(schema_sensitivity(draft), rel=1e-4)
    assert largest <= schema_sensitivity(draft) + math.sqrt(2) * SUM_UNIT


def test_likelihood_ratios_of_neighbours_are_those_of_the_claim():
    """Releases of two tables that differ in one row, judged by whoever knows both: a log likelihood
    ratio of N(mu, 1) against N(0, 1) has mean difference mu^2 and deviation mu, here at most."""
    mu, trials = 0.8, 2000
    fixed = row(50.0, 2.0, "m", False)
    changed = (row(0.0, 6.0, "f", True), row(64.6, -2.0, "m", False))
    points = [DRAFT.encode(pd.DataFrame([one, fixed])) for one in changed]
    worlds = [schema_sums(one, DRAFT) for one in points]
    deviation = schema_sensitivity(DRAFT) / mu
    ratios = []
    for world in (0, 1):
        random_bytes = np.random.default_rng(world).bytes
        found = np.array(
            [release_schema(points[world], DRAFT, mu, random_bytes)[0] for _ in range(trials)]
        )
        away = [((found - one * SUM_UNIT) ** 2).sum(axis=1) for one in worlds]
        ratios.append((away[0] - away[1]) / (2 * deviation**2))
    gap = ratios[1].mean() - ratios[0].mean()
    assert gap <= mu**2 + 4 * mu * math.sqrt(2 / trials)
    assert gap > 0.3 * mu**2  # the attack does see something, or the test could not fail
    for side in ratios:
        assert side.std() <= mu * (1 + 4 / math.sqrt(2 * trials))


def test_with_many_rows_the_schema_is_the_pooled_one():
    sites = {"paris": table(30_000, 1), "oslo": table(20_000, 2)}
    found = fedwad.schema(sites, epsilon=3, draft=DRAFT)
    pooled = pd.concat(sites.values())
    assert found.public
    assert found.conflicts == ()
    assert found["age"].centre == pytest.approx(pooled.age.mean(), rel=0.01)
    assert found["age"].scale == pytest.approx(pooled.age.std(), rel=0.02)
    assert found["dose"].centre == pytest.approx(pooled.dose.mean(), rel=0.02)
    assert found["dose"].scale == pytest.approx(pooled.dose.std(), rel=0.02)
    shares = pooled.sex.fillna("missing").value_counts(normalize=True)
    assert found["sex"].weight == pytest.approx(2 / (1 - (shares**2).sum()), rel=0.02)
    share = float(pooled.smokes.dropna().astype(float).mean())
    assert found["smokes"].centre == pytest.approx(share, rel=0.02)
    assert found["smokes"].scale == pytest.approx(math.sqrt(share * (1 - share)), rel=0.02)
    assert found.label == "num"


def test_what_noise_hides_stays_as_the_draft_has_it():
    with pytest.warns(DataWarning, match="noise hides how much column"):
        found = fedwad.schema({"paris": table(40)}, epsilon=0.1, draft=DRAFT)
    assert {conflict.problem for conflict in found.conflicts} == {"noise"}
    hidden = found.conflicts[0].column
    assert found[hidden] == DRAFT[hidden]


def test_a_draft_with_wide_ranges_gives_no_warning_about_units():
    wide = DRAFT.edited({"age": {"range": (0.0, 1e5), "centre": 5e4, "scale": 3e4}})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fedwad.schema({"paris": table(9000)}, epsilon=90, draft=wide)
    # Noise hides how much ages vary within 100,000 years, or by chance just does not.
    assert all("noise hides how much column 'age'" in str(one.message) for one in caught)


def node(epsilon=1.0, **options):
    policy = Policy(allow=["describe", "private"], epsilon=epsilon, **options)
    held = read_raw(table(500), "paris")
    assert isinstance(held, RawTable)
    return Client(held.encode(DRAFT, policy.min_level_size), policy)


def test_the_ledger_pays_and_repeats_are_free():
    client, request = node(), PrivateSchemaRequest(0.7, 1e-5, DRAFT.to_toml())
    first, again = client.answer(request), client.answer(request)
    spent, answered, _ = client.ledger.entries
    assert (spent.kind, spent.outcome, spent.mu) == ("private", "spent", mu_of(0.7, 1e-5))
    assert answered.outcome == "answered"
    np.testing.assert_array_equal(first.sums, again.sums)
    assert client.ledger.spent == mu_of(0.7, 1e-5)
    client.answer(PrivateRequest.of(DP(0.5, clip_norm=5.0)))  # one budget for both
    assert client.ledger.spent == pytest.approx(compose([mu_of(0.7, 1e-5), mu_of(0.5, 1e-5)]))
    with fails(PolicyError, "budget-spent"):
        client.answer(PrivateSchemaRequest(0.71, 1e-5, DRAFT.to_toml()))
    copy = unpack(pack(Envelope(first))).content
    assert isinstance(copy, PrivateSchemaReply)
    np.testing.assert_array_equal(copy.sums, first.sums)


def test_it_is_about_the_rows_that_meet_the_conditions():
    columns = Columns.of(schema=DRAFT, where="age>=1000")
    with fails(InputError, "empty-table"):
        schema_of_tables({"paris": table(100)}, columns, 5.0, 1e-5)


def test_a_site_with_another_schema_does_not_answer():
    other = DRAFT.edited({"age": {"range": (0.0, 90.0)}})
    with fails(InputError, "different-schema"):
        node().answer(PrivateSchemaRequest(0.5, 1e-5, other.to_toml()))
    assert Client(read_raw(np.ones((9, 2)))).ledger.spent == 0.0


def test_on_an_engine_it_is_the_same_job():
    policy = Policy(allow=["describe", "private"], epsilon=5.0)
    federation = fedwad.local({"a": table(4000, 1), "b": table(4000, 2)}, policy, schema=DRAFT)
    options = {"epsilon": 5.0, "delta": 1e-5, "draft": DRAFT.to_toml()}
    outcome = run(Job("schema", ("a", "b"), options), federation)
    found = Schema.from_dict(outcome)
    assert found == private_schema(federation, DRAFT, 5.0)  # the stored releases, at no cost
    assert found["age"].centre == pytest.approx(40, abs=2)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"epsilon": 1}, ("missing-option",)),
        ({"draft": DRAFT}, ("missing-option",)),
        ({"epsilon": 0, "draft": DRAFT}, ("bad-option", "epsilon")),
        ({"epsilon": 1, "draft": Schema(DRAFT.columns)}, ("not-public",)),
        ({"epsilon": 1, "draft": DRAFT.edited({"age": {"range": ()}})}, ("bad-schema", "age")),
        ({"epsilon": 1, "draft": "auto"}, ("bad-option",)),
    ],
)
def test_errors_are_one_sentence(options, problem):
    with fails(InputError, *problem) as caught:
        fedwad.schema({"paris": table(50)}, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('kind = "number"\nrange = [5]', ("bad-schema",)),
        ('kind = "number"\nrange = [5, 5]', ("bad-schema",)),
        ('kind = "number"\nrange = [0, inf]', ("bad-schema",)),
        ('kind = "number"', ("bad-schema",)),
        ('kind = "category"\nlevels = ["a"]\nrange = [0, 1]', ("unknown-key", "range")),
    ],
)
def test_slips_in_a_range(text, problem):
    with fails(InputError, *problem):
        Schema.from_toml(f"version = 1\n[columns.age]\n{text}\n")


def test_a_short_file_is_enough():
    short = Schema.from_toml(
        'version = 1\n[columns.a]\nkind = "number"\nrange = [0, 12]\n'
        '[columns.b]\nkind = "category"\nlevels = ["x", "y", "z", "other"]\n'
        '[columns.c]\nkind = "boolean"\n'
    )
    assert (short["a"].centre, short["a"].scale) == (6.0, pytest.approx(math.sqrt(12)))
    assert short["b"].weight == pytest.approx(2 / (1 - 1 / 3))
    assert (short["c"].centre, short["c"].scale) == (0.5, 0.5)
    assert Schema.from_toml(short.to_toml()) == short
