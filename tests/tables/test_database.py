"""Tables in SQLite, DuckDB and a real PostgreSQL: the same digits, one sentence, no secret."""

# ruff: noqa: S608

import dataclasses
import json
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedwad
from command_line import run
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import ColumnsRequest, DescribeRequest, SummaryRequest
from fedwad.messages.codec import convert, to_builtins
from fedwad.site.columns import Columns
from fedwad.site.reading import read_raw
from fedwad.tables import has_password, is_database, read_table, redact
from postgres import PASSWORD


def visits(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(60, 10, n).round(1),
            "sex": rng.choice(["f", "m"], n),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "centre": rng.choice(["oslo", "paris"], n),
        }
    )


TABLE = visits()
TABLE.loc[3, "age"] = np.nan


def same_table(one, two):
    assert one.names == two.names
    for column in one.columns:
        assert column.kind == two[column.name].kind
        assert column.levels == two[column.name].levels
        np.testing.assert_array_equal(column.values, two[column.name].values)


def write_sqlite(folder):
    with sqlite3.connect(folder / "visits.db") as connection:
        TABLE.assign(seen=TABLE.seen.dt.strftime("%Y-%m-%d")).to_sql(
            "visits", connection, index=False
        )
    connection.close()
    return f"sqlite:///{folder / 'visits.db'}"


def write_duckdb(folder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "visits.duckdb")) as connection:
        TABLE.to_parquet(folder / "visits.parquet")
        connection.execute(f"CREATE TABLE visits AS FROM '{folder / 'visits.parquet'}'")
    return f"duckdb:///{folder / 'visits.duckdb'}"


@pytest.fixture(scope="module")
def server(postgresql):
    """The address of a PostgreSQL with the table `visits`."""
    import adbc_driver_postgresql.dbapi as dbapi

    with dbapi.connect(postgresql) as connection, connection.cursor() as cursor:
        rows = TABLE.assign(seen=TABLE.seen.dt.date)
        cursor.execute(
            "CREATE TABLE visits (age double precision, sex text, seen date, centre text, dose numeric)"
        )
        for age, sex, seen, centre in rows.itertuples(index=False):
            value = "NULL" if age != age else str(age)
            cursor.execute(
                f"INSERT INTO visits VALUES ({value}, '{sex}', '{seen}', '{centre}', 2.5)"
            )
        connection.commit()
    return postgresql


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def address(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("server")
    return (write_sqlite if request.param == "sqlite" else write_duckdb)(tmp_path)


COLUMNS = "age, sex, seen, centre"


def test_a_table_and_a_query_are_read_as_the_frame_is(address):
    expected = read_table(TABLE)
    same_table(read_table(address, query=f"SELECT {COLUMNS} FROM visits"), expected)
    assert read_table(address, query="visits").rows == len(TABLE)
    few = read_table(
        address, query="WITH old AS (SELECT * FROM visits WHERE age > 60) SELECT age, sex FROM old;"
    )
    assert few.rows == int((TABLE.age > 60).sum())


def test_a_large_answer_is_read_in_batches(address):
    """Ten times the rows, of which 1000 are held."""
    ten = "(SELECT age AS other FROM visits LIMIT 10) AS ten"
    query = f"SELECT age, sex, seen, visits.centre FROM visits, {ten}"
    held, large = (
        read_raw(address, columns=Columns.of(schema="auto", query=query, max_rows=rows))
        for rows in (10**6, 1000)
    )
    assert (held.rows, large.rows, large.table.rows) == (3000, 3000, 1000)
    assert held.whole is None
    assert sum(table.rows for table in large.batches) == 3000
    for one, two in zip(held.profile(10).columns, large.profile(10).columns, strict=True):
        for field in ("kind", "count", "missing", "distinct", "levels", "level_counts", "other"):
            assert getattr(one, field) == getattr(two, field), (one.name, field)
        np.testing.assert_allclose(one.moments, two.moments, rtol=1e-12)


def test_numbers_and_words_in_one_column_of_sqlite(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (u)")
        values = [(k % 7,) for k in range(200_000)] + [("high",)] * 100
        connection.executemany("INSERT INTO t VALUES (?)", values)
    connection.close()
    columns = Columns.of(schema="auto", query="t", max_rows=1000)
    found = read_raw(f"sqlite:///{tmp_path / 'a.db'}", columns=columns).profile(10)["u"]
    assert found.levels == ("0", "1", "2", "3", "4", "5", "6", "high")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (None, "missing-option"),
        ("SELECT weight FROM visits", "query-failed"),
        ("SELECT age FROM patients", "query-failed"),
        ("SELECT age FROM", "query-failed"),
        ("DELETE FROM visits", "query-writes"),
        ("DROP TABLE visits", "query-writes"),
        ("INSERT INTO visits SELECT * FROM visits", "query-writes"),
        ("SELECT 1; DELETE FROM visits", "query-writes"),
        ("-- SELECT\nDELETE FROM visits", "query-writes"),
        ("COPY visits TO '/tmp/x.csv'", "query-writes"),
        ("PRAGMA query_only = OFF", "query-writes"),
    ],
)
def test_a_wrong_query_gets_one_sentence(address, query, code):
    with fails(InputError, code) as caught:
        read_table(address, query=query)
    assert PASSWORD not in repr(caught.value)
    assert "anna" not in str(caught.value)
    assert read_table(address, query="visits").rows == len(TABLE)


