"""Tables that are read in batches: the sums of all rows, and a sample that no request chooses."""

import itertools
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.site.columns import Columns
from fedwad.site.raw import RawTable
from fedwad.site.reading import read_raw, read_sites
from fedwad.statistics import CellSums, merge_cells, summarise
from fedwad.tables import merge, part_of, profile, read_table
from fedwad.tables.batches import read_batches
from fedwad.transport import Measure

SUMS = ("kind", "count", "missing", "whole", "distinct", "levels", "level_counts", "other")


def visits(rows=9000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(60, 10, rows)),
            "chol": rng.choice([0.0, 180.5, 210.25, 240.0], rows),
            "grade": rng.integers(1, 5, rows),
            "sex": rng.choice(["f", "m", None], rows, p=[0.5, 0.4, 0.1]),
            "code": rng.choice([f"E{k}" for k in range(80)], rows, p=_shares(80)),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), "D"),
            "alive": rng.random(rows) < 0.3,
        }
    )


def _shares(levels):
    weights = 1.0 / np.arange(1, levels + 1)
    return weights / weights.sum()


def parts_of(table, cuts, held=2000, unit=None):
    edges = [0, *cuts, table.rows]
    pairs = itertools.pairwise(edges)
    return [part_of(table.take(slice(a, b)), a, held, unit) for a, b in pairs]


def test_parts_of_a_table_add_up_to_the_whole():
    table = read_table(visits())
    whole = merge(*parts_of(table, [100, 101, 4000, 8500], held=10**6))
    assert whole.rows == table.rows
    assert len(whole.keys) == table.rows
    ours, theirs = whole.profile(), profile(table)
    for one, two in zip(ours.columns, theirs.columns, strict=True):
        for field in fields(one):
            if field.name != "moments":
                assert getattr(one, field.name) == getattr(two, field.name), (one.name, field.name)
        np.testing.assert_allclose(one.moments, two.moments, rtol=1e-12)


def test_sums_are_those_of_all_rows_and_not_of_the_sample():
    table = read_table(visits())
    whole = merge(*parts_of(table, [3000, 6000], held=2000))
    assert len(whole.keys) == whole.sample.rows == 2000
    for one, two in zip(whole.profile().columns, profile(table).columns, strict=True):
        assert [getattr(one, name) for name in SUMS] == [getattr(two, name) for name in SUMS]
        np.testing.assert_allclose(one.moments, two.moments, rtol=1e-12)


def test_how_a_table_is_cut_changes_neither_sample_nor_digest():
    table = read_table(visits())
    one, two = (merge(*parts_of(table, cuts)) for cuts in ([10, 5000], [4000]))
    assert one.digest == two.digest
    np.testing.assert_array_equal(np.sort(one.keys), np.sort(two.keys))
    rows = [np.sort(part.sample["age"].values) for part in (one, two)]
    np.testing.assert_array_equal(*rows)


def test_another_value_gives_another_digest_and_the_order_of_rows_does_not():
    frame = visits()
    table = part_of(read_table(frame))
    assert part_of(read_table(frame.sample(frac=1, random_state=1))).digest == table.digest
    frame.loc[7, "chol"] = 181.0
    assert part_of(read_table(frame)).digest != table.digest


@pytest.mark.parametrize("levels", [2, 10**9])
def test_the_sample_is_a_random_one_also_of_equal_rows(levels):
    values = np.random.default_rng(3).integers(0, levels, 40_000).astype(float)
    whole = part_of(read_table(pd.DataFrame({"x": values})), held=4000)
    assert len(whole.keys) == 4000
    tolerance = 5 * values.std() / np.sqrt(4000)  # five standard errors
    assert abs(whole.sample["x"].values.mean() - values.mean()) < tolerance
    later = np.isin(whole.sample["x"].values, values[20_000:]) if levels > 2 else np.zeros(0)
    assert levels == 2 or abs(later.mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)


def test_all_rows_of_a_unit_are_in_the_sample_or_none():
    frame = visits().assign(patient=np.random.default_rng(1).integers(0, 3000, 9000))
    table = read_table(frame)
    whole = merge(*parts_of(table, [1000, 1500, 7000], unit="patient"))
    held, counts = np.unique(whole.sample["patient"].values, return_counts=True)
    everywhere = frame.patient.value_counts()
    assert 1500 < whole.sample.rows <= 2000
    np.testing.assert_array_equal(counts, everywhere[held.astype(int)])


def test_parts_of_different_tables_are_refused():
    one, two = (part_of(read_table(pd.DataFrame({name: [1.0, 2.0]}))) for name in "ab")
    with fails(InputError, "different-columns"):
        merge(one, two)
    text = part_of(read_table(pd.DataFrame({"a": ["x", "y"]})))
    with fails(InputError, "wrong-kind"):
        merge(one, text)


