"""Tables as they really are: many codes, units, typing errors, words of another language."""

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import assert_one_sentence, fails
from fedwad.errors import InputError
from fedwad.tables import agree, profile, read_table
from fedwad.tables.select import find_unit, split_rows


def agreed(tables, least=10):
    return agree({site: profile(table, least) for site, table in tables.items()})


def problems(schema, column):
    for conflict in schema.conflicts:
        assert_one_sentence(conflict.sentence)
    return [conflict.problem for conflict in schema.conflicts if conflict.column == column]


def numbers(mean, std, n=200, seed=0):
    return np.random.default_rng(seed).normal(mean, std, n)


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_other_is_a_level_like_any_other(share):
    rng = np.random.default_rng(0)
    tables = {
        site: pd.DataFrame({"payer": rng.choice(["other", "state"], 200, p=[p, 1 - p])})
        for site, p in (("paris", share), ("oslo", share / 2))
    }
    schema = agreed(tables)
    assert schema["payer"].levels == ("state", "other")
    fraction = (tables["paris"].payer == "other").mean()
    mean = schema.encode(tables["paris"]).mean(axis=0)
    assert schema.describe(mean)["payer"]["other"] == pytest.approx(fraction)


def codes(n, seed, kinds=300):
    """Codes of diagnoses; frequencies fall like 1/k."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, kinds + 1)
    return [f"I{k:03d}" for k in rng.choice(kinds, n, p=weights / weights.sum())]


def test_of_many_codes_the_frequent_ones_are_compared():
    tables = {s: pd.DataFrame({"icd": codes(800, k)}) for k, s in enumerate(("paris", "oslo"))}
    assert tables["paris"].icd.nunique() > 50
    schema = agreed(tables)
    assert schema["icd"].kind == "category"
    assert {"I000", "I001", "other"} <= set(schema["icd"].levels)
    assert len(schema["icd"].levels) <= 51
    assert problems(schema, "icd") == ["many levels"]
    for table in tables.values():
        sent = profile(table, 10)["icd"]
        assert min(sent.level_counts) >= 10
        assert len(sent.levels) <= 50


def test_the_levels_of_many_sites_are_no_more_than_those_of_one():
    tables = {
        str(site): pd.DataFrame({"icd": [f"{site}{code}" for code in codes(2000, site)]})
        for site in range(5)
    }
    assert len(agreed(tables)["icd"].levels) <= 51


@pytest.mark.parametrize("name", ["patient", "subject_id", "Patientennummer", "who"])
def test_numbers_of_patients_are_not_listed(name):
    """Each patient has 12 visits, so that a level is 12 rows of one person."""
    table = pd.DataFrame({name: [f"P{k:03d}" for k in range(60)] * 12, "x": numbers(0, 1, 720)})
    assert profile(table, 10)[name].levels == ()
    assert name in agreed({"paris": table, "oslo": table}).ignored


UNITS = {
    "cholesterol": ((240, 50), (228, 46), 1 / 38.67),
    "glucose_mg": ((105, 30), (112, 38), 1 / 18.016),
    "creatinine": ((1.0, 0.3), (1.1, 0.36), 88.42),
    "triglycerides": ((150, 60), (160, 70), 1 / 88.57),
    "bilirubin": ((0.8, 0.3), (0.9, 0.35), 17.10),
    "uric_acid": ((5.5, 1.4), (5.8, 1.5), 59.48),
    "calcium": ((9.5, 0.5), (9.4, 0.5), 1 / 4.008),
    "Hb": ((14.0, 1.5), (13.2, 1.5), 1 / 1.6114),
    "weight": ((75, 14), (80, 17), 2.20462),
    "height": ((172, 9), (168, 10), 1 / 2.54),
}


@pytest.mark.parametrize("name", UNITS)
def test_units_of_known_quantities_at_different_hospitals(name):
    here, there, factor = UNITS[name]
    one = pd.DataFrame({name: numbers(*here, seed=1)})
    two = pd.DataFrame({name: numbers(*there, seed=2) * factor})
    assert problems(agreed({"paris": one, "oslo": two}), name) == ["units"]
    same = pd.DataFrame({name: numbers(*there, seed=2)})
    assert problems(agreed({"paris": one, "oslo": same}), name) == []


def test_patients_that_differ_are_not_accused_of_their_units():
    for name, here, there in (
        ("hb", (14.5, 1.5), (9.0, 1.5)),  # anaemia
        ("weight", (75, 12), (25, 8)),  # children
        ("creatinine", (1.0, 0.3), (6.0, 3.0)),  # dialysis
        ("glucose", (95, 12), (190, 60)),  # diabetes
    ):
        tables = {
            "a": pd.DataFrame({name: numbers(*here)}),
            "b": pd.DataFrame({name: numbers(*there, seed=1)}),
        }
        assert problems(agreed(tables), name) == [], name


def test_temperatures_of_different_patients():
    for celsius, other in (((36.8, 0.6), (36.9, 0.65)), ((11.0, 8.0), (12.0, 8.4))):
        one = pd.DataFrame({"temp": numbers(*celsius)})
        two = pd.DataFrame({"temp": numbers(*other, seed=3) * 1.8 + 32})
        (conflict,) = agreed({"paris": one, "boston": two}).conflicts
        assert conflict.problem == "units"
        assert "Fahrenheit" in conflict.sentence


@pytest.mark.parametrize(("mean", "std"), [(500, 300), (40, 25), (20, 15)])
def test_populations_in_thousands_are_no_temperatures(mean, std):
    rng = np.random.default_rng(0)
    small = rng.gamma((mean / std) ** 2, std**2 / mean, 400)
    tables = {
        "a": pd.DataFrame({"pop": small}),
        "b": pd.DataFrame({"pop": small * 1.8 * rng.normal(1, 0.02, 400) + 9}),
    }
    assert not [c for c in agreed(tables).conflicts if "Fahrenheit" in c.sentence]


def test_nine_years_of_schooling_are_no_code_for_missing():
    rng = np.random.default_rng(0)
    tables = {"cities": pd.DataFrame({"years": rng.normal(14, 1.5, 300).round()})}
    tables["villages"] = pd.DataFrame({"years": rng.normal(9, 2.5, 300).round()})
    assert problems(agreed(tables), "years") == []
    farms = pd.DataFrame({"years": rng.normal(4, 1.2, 300).round()})
    assert problems(agreed({"farms": farms, "villages": tables["villages"]}), "years") == []
    coded = pd.DataFrame(
        {"years": np.where(rng.random(300) < 0.1, 99, rng.normal(14, 1.5, 300).round())}
    )
    assert problems(agreed(tables | {"coded": coded}), "years") == ["suspicious value"]


def test_dates_with_dashes_and_the_day_first():
    from fedwad.tables import read_table

    days = ["17-08-1984", "01-02-1990"]
    column = read_table(pd.DataFrame({"born": days}))["born"]
    assert column.kind == "date"
    assert column.values.tolist() == [5342.0, 7336.0]
    assert read_table(pd.DataFrame({"born": ["08-17-1984"]}))["born"].values.tolist() == [5342.0]
    assert read_table(pd.DataFrame({"born": ["01-02-1984"]}))["born"].kind == "category"


def test_a_typing_error_among_levels():
    rng = np.random.default_rng(0)
    one = pd.DataFrame({"sex": rng.choice(["female", "male"], 100)})
    two = pd.DataFrame({"sex": rng.choice(["femal", "male"], 100)})
    assert problems(agreed({"paris": one, "oslo": two}), "sex") == ["spelling"]
    angina = pd.DataFrame({"cp": rng.choice(["typical angina", "atypical angina"], 100)})
    grade = pd.DataFrame({"cp": rng.choice(["grade A", "grade B", "type1", "type2"], 100)})
    for table in (angina, grade):
        assert problems(agreed({"paris": table, "oslo": table}), "cp") == []


def test_two_levels_of_one_site_are_no_typing_error():
    rng = np.random.default_rng(0)
    one = pd.DataFrame({"country": rng.choice(["Iceland", "Ireland"], 100)})
    two = pd.DataFrame({"country": rng.choice(["Iceland", "France"], 100)})
    assert problems(agreed({"paris": one, "oslo": two}), "country") == []


def test_levels_of_another_language():
    rng = np.random.default_rng(0)
    one = pd.DataFrame({"sex": rng.choice(["female", "male"], 100)})
    two = pd.DataFrame({"sex": rng.choice(["weiblich", "männlich"], 100)})
    (conflict,) = agreed({"boston": one, "berlin": two}).conflicts
    assert conflict.problem == "coding"
    assert "another language" in conflict.sentence


@pytest.mark.parametrize("first", ["Jan 31 2000", "Jan 31, 2000", "31-Jan-2000", "31 January 2000"])
def test_dates_with_names_of_months(first):
    texts = [first, first.replace("31", "1").replace("2000", "2010")]
    column = read_table(pd.DataFrame({"date": texts}))["date"]
    assert column.kind == "date"
    np.testing.assert_array_equal(column.values, [10987.0, 14610.0])


def test_names_of_columns_in_single_quotes(tmp_path):
    (tmp_path / "x.csv").write_text("'age','vote'\n61,1\n45,0\n")
    assert read_table(tmp_path / "x.csv").names == ("age", "vote")


def test_words_and_numbers_separated_by_spaces_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text('"OBS" "GPA" "TUCE"\n1 2.66 20\n2 2.89 22\n')
    with fails(InputError, "not-a-table"):
        read_table(tmp_path / "x.csv")
    (tmp_path / "y.csv").write_text("blood pressure\n120\n130\n")
    assert read_table(tmp_path / "y.csv").names == ("blood pressure",)


def test_parties_are_no_patients():
    rng = np.random.default_rng(0)
    votes = pd.DataFrame({"PID": rng.integers(0, 7, 300), "age": rng.normal(50, 10, 300)})
    assert find_unit(read_table(votes), ()) is None
    visits = pd.DataFrame({"pid": np.arange(300) // 3, "age": rng.normal(50, 10, 300)})
    assert find_unit(read_table(visits), ()) == "pid"


@pytest.mark.parametrize("shared", [False, True])
def test_people_of_a_repeated_survey_stay_in_their_years(shared):
    people = np.arange(200)
    years = pd.DataFrame({"year": np.repeat([1984, 1985], 200), "person": np.tile(people, 2)})
    years.loc[200:, "person"] += 0 if shared else 195  # all or five of them in both years
    table = read_table(years)
    rows, notes = split_rows(table, "year", table["person"].values)
    assert [len(own) for own in rows.values()] == ([200, 200] if shared else [205, 195])
    assert ("repeated surveys" in notes[0]) == shared


def test_spreads_that_pass_into_each_other_are_no_units():
    sales = {
        f"sector {k}": pd.DataFrame({"assets": numbers(8 * 1.6**k, 9 * 1.6**k, seed=k)})
        for k in range(9)
    }
    assert [problem for problem in problems(agreed(sales), "assets") if problem == "units"] == []
    two = {key: sales[key] for key in ("sector 0", "sector 1")}
    thousands = {f"{key} in thousands": table * 1000 for key, table in two.items()}
    assert "units" in problems(agreed({**two, **thousands}), "assets")


def skewed(n, seed, factor=1.0):
    """Sizes of tumours in mm, times a factor."""
    values = np.random.default_rng(seed).lognormal(np.log(26), 0.5, n) * factor
    return pd.DataFrame({"tsize": values})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [0.1, 0.001])
def test_a_small_site_hides_no_wrong_unit(factor, seed):
    small = skewed(25, 50 + seed)
    small.tsize = small.tsize.mean() * 0.85 + (small.tsize - small.tsize.mean()) * 0.65
    sites = {"cm": skewed(110, seed, factor), "mm": skewed(160, 20 + seed), "small": small}
    assert problems(agreed(sites), "tsize") == ["units"]
    more = {**sites, "other": skewed(130, 30 + seed)}
    assert problems(agreed(more), "tsize") == ["units"]


@pytest.mark.parametrize("seed", range(20))
def test_small_sites_of_one_population_are_not_accused_of_their_units(seed):
    rows = (12, 15, 25, 60, 200)
    sites = {f"site {k}": skewed(n, 100 * seed + k) for k, n in enumerate(rows)}
    assert problems(agreed(sites), "tsize") == []


@pytest.mark.parametrize(
    "years", [[2020, 2021], [2019, 2020, 2021], [2020, 2020], [2020, 2020, 2021]]
)
def test_the_dates_of_periods_are_not_what_differs_between_them(years):
    rng = np.random.default_rng(0)
    tables = {}
    for k, year in enumerate(years):
        days = pd.to_timedelta(rng.integers(0, 365, 200), unit="D")
        born = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 9000, 200), unit="D")
        seen = pd.Timestamp(f"{year}-01-01") + days
        tables[f"site {k}"] = pd.DataFrame({"seen": seen, "born": born})
    schema = agreed(tables)
    assert schema["born"].kind == "date"
    ignored = len(set(years)) == len(years)
    assert schema["seen"].kind == ("ignored" if ignored else "date")
    assert ("periods" in problems(schema, "seen")) == ignored


@pytest.mark.parametrize(("rare", "warned"), [(0.01, False), (0.2, True)])
def test_a_rare_value_that_a_site_has_not_is_chance(rare, warned):
    """200 rows have none of 1% in one case of eight, and none of 20% never."""
    rng = np.random.default_rng(0)
    flags = {
        s: pd.DataFrame({"flag": (rng.random(400) < rare) * 1, "x": numbers(0, 1, 400)})
        for s in "ab"
    }
    flags["c"] = pd.DataFrame({"flag": [0] * 200, "x": numbers(0, 1, 200)})
    assert ("constant" in problems(agreed(flags), "flag")) == warned


def test_a_column_that_hardly_varies_at_one_site_does_not_end_a_comparison():
    """The last rounds of a league were played in two days of one year, all others over decades."""
    days = {"a": numbers(6000, 4000), "b": numbers(6100, 4000, seed=1), "c": numbers(7400, 0.5)}
    day = pd.Timestamp("1970-01-01")
    tables = {
        site: pd.DataFrame(
            {"played": day + pd.to_timedelta(own, unit="D"), "goals": numbers(2, 1, seed=k)}
        )
        for k, (site, own) in enumerate(days.items())
    }
    assert "less at c" in agreed(tables).ignored["played"]
    fed = fedwad.local(tables)
    assert fedwad.permutation_test(fed["a"], fed["c"]).pvalue > 0.01


def test_the_columns_of_sites_with_one_row_are_no_names_of_sites():
    """A table by month, in which each month is a row."""
    rows = {
        f"2020-{k:02d}": pd.DataFrame({"jobs": [1e6 + k], "unfilled": [5.0 * k]})
        for k in range(1, 13)
    }
    schema = agreed(rows, 1)
    assert not [c for c in schema.conflicts if c.problem == "site name"]
    assert schema["jobs"].kind == "number"


def test_people_of_one_name_are_no_unit():
    people = pd.DataFrame({"last_name": [f"n{k // 2}" for k in range(300)], "age": range(300)})
    assert find_unit(read_table(people), ()) is None


def test_sites_by_a_date_have_its_name():
    days = pd.to_datetime(["2020-01-31 00:00", "2020-02-01 06:00"]).repeat(20)
    rows, _ = split_rows(read_table(pd.DataFrame({"day": days, "x": range(40)})), "day", None)
    assert list(rows) == ["2020-01-31", "2020-02-01 06:00:00"]
