"""Tables in databases: the answer to one query, which cannot write.

No sentence of an error holds a user's name, a password or the text of a driver's error.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from fedwad.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


_NAME = re.compile(r'(\w+|"[^"]+")(\.(\w+|"[^"]+"))*')
_READS = re.compile(r"(?is)(\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|values|table|from)\b.*")
_ADDRESS = re.compile(r"(?i)\b(postgres(?:ql)?://)(\S*)")


def is_database(source: Any) -> bool:
    """Whether this is the address of a database, such as postgresql://host/name.

    >>> is_database("sqlite:///visits.db"), is_database("visits.csv")
    (True, False)
    """
    return isinstance(source, str) and _kind(source) in _READERS


def _kind(address: str) -> str:
    kind = address.partition("://")[0].lower() if "://" in address else ""
    return "postgresql" if kind == "postgres" else kind


def redact(text: str) -> str:
    """A text with no more of each address of a server than its host and the name of its database.

    >>> redact("postgresql://anna:secret@db.paris:5432/visits?sslmode=require")
    'postgresql://db.paris:5432/visits'
    """

    def shorten(match: re.Match[str]) -> str:
        _, _, host = re.split(r"[/?#]", match[2])[0].rpartition("@")
        path = re.split(r"[?#]", match[2].rpartition("@")[2])[0].partition("/")
        return f"{match[1]}{host}{path[1]}{path[2]}"

    return _ADDRESS.sub(shorten, text)


def has_password(address: str) -> bool:
    """Whether an address holds a password, which belongs into the environment or ~/.pgpass."""
    after = address.partition("://")[2]
    user = after.rpartition("@")[0]
    return ":" in user or "password=" in after.lower()


def database_name(address: str) -> str:
    """The name of a database, for a site that has no other: visits for sqlite:///srv/visits.db."""
    return Path(unquote(urlsplit(redact(address)).path)).stem or _kind(address)


def read_query(address: str, query: str | None) -> pa.Table:
    """The rows that a database returns for a SELECT statement, or those of a table."""
    (table,) = query_batches(address, query, None)
    return table


def count_rows_of(address: str, query: str | None) -> int:
    """How many rows a database returns for a query."""
    statement = _statement(address, query)
    counted = f"SELECT count(*) FROM ({statement}) AS counted"  # noqa: S608
    return int(read_query(address, counted).column(0)[0].as_py())


def query_batches(address: str, query: str | None, rows: int | None) -> Iterator[pa.Table]:
    """The rows that a database returns for a query, about so many at a time, or all at once.

    A query that writes is refused: here if it does not begin as one that reads, and else by the
    database, which is opened for reading only.
    """
    statement = _statement(address, query)
    try:
        yield from _READERS[_kind(address)](address, statement, rows)
    except InputError:
        raise
    except Exception as error:  # of a driver, which may quote data
        text, state = str(error), getattr(error, "sqlstate", None)
        several = "one statement at a time" in text or (state == "42601" and ";" in statement)
        if several or state == "25006" or "readonly" in text:  # a write where one only reads
            raise _write_error(address) from None
        unknown = state in ("42P01", "42703", "3F000") or "no such" in text
        if unknown or type(error).__name__ in ("CatalogException", "BinderException"):
            reason = "names a table or a column that it does not have; check them."
        else:
            reason = "cannot be answered; is it correct, and did the connection last?"
        raise InputError(f"The query for {redact(address)} {reason}", "query-failed") from None


def _statement(address: str, query: str | None) -> str:
    """The SELECT statement of a query, which may be the name of a table."""
    if query is None or not query.strip():
        raise InputError(
            f"{redact(address)} is a database; name a table, or give a SELECT statement (query).",
            "missing-option",
        )
    statement = query.strip().rstrip(";").rstrip()
    if _NAME.fullmatch(statement):
        parts = re.findall(r'"[^"]+"|\w+', statement)
        name = ".".join(part if part[0] == '"' else f'"{part}"' for part in parts)
        statement = f"SELECT * FROM {name}"  # noqa: S608 (the query is the operator's own)
    if not _READS.fullmatch(statement):
        raise _write_error(address)
    return statement


def _write_error(address: str) -> InputError:
    return InputError(
        f"The query for {redact(address)} is not one SELECT statement that only reads; give one"
        " that does.",
        "query-writes",
    )


def _import(package: str, address: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise InputError(
            f"{redact(address)} needs {package.partition('.')[0]}; install it with"
            " pip install 'fedwad[db]'.",
            "missing-package",
        ) from None


def _open(address: str, connect: Callable[[], Any]) -> Any:
    try:
        return connect()
    except Exception:  # its text may have the user's name
        raise InputError(
            f"{redact(address)} cannot be opened; check the address, the user and the password,"
            " which may be in the environment (PGUSER, PGPASSWORD) or in ~/.pgpass.",
            "cannot-connect",
        ) from None


def _tables(reader: pa.RecordBatchReader, all_at_once: bool) -> Iterator[pa.Table]:
    import pyarrow as pa

    if all_at_once:
        yield reader.read_all()
    else:
        yield from (pa.Table.from_batches([batch]) for batch in reader)


def _read_postgresql(address: str, statement: str, rows: int | None) -> Iterator[pa.Table]:
    dbapi = _import("adbc_driver_postgresql.dbapi", address)
    connection = _open(address, lambda: dbapi.connect(address))
    with connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        # So that a table that is read again has its rows in the same order.
        cursor.execute("SET LOCAL synchronize_seqscans = off")
        cursor.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        cursor.execute(statement)
        yield from _tables(cursor.fetch_record_batch(), rows is None)


def _file_of(address: str) -> Path:
    """The file of sqlite:///visits.db (beside this process) or sqlite:////srv/visits.db."""
    path = Path(unquote(address.partition("://")[2].partition("?")[0].removeprefix("/")))
    if not path.is_file():
        raise InputError(
            f"There is no database file {path}; write three slashes before a path that starts here"
            " and four before one that starts at the root.",
            "no-such-file",
        )
    return path


def _read_sqlite(address: str, statement: str, rows: int | None) -> Iterator[pa.Table]:
    import sqlite3

    import pyarrow as pa

    path = _file_of(address)
    file = f"{path.resolve().as_uri()}?mode=ro"
    with closing(_open(address, lambda: sqlite3.connect(file, uri=True))) as connection:
        connection.execute("PRAGMA query_only = ON")
        cursor = connection.execute(statement)
        empty = True
        names = [description[0] for description in cursor.description or ()]
        while found := cursor.fetchall() if rows is None else cursor.fetchmany(rows):
            columns = [_to_arrow(values) for values in zip(*found, strict=True)]
            yield pa.Table.from_arrays(columns, names=names)
            empty = False
        if empty and rows is None:
            yield pa.table({name: [] for name in names})


def _to_arrow(values: Any) -> pa.Array:
    """Values of one SQLite column, which may be of several types: texts then."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _read_duckdb(address: str, statement: str, rows: int | None) -> Iterator[pa.Table]:
    duckdb = _import("duckdb", address)
    path = _file_of(address)
    with closing(_open(address, lambda: duckdb.connect(str(path), read_only=True))) as connection:
        connection.execute("SET enable_external_access = false")
        statements = duckdb.extract_statements(statement)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise _write_error(address)
        answer = connection.sql(statement)
        read = getattr(answer, "to_arrow_reader", None) or answer.fetch_record_batch
        yield from _tables(read(rows or 1_000_000), rows is None)


_READERS = {"postgresql": _read_postgresql, "sqlite": _read_sqlite, "duckdb": _read_duckdb}