def test_a_rare_value_is_in_no_profile_of_sums():
    rows = pd.DataFrame({"x": [0.0] * 5000 + [7.0] + [0.0] * 4999, "s": ["a"] * 9999 + ["zoe"]})
    found = merge(*parts_of(read_table(rows), [5000], held=1000)).profile()
    assert found["x"].moments == ()
    assert found["x"].levels == ("0",)
    assert found["s"].levels == ("a",)
    assert found["s"].other == 1


def test_cells_of_parts_add_up():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(4000, 3)), rng.normal(5, 2, size=(5000, 3))])
    for kind in ("full", "diag", "spherical", "lowrank"):
        sample = summarise(Measure(rows[::10]), 6, kind)
        parts = [CellSums.of(part, sample.means, kind) for part in np.array_split(rows, 4)]
        found = merge_cells(*parts).summary(kind)
        np.testing.assert_allclose(found.mean, rows.mean(axis=0), atol=1e-12)
        total = found.total_covariance()
        exact = np.cov(rows.T, bias=True)
        if kind == "full":
            np.testing.assert_allclose(total, exact, atol=1e-11)
        assert found.count == 9000
        assert found.within_std == pytest.approx(
            merge_cells(CellSums.of(rows, sample.means, kind)).summary(kind).within_std, rel=1e-12
        )


def test_a_stored_index_is_no_column_of_a_large_file_either(tmp_path):
    frame = pd.DataFrame({"u": np.arange(5000.0)}, pd.Index(np.arange(5000), name="patient"))
    frame.to_parquet(tmp_path / "a.parquet")
    for options, names in (({}, ("u",)), ({"label": "patient"}, ("u", "patient"))):
        batches = read_batches(tmp_path / "a.parquet", held=1000, **options)
        assert next(iter(batches)).names == names
        assert read_table(tmp_path / "a.parquet", **options).names == names


def write(frame, folder, name):
    if name == "csv":
        frame.to_csv(folder / "visits.csv", index=False)
        return folder / "visits.csv"
    if name == "gz":
        frame.to_csv(folder / "visits.csv.gz", index=False)
        return folder / "visits.csv.gz"
    (folder / "visits").mkdir()
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        some = frame.iloc[part]
        if name == "parquet":
            some.to_parquet(folder / "visits" / f"{k}.parquet", index=False)
        else:
            some.to_csv(folder / "visits" / f"{k}.csv", index=False)
    return folder / "visits"


@pytest.fixture
def small_batches(monkeypatch):
    """Files of a few hundred kilobytes count as large ones, and are read some rows at a time."""
    sizes = {"batch_rows": 1000, "batch_bytes": 50_000, "large_bytes": 1}
    monkeypatch.setattr("fedwad.site.reading.read_batches", partial(read_batches, **sizes))


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", ["csv", "gz", "csvs", "parquet"])
def test_a_file_in_batches_has_the_table_one_of_the_file_in_memory(tmp_path, name):
    frame = visits()
    path = write(frame, tmp_path, name)
    held = read_raw(path, "held", Columns.of(schema="auto", max_rows=10**6))
    large = read_raw(path, "large", Columns.of(schema="auto", max_rows=2000))
    assert isinstance(held, RawTable)
    assert isinstance(large, RawTable)
    assert held.whole is None
    assert large.whole is not None
    assert (large.table.rows, large.rows) == (2000, len(frame))
    one, two = held.profile(10), large.profile(10)
    for a, b in zip(one.columns, two.columns, strict=True):
        assert [getattr(a, key) for key in SUMS] == [getattr(b, key) for key in SUMS], a.name
        np.testing.assert_allclose(a.moments, b.moments, rtol=1e-12)
        assert len(a.order) == len(b.order)
        for x, y, variance in zip(a.order, b.order, b.order_variance, strict=True):
            assert abs(x - y) < 6 * np.sqrt(variance) + 1e-9


