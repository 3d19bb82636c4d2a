"""Columns that change from the first row of a table to the last."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

import fedwad
from fedwad.tables import read_table
from fedwad.tables.select import count_copies, trends

RNG = np.random.default_rng(7)


def mixed(rng, n):
    """Numbers with heavy tails, ties and missing values, a rare flag and a category."""
    return {
        "normal": rng.normal(size=n),
        "pareto": rng.pareto(1.5, n),
        "rounded": np.round(rng.normal(size=n)),
        "rare": (rng.random(n) < 0.03).astype(int),
        "level": np.array(["x", "y", "z"])[rng.integers(0, 3, n)],
        "holes": [None if u < 0.1 else float(u) for u in rng.random(n)],
    }


@pytest.mark.parametrize("n", [12, 60, 300])
def test_a_shuffled_table_is_named_as_rarely_as_promised(n):
    rng = np.random.default_rng(n)
    named = sum(bool(trends(read_table(pa.table(mixed(rng, n))), alpha=0.05)) for _ in range(400))
    assert named <= 0.05 * 400 + 3 * np.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize("name", ["normal", "pareto", "rounded", "level", "holes"])
def test_a_table_in_the_order_of_a_column_names_it_first(name):
    table = pa.table(mixed(RNG, 300)).sort_by(name)
    assert trends(read_table(table))[:1] == (name,)


def test_a_p_value_is_that_of_spearman():
    values = RNG.normal(size=400) + np.linspace(0, 0.6, 400)
    p = spearmanr(values, np.arange(400)).pvalue
    table = read_table(pa.table({"x": values}))
    assert trends(table, alpha=1.5 * p) == ("x",)
    assert trends(table, alpha=p / 1.5) == ()


def test_visits_of_one_patient_beside_each_other_are_no_trend():
    named = {True: 0, False: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        patient = np.repeat(rng.permutation(40), 8)
        table = read_table(pa.table({"x": rng.normal(size=40)[patient]}))
        for known in named:
            named[known] += bool(trends(table, units=patient if known else None, alpha=0.05))
    assert named[True] <= 8
    assert named[False] > 20


def test_dates_identifiers_and_the_label_may_order_a_table():
    days = pa.array(range(200), pa.int32()).cast(pa.date32())
    order = list(range(200))
    table = read_table(pa.table({"day": days, "patient_id": order, "outcome": order}))
    assert trends(table, "outcome") == ()
    assert trends(table) == ("outcome",)


def test_columns_without_values_and_one_row():
    empty = pa.table({"x": pa.array([None] * 9, pa.float64()), "y": [1.0] * 9})
    assert trends(read_table(empty)) == ()
    assert trends(read_table(pa.table({"x": [1.0], "z": ["a"]}))) == ()


def test_the_holder_of_a_sorted_table_is_told_and_no_reply_depends_on_it():
    rng = np.random.default_rng(3)
    tables = {name: pa.table({"age": rng.normal(50, 9, 120)}) for name in ("oslo", "paris")}
    shuffled = fedwad.local(tables)
    ordered = fedwad.local(tables | {"oslo": tables["oslo"].sort_by("age")})
    assert shuffled.notes == ()
    assert len(ordered.notes) == 1
    assert "oslo" in ordered.notes[0]
    first, other = (fedwad.distance(fed["oslo"], fed["paris"]) for fed in (shuffled, ordered))
    assert first.to_dict() == other.to_dict()


def test_an_export_that_is_there_twice_is_named_and_alike_rows_of_levels_are_not():
    rng = np.random.default_rng(5)
    sizes = {"alike": 0, "twice": 0}
    for _ in range(20):
        once = pa.table(mixed(rng, 100))
        few = once.select(["rare", "level", "rounded"])
        ages = pa.table({"age": rng.integers(0, 500, 300)})
        sizes["alike"] += sum(count_copies(read_table(one)) for one in (once, few, ages))
        sizes["twice"] += count_copies(read_table(pa.concat_tables([once, once])))
    assert sizes == {"alike": 0, "twice": 2000}
    fed = fedwad.local({"oslo": pa.concat_tables([once, once]), "paris": once})
    assert len(fed.notes) == 1
    assert "oslo (100 of 200)" in fed.notes[0]
