"""What answers must never say: differences that chance makes, and causes without a difference."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedwad
from fedwad.compare.answers import comparable, run_tests
from fedwad.statistics.blocking import block_means
from fedwad.statistics.testing import permutation_test


def assert_saved(result, tmp_path):
    """A result comes back from plain JSON, without NaN or Infinity, and a notebook shows it."""
    result.save(tmp_path / "result.json")

    def refuse(token):
        raise AssertionError(token)

    json.loads((tmp_path / "result.json").read_text(), parse_constant=refuse)
    again = type(result).load(tmp_path / "result.json")
    assert again == result
    assert again._repr_html_() == result._repr_html_()
    assert ">nan" not in result._repr_html_()
    assert getattr(again, "sentence", "") == getattr(result, "sentence", "")


@pytest.mark.slow
def test_two_large_samples_of_one_population_do_not_differ():
    x, y = np.random.default_rng(0).normal(size=(2, 100_000, 5))
    r = fedwad.distance(x, y)
    assert r.differs is False
    assert r.explain().causes == ()
    assert np.isnan(r.population)
    assert r.population_interval[0] == 0


def test_large_samples_by_their_blocks():
    """The same without the distance."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100_000, 5))
    found = permutation_test([block_means(points, None, rng) for points in (x, y)])
    assert found.pvalue > 0.05
    assert found.columns.min() > 0.05


def test_clusters_of_50_and_1500_rows_are_rejected_at_the_level():
    """At 5% more than nine of 100 are rejected in 3% of runs; the p-values are exact."""
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        centres = 3 * rng.normal(size=(6, 5))
        few, many = (
            block_means(
                centres[rng.integers(0, 6, n)] + rng.normal(size=(n, 5)), None, rng, scale=3.0
            )
            for n in (50, 1500)
        )
        rejected += permutation_test([few, many], permutations=999, seed=seed).pvalue <= 0.05
    assert rejected <= 9


def test_a_rare_level_is_rejected_at_the_level():
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        one, two = (block_means((rng.random((60, 1)) < 0.03) / 0.17, None, rng) for _ in range(2))
        rejected += permutation_test([one, two], seed=seed).pvalue <= 0.05
    assert rejected <= 10