@pytest.mark.usefixtures("small_batches")
def test_two_sites_larger_than_memory_are_compared(tmp_path):
    sites = {}
    for k, site in enumerate(("oslo", "paris")):
        sites[site] = tmp_path / f"{site}.csv"
        frame = visits(seed=k)
        frame.assign(age=frame.age + 8 * k).to_csv(sites[site], index=False)
    with pytest.warns(fedwad.DataWarning, match="in batches"):
        large = fedwad.local(sites, drop="code", max_rows=2000)
    held = fedwad.local(sites, drop="code")
    ours, theirs = (fedwad.distance(fed["oslo"], fed["paris"]) for fed in (large, held))
    assert ours.differs
    assert ours.explain().causes == ("age",)
    assert ours.lower == pytest.approx(theirs.lower, rel=1e-3)
    assert ours.lower <= ours.value <= ours.upper
    assert ours.upper == pytest.approx(theirs.upper, rel=0.05)
    low, high = theirs.population_interval
    assert low < ours.population < high
    assert ours.value == pytest.approx(theirs.value, rel=0.5)  # calibrated with 2000 of 9000 rows
    assert max(ours.pvalue, theirs.pvalue) < 0.01
    one, two = (fedwad.columns(fed).to_frame() for fed in (large, held))
    assert list(one.index) == list(two.index)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_one_large_table_is_split_into_sites(tmp_path, name):
    frame = visits().assign(centre=np.repeat(["Oslo", "oslo", "paris"], [4000, 4500, 500]))
    path = write(frame, tmp_path, name)
    with pytest.warns(fedwad.DataWarning):
        large = fedwad.local(path, by="centre", max_rows=3000)
    with pytest.warns(fedwad.DataWarning):
        held = fedwad.local(path, by="centre")
    assert [*large.names] == [*held.names] == ["Oslo", "oslo", "paris"]
    assert fedwad.columns(large).rows == fedwad.columns(held).rows == (4000, 4500, 500)
    one, two = (fedwad.columns(fed).to_frame() for fed in (large, held))
    assert list(one.index) == list(two.index)


@pytest.mark.usefixtures("small_batches")
def test_sites_by_a_date_have_its_name(tmp_path):
    days = pd.to_datetime(["2020-01-31", "2020-02-01"]).repeat(4500)
    visits().assign(centre=days).to_csv(tmp_path / "a.csv", index=False)
    for rows in (2000, 10**6):
        found = read_sites(
            tmp_path / "a.csv", Columns.of(schema="auto", by="centre", max_rows=rows)
        )
        assert [*found] == ["2020-01-31", "2020-02-01"]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("several", [0.05, 0.9], ids=["few", "survey"])