def test_writing_inside_a_select_is_refused_by_the_server(server):
    for query in (
        "WITH gone AS (DELETE FROM visits RETURNING *) SELECT * FROM gone",
        "SELECT * INTO copy FROM visits",
    ):
        with fails(InputError, "query-writes"):
            read_table(server, query=query)
    assert read_table(server, query="visits").rows == len(TABLE)


def test_decimal_numbers_of_a_server(server):
    column = read_table(server, query="SELECT dose FROM visits")["dose"]
    assert column.kind == "number"
    assert set(column.values) == {2.5}


@pytest.mark.parametrize("change", ["password", "host", "database"])
def test_a_server_that_does_not_let_in(server, change):
    wrong = {
        "password": server.replace(PASSWORD, "wr0ng-secret"),
        "host": f"postgresql://anna:{PASSWORD}@127.0.0.1:1/postgres",
        "database": server.replace("/postgres", "/absent"),
    }[change]
    with fails(InputError, "cannot-connect") as caught:
        read_table(wrong, query="visits")
    assert not {PASSWORD, "wr0ng-secret", "anna"} & set(str(caught.value).replace(":", " ").split())
    assert PASSWORD not in str(caught.value)


def test_a_connection_that_is_killed(server):
    with fails(InputError, "query-failed") as caught:
        read_table(server, query="SELECT age, pg_terminate_backend(pg_backend_pid()) FROM visits")
    assert PASSWORD not in str(caught.value)


def test_passwords_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGUSER", "anna")
    bare = f"postgresql://{server.partition('@')[2]}"
    assert read_table(bare, query="visits").rows == len(TABLE)


@pytest.mark.parametrize("package", ["adbc_driver_postgresql.dbapi", "duckdb"])
def test_without_the_library(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    source = "duckdb:///x.duckdb" if package == "duckdb" else f"postgresql://anna:{PASSWORD}@h/d"
    with fails(InputError, "missing-package") as caught:
        read_table(source, query="visits")
    assert "fedwad[db]" in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path):
    for kind in ("sqlite", "duckdb"):
        with fails(InputError, "no-such-file"):
            read_table(f"{kind}:///{tmp_path}/absent.db", query="visits")
    (tmp_path / "a.db").write_text("nonsense " * 100)
    with pytest.raises(InputError):
        read_table(f"sqlite:///{tmp_path}/a.db", query="visits")
    (tmp_path / "a.csv").write_text("u\n1\n")
    with fails(InputError, "bad-option"):
        read_table(tmp_path / "a.csv", query="visits")


def test_addresses():
    assert is_database("postgres://h/d")
    assert not is_database("https://h/d")
    assert not is_database(Path("postgresql://h/d"))
    for secret in (
        f"postgresql://anna:{PASSWORD}@h:5432/d?sslmode=require",
        f"postgresql://h/d?user=anna&password={PASSWORD}",
        f"postgresql://anna:p@{PASSWORD}@h/d",
    ):
        assert has_password(secret)
        assert not {"anna", PASSWORD} & set(redact(f"--x {secret} y").replace(":", "@").split("@"))
        assert PASSWORD not in redact(secret)
    assert not has_password("postgresql://anna@h/d")