@pytest.mark.filterwarnings("ignore:Column 'code' has more than 50")
@pytest.mark.parametrize(
    ("sizes", "policy"),
    [((600, 600, 600), None), ((900, 900), "summary"), ((100, 1500), "summary")],
)
def test_rare_levels_of_a_category_are_rejected_at_the_level(sizes, policy):
    """Levels that only some of the sites list; more than four of 25 at 5% come in 1% of runs."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, 301) ** 0.8
    policy = policy and fedwad.Policy.load(f"docs/policies/{policy}.toml")
    rejected = 0
    for _ in range(25):
        codes = rng.choice(300, sum(sizes), p=frequency / frequency.sum())
        table = pd.DataFrame({"code": [f"c{k}" for k in codes], "age": rng.normal(size=len(codes))})
        ends = np.cumsum(sizes)
        sites = {str(end): table[end - n : end] for end, n in zip(ends, sizes, strict=True)}
        rejected += fedwad.columns(fedwad.local(sites, policy)).test.pvalue <= 0.05
    assert rejected <= 4


def test_thirty_rows_are_too_few_and_the_answer_says_how_many_would_do():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.normal(5, 1, (30, 3))
    r, m = fedwad.distance(x, y), fedwad.matrix({"a": x, "b": y})
    assert r.differs is None
    assert r.enough == 40
    assert "40" in r.sentence
    assert m.sentence == r.sentence
    assert r.explain().causes == ()
    test = fedwad.permutation_test(x, y)
    assert test.differs is None
    assert "40" in test.sentence
    enough = fedwad.permutation_test(rng.normal(size=(40, 3)), rng.normal(5, 1, (40, 3)))
    assert enough.differs is True
    assert enough.enough == 0


def test_few_rows_beside_rows_with_weights_are_compared():
    """One site sends no blocks because of its weights and the other because of its rows."""
    rows = np.random.default_rng(0).normal(size=(40, 2))
    heavy = fedwad.transport.Measure(rows, np.arange(1.0, 41.0) / 820)
    assert fedwad.distance(heavy, rows[:5]).differs is None


@pytest.mark.parametrize("sizes", [(8, 8), (8, 300), (11, 11, 11), (8, 8, 8)])
def test_sites_with_fewer_rows_than_a_block_have_too_few(sizes):
    """They were called "not tested", as if a policy withheld the blocks."""
    rng = np.random.default_rng(0)
    sites = {str(k): rng.normal(size=(n, 2)) for k, n in enumerate(sizes)}
    m, t = fedwad.matrix(sites), fedwad.columns(sites)
    assert m.enough > 0
    assert t.enough > 0
    assert m.differs[0, 1] is None
    assert t.differs is None
    for sentence in (m.sentence, t.sentence):
        assert "a p-value of 5% takes about" in sentence
        assert "not tested" not in sentence


def test_a_site_with_blocks_of_another_size_does_not_end_the_test_of_others():
    rng = np.random.default_rng(0)
    own = [block_means(rng.normal(k == 2, 1, (300, 2)), None, rng) for k in range(4)]
    liar = replace(own[3], rows=10 * 2**20)
    assert comparable([*own[:3], liar]) == [0, 1, 2]
    assert comparable([own[0], liar]) == [0, 1]
    assert comparable([None, *own]) == [1, 2, 3, 4]
    found = run_tests([*own[:3], liar], [0, 1], 0)
    assert found.overall.pvalue < 0.05
    assert np.isnan(found.pvalue[3, :3]).all()


def test_the_rows_that_would_do_are_those_of_the_smallest_pair():
    rng = np.random.default_rng(0)
    data = {f"site{k}": rng.normal(size=(n, 2)) for k, n in enumerate((12, 120, 120, 120, 120))}
    m = fedwad.matrix(data)
    assert m.differs[0, 1] is None
    assert m.enough > 12
    data["site0"] = rng.normal(size=(m.enough, 2))
    assert fedwad.matrix(data).differs[0, 1] is not None


def visits(seed, patients=40, each=8):
    """A table of repeated visits: values of one patient are nearly the same."""
    rng = np.random.default_rng(seed)
    own = np.repeat(rng.normal(size=(patients, 2)), each, axis=0)
    values = own + 0.1 * rng.normal(size=own.shape)
    names = np.repeat([f"P{seed}-{k}" for k in range(patients)], each)
    return pd.DataFrame({"patient_id": names, "weight": values[:, 0], "pulse": values[:, 1]})


@pytest.mark.filterwarnings("ignore::fedwad.errors.DataWarning")
def test_repeated_visits_are_counted_by_patient():
    """As independent rows they would be rejected nearly always."""
    rejected, by_row = 0, 0
    for seed in range(12):
        a, b = visits(2 * seed), visits(2 * seed + 1)
        fed = fedwad.local({"a": a, "b": b})  # the unit is found by its name and its repeats
        rejected += fedwad.permutation_test(fed["a"], fed["b"]).differs is True
        x, y = (one[["weight", "pulse"]].to_numpy() for one in (a, b))
        by_row += fedwad.permutation_test(x, y).differs is True
    assert rejected <= 3
    assert by_row >= 7


def test_a_distance_and_a_matrix_of_two_agree_to_the_last_bit():
    rng = np.random.default_rng(1)
    for shift in (0.0, 1.0):
        x, y = rng.normal(size=(150, 3)), rng.normal(shift, 1, (200, 3))
        r, m = fedwad.distance(x, y), fedwad.matrix({"a": x, "b": y})
        for name in ("value", "lower", "upper", "noise", "pvalue", "smallest"):
            assert getattr(r, name) == getattr(m, name)[0, 1]
        np.testing.assert_equal(r.population, m.population[0, 1])
        assert r.population_interval == tuple(end[0, 1] for end in m.population_interval)
        assert r.differs is m.differs[0, 1]
        assert r.sentence == m.sentence
        assert r.explain() == m.explain("a", "b")
        assert (r.enough, r.notes, r.rows) == (m.enough, m.notes, m.rows)


def test_shares_sum_to_one_with_dependence_and_causes_need_a_difference():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 400, 3))
    y[:, 0] += 1
    y[:, 2] = 0.8 * y[:, 1] + 0.6 * y[:, 2]
    r = fedwad.distance(x, y)
    e = r.explain()
    assert r.differs is True
    assert e.causes == ("column 1",)
    assert e.share.sum() == pytest.approx(1.0)
    assert e.share[-1] > 0.1
    assert "column 1" in r.sentence
    same = np.random.default_rng(5).normal(size=(300, 3))
    for r in (fedwad.distance(x, same), fedwad.distance(x[:20], y[:20] + 9)):
        assert r.differs is not True
        assert r.explain().causes == ()
        assert "column" not in r.sentence
        assert np.isnan(r.population)


def test_sizes_that_are_very_unequal_are_said():
    rng = np.random.default_rng(3)
    r = fedwad.distance(rng.normal(size=(50, 2)), rng.normal(size=(1000, 2)))
    assert "50 to 1,000 rows" in r.sentence
    assert not fedwad.distance(rng.normal(size=(110, 2)), rng.normal(size=(190, 2))).notes


def test_a_site_too_small_for_its_cells_is_said():
    """Six clusters of 60 rows are 17% too far apart, since a cell takes ten rows."""
    rng = np.random.default_rng(3)
    r = fedwad.distance(rng.normal(size=(60, 2)), rng.normal(size=(120, 2)))
    (note,) = r.notes
    assert "60 rows" in note
    assert note in r.sentence
    few_values = rng.integers(0, 3, (300, 1)) * 1.0
    assert not fedwad.distance(few_values, few_values[::-1] + 1).notes


def test_an_interval_of_long_tails_holds_the_distance():
    """Two of the first three ended below it, since few rows show how long a tail is."""
    held = 0
    for seed in (0, 3, 12):
        rng = np.random.default_rng([seed, 6])
        x, y = (
            np.column_stack([np.exp(sigma * rng.normal(size=200)), rng.normal(size=200)])
            for sigma in (1.0, 1.3)
        )
        low, high = fedwad.distance(x, y).population_interval
        held += low <= 2.81 <= high
    assert held >= 2


def _two_tables(missing=0.0, rare=(0.05, 0.05), n=300):
    rng = np.random.default_rng(3)
    tables = {}
    for k, site in enumerate(("a", "b")):
        age = np.where(rng.random(n) < missing * k, np.nan, rng.normal(50, 10, n).round(1))
        tables[site] = pd.DataFrame(
            {
                "age": age,
                "rare": np.where(rng.random(n) < rare[k], "yes", "no"),
                "score": rng.choice([0, 10, 20, 30, 40, 50], n),
                "grp": rng.choice(["u", "v", None], n, p=[0.5, 0.4, 0.1]),
            }
        )
    return tables


def test_one_deviation_one_difference_and_one_denominator():
    """Table 1 and the explanation gave the same column with other divisors."""
    tables = _two_tables()
    e = fedwad.distance(tables["a"], tables["b"]).explain()
    t = fedwad.columns(tables)
    for name in ("age", "score"):
        k = e.names.index(name)
        assert e.here[k]["std"] == pytest.approx(tables["a"][name].std(), rel=1e-5)
        assert t[name]["a"].std == pytest.approx(tables["a"][name].std(), rel=1e-5)
    for name in t.names:
        assert e.smd[e.names.index(name)] == pytest.approx(t.smd[t.names.index(name)], abs=1e-6)
    known = tables["a"]["grp"].value_counts(normalize=True)
    here = e.here[e.names.index("grp")]
    assert {level: here[level] for level in ("u", "v")} == pytest.approx(known.to_dict())
    assert here["missing"] == pytest.approx(tables["a"]["grp"].isna().mean())


def test_missing_values_that_differ_are_named_in_table_one():
    t = fedwad.columns(_two_tables(missing=0.25))
    assert t.causes == ("age",)
    assert "missing in 0% to" in t.sentence
    assert t.missing_smd[t.names.index("age")] > t.smd[t.names.index("age")]


def test_quartiles_of_a_column_with_few_values_are_exact():
    tables = _two_tables()
    one = fedwad.columns(tables)["score"]["a"]
    assert one.quartiles == tuple(np.quantile(tables["a"]["score"], [0.25, 0.5, 0.75]))


def test_an_estimate_is_not_below_the_columns_that_differ_nor_printed_beside_zero():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 150, 12))
    y[:, 0] += 0.6
    r = fedwad.distance(x, y)
    e = r.explain()
    named = [e.names.index(name) for name in e.causes]
    assert r.population**2 >= e.contribution[named].sum() * (1 - 1e-6)
    low, _ = r.population_interval
    assert ("estimated at" in r.sentence) == (low > 0)
    assert low > 0 or "are at most" in r.sentence


def test_without_evidence_heterogeneity_has_no_number():
    x, y, z = np.random.default_rng(5).normal(size=(3, 200, 3))
    m = fedwad.matrix({"x": x, "y": y, "z": z})
    assert m.test.pvalue > 0.05
    assert m.heterogeneity.sentence == "no difference was found"
    assert "no difference was found" in m._repr_html_()


def test_every_result_is_saved_without_nan(tmp_path):
    rng = np.random.default_rng(4)
    data = {f"site{k}": rng.normal(k // 3, 1, (90, 3)) for k in range(4)} | {
        "tiny": rng.normal(size=(8, 3))
    }
    x, y = data["site0"], data["site3"]
    for r in (
        fedwad.distance(x, data["site1"]),
        fedwad.distance(x, y),
        fedwad.distance(x[:5], y[:5]),
        fedwad.distance(x, y, p=1),
        fedwad.distance(x, y, method="fedwad", support=4, rounds=2),
        fedwad.matrix(data),
        fedwad.matrix(data, p=1),
        fedwad.matrix(data, method="hub", support=4, rounds=1),
        fedwad.matrix(data).add(rng.normal(size=(60, 3)), "rome"),
        fedwad.permutation_test(x, y),
        fedwad.permutation_test(x[:20], y[:20]),
        fedwad.embed(data),
        fedwad.Reference.from_data(x),
    ):
        assert_saved(r, tmp_path)
    reference = fedwad.Reference.from_data(x)
    for new in (y, data["site1"]):
        drift = reference.compare(new, history=tmp_path / "history.jsonl")
        assert_saved(drift, tmp_path)
    assert "NaN" not in (tmp_path / "history.jsonl").read_text()


def test_an_answer_names_columns_with_their_own_pvalues_after_its_own():
    """The p-value of all columns together stood behind the name of one."""
    tables = _two_tables()
    moved = tables["a"].assign(score=tables["a"]["score"] + 15)
    drift = fedwad.Reference.from_data(tables["a"], "then").compare(moved, name="now")
    m = fedwad.matrix(
        fedwad.local(tables, fedwad.Policy(["describe", "columns", "summary"], 1, keep=True))
    )
    placed = m.add(moved, "now").placement("now")
    for answer, e in ((drift.sentence, drift.explain()), (placed.sentence, placed.explanation)):
        own = e.pvalue[e.names.index("score")]
        assert answer.endswith(f"in score (p = {own:.2g}).")
        assert "mostly" not in answer
        assert "nearest" not in answer


def test_a_column_that_agrees_contributes_nothing():
    tables = _two_tables()
    same = np.arange(300) % 4 < 2
    tables = {site: frame.assign(visit=np.where(same, "1", "2")) for site, frame in tables.items()}
    e = fedwad.distance(tables["a"], tables["b"]).explain()
    part = e.contribution[e.names.index("visit")]
    assert part == 0 or abs(part) > 1e-6


@pytest.mark.parametrize(("p", "q", "rows"), [(0.3, 0.5, 500), (0.1, 0.3, 200), (0.02, 0.08, 100)])
def test_an_interval_of_independent_zeros_and_ones_holds_the_distance(p, q, rows):
    """W2^2 is |p - q| a column; nine of ten intervals ended below it."""
    rng = np.random.default_rng(0)
    held, found = 0, []
    for seed in range(12):
        x, y = (rng.random((rows, 5)) < share for share in (p, q))
        r = fedwad.distance(x.astype(float), y.astype(float), seed=seed)
        low, high = r.population_interval
        held += low <= np.sqrt(5 * (q - p)) <= high
        found.append(r.population)
    assert held >= 11
    if rows >= 500:
        assert np.nanmean(found) == pytest.approx(np.sqrt(5 * (q - p)), rel=0.05)


@pytest.mark.parametrize(
    ("p", "q", "rows", "columns"),
    [(0.0, 0.03, 300, 1), (0.002, 0.02, 500, 1), (0.0, 0.03, 300, 3), (0.05, 0.1, 1000, 1)],
)
def test_an_interval_holds_a_value_that_is_rare_at_one_site_and_absent_at_the_other(
    p, q, rows, columns
):
    """Sites withhold the order statistics of a value that few rows have."""
    truth, held, squares = np.sqrt(columns * (q - p)), 0, []
    for seed in range(20):
        rng = np.random.default_rng([seed, rows])
        r = fedwad.distance(*((rng.random((rows, columns)) < one) * 1.0 for one in (p, q)))
        held += r.population_interval[0] <= truth <= r.population_interval[1]
        squares.append(np.nan_to_num(r.population) ** 2)
    assert held >= 17
    assert 0.5 * truth**2 <= np.mean(squares) <= 1.2 * truth**2


def test_an_interval_holds_a_dose_that_few_rows_of_one_site_have():
    """Four of 20 ended below it: nothing that sites send tells doses from zeros and ones."""
    held = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 6])
        x = (rng.random((300, 1)) < 0.03) * rng.exponential(size=(300, 1))
        low, high = fedwad.distance(np.zeros((300, 1)), x).population_interval
        held += low <= np.sqrt(0.03 * 2) <= high
    assert held >= 18


def test_columns_whose_unit_a_few_extreme_values_made_are_named():
    rng = np.random.default_rng(0)

    def two(*columns):
        return tuple(np.column_stack([draw() for draw in columns]) for _ in range(2))

    light = two(
        lambda: rng.normal(size=300),
        lambda: rng.exponential(size=300),
        lambda: rng.standard_t(4, 300),
        lambda: rng.poisson(0.1, 300),
        lambda: (rng.random(300) < 0.03).astype(float),
    )
    assert not any("extreme" in note for note in fedwad.distance(*light).notes)
    apart = light[0], light[1] + 40  # not extreme, but another population
    assert not any("extreme" in note for note in fedwad.distance(*apart).notes)
    a, b = two(lambda: rng.normal(size=300), lambda: rng.normal(size=300))
    b[:2, 1] = 1e5  # two typing errors
    r = fedwad.distance(a, b)
    notes = [note for note in r.notes if "extreme" in note]
    assert len(notes) == 1
    assert "column 2" in notes[0]
    assert "column 1" not in notes[0]
    assert notes[0] in r.sentence