@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_units_at_several_sites_are_dealt_as_in_memory(tmp_path, name, several):
    """Before, a patient of two centres was split, and nothing said so."""
    rng = np.random.default_rng(4)
    patient = np.repeat(np.arange(3000), 3)
    centre = np.array(["Bergen", "Oslo", "paris"])[(patient % 7) // 3]
    moved = (rng.random(3000) < several)[patient] & (np.arange(9000) % 3 > 0)
    centre = np.where(moved, rng.choice(["Bergen", "Oslo", "paris"], 9000), centre)
    frame = visits().assign(
        patient_id=np.where(rng.random(9000) < 0.01, np.nan, patient),
        centre=np.where(rng.random(9000) < 0.02, None, centre),
    )
    path = write(frame, tmp_path, name)
    options = Columns.of(schema="auto", by="centre", max_rows=4200)
    held, large = (read_sites(data, options) for data in (read_table(path), path))
    assert [*held] == [*large] == ["Bergen", "Oslo", "paris"]
    assert [one.whole is None for one in large.values()] == [False, False, True]
    for site, raw in held.items():
        assert large[site].rows == raw.rows
        for a, b in zip(raw.profile(10).columns, large[site].profile(10).columns, strict=True):
            assert [getattr(a, key) for key in SUMS] == [getattr(b, key) for key in SUMS], a.name
        rows = sum(table.rows for table in large[site].batches or ())
        assert rows == (0 if large[site].whole is None else raw.rows)
    assert large["paris"].digest() == held["paris"].digest()
    notes = [{n for raw in sites.values() for n in raw.table.notes} for sites in (held, large)]
    assert len(notes[0]) == 2
    assert notes[0] == {note for note in notes[1] if "in batches" not in note}


@pytest.mark.usefixtures("small_batches")
def test_a_condition_that_leaves_few_rows_of_a_large_table(tmp_path):
    frame = visits()
    path = write(frame, tmp_path, "csv")
    options = {"schema": "auto", "where": ["grade=1", "age>=50"]}
    few = read_raw(path, columns=Columns.of(max_rows=1200, **options))
    held = read_raw(path, columns=Columns.of(**options))
    assert few.whole is None
    assert few.rows == held.rows == int(((frame.grade == 1) & (frame.age >= 50)).sum())
    assert few.digest() == held.digest()


@pytest.mark.usefixtures("small_batches")
def test_a_text_late_in_a_long_file_makes_a_column_of_texts(tmp_path):
    frame = visits().assign(chol=visits().chol.astype(object))
    frame.loc[8000, "chol"] = "high"
    path = write(frame, tmp_path, "csv")
    held, large = (
        read_raw(path, "x", Columns.of(schema="auto", max_rows=m)).profile(10)["chol"]
        for m in (10**6, 2000)
    )
    assert large.kind == held.kind == "category"
    assert large.level_counts == held.level_counts
    assert large.levels == held.levels


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_large_files_of_every_encoding(tmp_path, encoding):
    frame = visits(3000).assign(city=np.resize(["Zürich", "Genève"], 3000))
    (tmp_path / "visits.csv").write_bytes(frame.to_csv(index=False).encode(encoding))
    large = read_raw(tmp_path / "visits.csv", "x", Columns.of(schema="auto", max_rows=1000))
    assert large.rows == 3000
    assert large.profile(10)["city"].levels == ("Genève", "Zürich")
    wrong = Columns.of(schema="auto", max_rows=1000, encoding="ascii")
    with fails(InputError, "wrong-encoding"):
        read_raw(tmp_path / "visits.csv", "x", wrong)


@pytest.mark.usefixtures("small_batches")
def test_a_large_file_that_is_damaged(tmp_path):
    path = write(visits(3000), tmp_path, "gz")
    path.write_bytes(path.read_bytes()[:-2000])
    with fails(InputError, "unreadable-file"):
        read_raw(path, "x", Columns.of(schema="auto", max_rows=1000))


@pytest.mark.usefixtures("small_batches")
def test_quoted_cells_with_line_ends_are_not_cut(tmp_path):
    frame = visits(3000).assign(note='two\nlines, "so"')
    path = write(frame, tmp_path, "csv")
    large = read_raw(path, "x", Columns.of(schema="auto", max_rows=1000))
    assert large.rows == 3000


@pytest.mark.usefixtures("small_batches")
def test_conditions_units_and_kinds_of_a_large_table(tmp_path):
    frame = visits().assign(patient_id=np.arange(9000) // 3)
    path = write(frame, tmp_path, "csv")
    options = {"where": "grade>=2", "category": "chol", "keep": ["chol", "sex"]}
    held, large = (
        read_raw(path, "x", Columns.of(schema="auto", max_rows=m, **options)) for m in (10**6, 1500)
    )
    assert held.rows == large.rows == int((frame.grade >= 2).sum())
    assert large.unit.name == "patient_id"
    assert large.table.names == held.table.names
    assert large.profile(10)["chol"].levels == held.profile(10)["chol"].levels
    with fails(InputError, "unknown-column"):
        read_raw(path, "x", Columns.of(schema="auto", max_rows=1500, keep="cholesterol"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # PySpark's, about versions of pandas
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_spark_partitions_add_up_to_the_table(tmp_path, monkeypatch):
    """The recipe of docs/guides/your-own-tables.md, in local mode."""
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark")
    import shutil

    if shutil.which("java") is None:
        pytest.skip("needs java")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    frame = visits()
    paths = frame_in_files(frame, tmp_path / "visits", 8)
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
    spark = spark.config("spark.sql.files.openCostInBytes", 1 << 27)  # a partition for each file
    with spark.getOrCreate() as session:
        data = session.read.parquet(str(tmp_path / "visits"))
        assert data.rdd.getNumPartitions() == len(paths) == 8
        same_profile(recipe()["spark_profile"](session, str(tmp_path / "visits")), frame)


def test_dask_parts_add_up_to_the_table(tmp_path):
    """The other recipe of that page."""
    dask = pytest.importorskip("dask", reason="needs dask")
    frame = visits()
    paths = frame_in_files(frame, tmp_path / "visits", 8)
    same_profile(recipe()["dask_profile"](dask, paths), frame)


def recipe():
    """The code of the guide for clusters."""
    text = (Path(__file__).parents[2] / "docs/guides/your-own-tables.md").read_text()
    (code,) = [c for c in text.split("```python\n")[1:] if "mapInArrow" in c]
    names = {}
    exec(code.partition("```")[0], names)  # noqa: S102
    return names


def frame_in_files(frame, folder, count):
    folder.mkdir()
    paths = [folder / f"{k}.parquet" for k in range(count)]
    for path, rows in zip(paths, np.array_split(np.arange(len(frame)), count), strict=True):
        frame.iloc[rows].to_parquet(path, index=False, coerce_timestamps="us")
    return paths


def same_profile(ours, frame):
    theirs = profile(read_table(pa.Table.from_pandas(frame)))
    for one, two in zip(ours.columns, theirs.columns, strict=True):
        assert [getattr(one, name) for name in SUMS] == [getattr(two, name) for name in SUMS]
        np.testing.assert_allclose(one.moments, two.moments, rtol=1e-12)