# Sites ------------------------------------------------------------------------------------------


def matrix(*arguments):
    result = run("matrix", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize("label", ["by", "queries", "local"])
def test_two_centres_of_one_database_have_the_digits_of_their_files(address, tmp_path, label):
    files = tmp_path / "files"
    files.mkdir()
    for centre, part in TABLE.groupby("centre"):
        part.drop(columns="centre").to_csv(files / f"{centre}.csv", index=False)
    expected = json.loads(matrix(str(files)).stdout)["value"]
    queries = {
        c: f"SELECT age, sex, seen FROM visits WHERE centre = '{c}'" for c in ("oslo", "paris")
    }
    if label == "by":
        found = json.loads(
            matrix(address, "--query", f"SELECT {COLUMNS} FROM visits", "--by", "centre").stdout
        )["value"]
    elif label == "queries":
        options = [word for c, q in queries.items() for word in ("--query", f"{c}={q}")]
        found = json.loads(matrix(address, *options).stdout)["value"]
    else:
        fed = fedwad.local(dict.fromkeys(queries, address), query=queries)
        found = fedwad.matrix(fed).value.tolist()
    assert found == expected


def test_no_secret_on_a_page_in_a_ledger_or_on_the_terminal(server, tmp_path):
    report, saved = tmp_path / "page.html", tmp_path / "m.json"
    result = run(
        "matrix",
        server,
        "--query",
        f"SELECT {COLUMNS} FROM visits",
        "--by",
        "centre",
        "--report",
        str(report),
        "--save",
        str(saved),
    )
    assert result.returncode == 0, result.stderr
    (tmp_path / "site.toml").write_text(
        'name = "paris"\nallow = ["describe", "columns", "summary"]\n'
    )
    checked = run("node", "check", server, str(tmp_path / "site.toml"), "--query", "visits")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    client = fedwad.federation.open_client(
        server, tmp_path / "site.toml", query=f"SELECT {COLUMNS} FROM visits"
    )
    fed = fedwad.federation.LocalFederation({"paris": client})
    fedwad.schema(fed)
    wrong = run("matrix", server, "--query", "SELECT weight FROM visits", "--by", "centre")
    assert wrong.returncode == 2
    contents = [path.read_bytes() for path in tmp_path.iterdir() if path.is_file()]
    texts = [content.decode(errors="replace") for content in contents]  # a ledger is no text
    assert any("ledger" in path.name for path in tmp_path.iterdir())
    for text in (
        *texts,
        result.stdout + result.stderr,
        checked.stdout + checked.stderr,
        wrong.stdout + wrong.stderr,
    ):
        assert PASSWORD not in text
        assert "anna" not in text


def test_no_request_changes_the_query_of_a_node(tmp_path):
    """The query is a setting of the operator; no message has a place for another one."""
    address = write_sqlite(tmp_path)
    (tmp_path / "site.toml").write_text(
        'name = "paris"\nallow = ["describe", "columns", "summary"]\n'
    )
    client = fedwad.federation.open_client(
        address, tmp_path / "site.toml", query="SELECT age, sex FROM visits WHERE age > 60"
    )
    before = client.answer(ColumnsRequest()).profile
    assert before.rows == int((TABLE.age > 60).sum())
    for kind in (DescribeRequest, ColumnsRequest):
        for option in ("query", "where", "columns"):
            arrived = convert(to_builtins(kind()) | {option: "visits"}, kind)
            assert arrived == kind()  # what a message has no field for is gone
            with pytest.raises(TypeError):
                kind(**{option: "visits"})
    for text in ('[columns.age]\nkind = "number"\nquery = "visits"', 'query = "visits"'):
        with fails(fedwad.PolicyError, "schema-refused"):
            client.answer(dataclasses.replace(SummaryRequest(1, "auto", 2.0, 0), schema=text))
    assert client.answer(ColumnsRequest()).profile == before
