"""Tables larger than memory: sums over all rows, part by part, and a random sample that is held.

Counts, means, sums of squares and levels of columns are sums over rows, so those of parts of a
table add up (`merge`), whoever makes them: one process that reads a file in batches, or many on a
cluster. What needs rows beside each other, such as order statistics, is taken from a random sample.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.tables.columns import arrow_column
from fedwad.tables.csv import FileOptions, csv_batches
from fedwad.tables.database import count_rows_of, is_database, query_batches, redact
from fedwad.tables.profiles import ColumnSums, Profile, bounded_counts, profile, sums_of
from fedwad.tables.read import (
    TEXT_FORMATS,
    as_strings,
    file_suffix,
    index_columns,
    is_folder,
    table_files,
)
from fedwad.tables.select import UnitSites
from fedwad.tables.table import Column, Table, index_dtype, level_texts

_log = logging.getLogger("fedwad.tables")
#: Rows that are held of a table with at least twice as many; the rest is read in batches. Of 2
#: million rows x 15 columns of text this takes 1.2 GB with all copies that a summary makes.
HELD_ROWS = 500_000
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODDS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)  # of splitmix64


@dataclass(frozen=True)
class Part:
    """What some rows add to the statistics of a table; `merge` adds those of several parts.

    `sums` are those of each column and `digest` two sums of hashes of the rows. `sample` is a
    random sample of at most `held` rows, those whose keys are below `limit`. The key of a row is a
    hash of its values and of its place; with a unit (such as a patient) it is that of the unit, so
    that all rows of a unit are in the sample or none.
    """

    rows: int
    sums: Mapping[str, ColumnSums]
    digest: tuple[int, int]
    sample: Table
    keys: NDArray[np.uint64]
    held: int = HELD_ROWS
    limit: int = 2**64

    def __repr__(self) -> str:  # no values
        return f"Part({self.rows} rows, {len(self.sums)} columns)"

    def profile(
        self,
        min_cell_size: int = 10,
        label: str | None = None,
        units: NDArray[np.int64] | None = None,
    ) -> Profile:
        """The profile of all rows: sums over all of them, the rest from the sample.

        With units, a minimum counts different units in the sample, which has no more of them.
        """
        return profile(self.sample, min_cell_size, label, units, self.sums, self.rows)


def part_of(table: Table, place: int = 0, held: int = HELD_ROWS, unit: str | None = None) -> Part:
    """The part that these rows of a table are; `place` is the number of rows before them.

    >>> import pyarrow as pa
    >>> from fedwad.tables import read_table
    >>> table = read_table(pa.table({"age": [61.5, 45.0, None] * 8, "sex": ["f", "m", "m"] * 8}))
    >>> whole = merge(part_of(table.take(slice(0, 9))), part_of(table.take(slice(9, 24)), 9))
    >>> whole.profile()["sex"].level_counts, part_of(table).profile()["sex"].level_counts
    ((16,), (16,))
    """
    content = _hash_rows(table.columns, table.rows)
    digest = [int(np.sum(_mixed(content * odd), dtype=np.uint64)) for odd in (_ODD, _ODDS[0])]
    if unit is None:
        keys = _mixed(content ^ (np.arange(place, place + table.rows, dtype=np.uint64) * _ODD))
    else:
        keys = _mixed(_hash_rows([table[unit]], table.rows))
    sums = {column.name: sums_of(column) for column in table.columns if column.kind != "unusable"}
    return thinned(Part(table.rows, sums, (digest[0], digest[1]), table, keys, held))


def merge(*parts: Part) -> Part:
    """The part that all rows of these parts are."""
    names = [*parts[0].sums]
    for part in parts[1:]:
        odd = min({*names} ^ {*part.sums}, default=None)
        if odd is not None:
            raise InputError(
                f"Column '{odd}' is in one part and not in another.", "different-columns"
            )
    limit = min(part.limit for part in parts)
    kept = [thinned(replace(part, limit=limit)) for part in parts]
    digests = zip(*(part.digest for part in parts), strict=True)
    one, two = (sum(digest) % 2**64 for digest in digests)
    whole = Part(
        sum(part.rows for part in parts),
        {name: reduce(partial(_add, name), [p.sums[name] for p in parts]) for name in names},
        (one, two),
        concat([part.sample for part in kept]),
        np.concatenate([part.keys for part in kept]),
        min(part.held for part in parts),
        limit,
    )
    return thinned(whole)


def thinned(part: Part) -> Part:
    """The part with the rows below its limit; a lower limit if those are more than `held`."""
    limit = part.limit
    keep = part.keys < limit
    if np.count_nonzero(keep) > part.held:
        limit = int(np.partition(part.keys[keep], part.held)[part.held])
        keep = part.keys < limit
    if keep.all():
        return part
    return replace(part, sample=part.sample.take(keep), keys=part.keys[keep], limit=limit)


def _add(name: str, a: ColumnSums, b: ColumnSums) -> ColumnSums:
    """Moments are merged as in Chan, Golub and LeVeque (1983), equations 1.5."""
    if not a.count or not b.count:
        main, other = (a, b) if a.count else (b, a)
        return replace(main, missing=main.missing + other.missing)
    if a.kind != b.kind:
        raise InputError(
            f"Column '{name}' is a {a.kind} in one part and a {b.kind} in another; read it as one"
            " kind (category or number).",
            "wrong-kind",
        )
    count = a.count + b.count
    gap, share = b.mean - a.mean, b.count / count
    with np.errstate(over="ignore", invalid="ignore"):
        squares = a.squares + b.squares + float(np.float64(gap) * gap) * a.count * share
    missing, mean = a.missing + b.missing, a.mean + gap * share
    low, high = min(a.low, b.low), max(a.high, b.high)
    whole, mode = a.whole and b.whole, max(a.mode, b.mode)
    counts = Counter(a.counts) + Counter(b.counts)
    kept, complete = bounded_counts(counts, a.complete and b.complete, a.kind)
    return ColumnSums(a.kind, count, missing, mean, squares, low, high, whole, mode, kept, complete)


def _hash_rows(columns: Iterable[Column], rows: int) -> NDArray[np.uint64]:
    """64 bits for each row, of the values of its columns, whatever their order."""
    mixed = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        if column.kind in ("unusable", "empty"):
            continue
        if column.kind in ("category", "boolean"):
            bits = np.array([*map(_hash_text, column.levels), 0], dtype=np.uint64)[column.values]
        else:
            values = np.where(column.missing, 0.0, column.values) + 0.0  # 0.0 for -0.0
            bits = values.view(np.uint64) ^ column.missing.astype(np.uint64)
        mixed += _mixed(bits + np.uint64(_hash_text(column.name)))
    return mixed


def _hash_text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * _ODDS[0]
    bits = (bits ^ (bits >> np.uint64(27))) * _ODDS[1]
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def concat(tables: Sequence[Table]) -> Table:
    """One table of the rows of several with the same columns."""
    first = tables[0]
    columns = []
    for column in first.columns:
        own = [table[column.name] for table in tables]
        like = next((one for one in own if one.kind != "empty"), column)
        values, levels = [one.values for one in own], like.levels
        if like.kind in ("category", "boolean"):
            levels = tuple(sorted({level for one in own for level in one.levels}))
            code_of = {level: code for code, level in enumerate(levels)}
            for k, one in enumerate(own):
                codes = np.array([*map(code_of.get, one.levels), -1], index_dtype(levels))
                rows_of = one.values if one.kind != "empty" else np.full(len(one), -1)
                values[k] = codes[rows_of]
        columns.append(replace(like, values=np.concatenate(values), levels=levels))
    rows = sum(table.rows for table in tables)
    return replace(first, columns=tuple(columns), rows=rows, notes=())


@dataclass(frozen=True, eq=False)
class Batches:
    """A table that is read in batches, as often as needed.

    `read` yields its batches as tables; the columns that it is given stay texts. `texts` are those
    that some batch reads as another kind than others do.
    """

    name: str
    read: Callable[[frozenset[str]], Iterator[Table]]
    texts: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Table]:
        return self.read(self.texts)

    def __repr__(self) -> str:
        return f"Batches({self.name!r})"

    def scan(self, held: int = HELD_ROWS, unit: str | None = None) -> tuple[Batches, Part]:
        """All rows as one part, by one pass, and the batches as this pass found their kinds."""
        kinds: dict[str, str] = {}
        found = _Gathering(held, unit)
        for table in self:
            for column in table.columns:
                kind = column.kind
                if kind != "empty" and kinds.setdefault(column.name, kind) != kind:
                    _log.info("%s: column '%s' is read as texts", self.name, column.name)
                    texts = self.texts | {column.name}
                    return replace(self, texts=texts).scan(held, unit)
            found.add(table)
            _log.info("%s: %d rows read", self.name, found.rows)
        return self, found.whole(self.name)

    def split(
        self, by: str, sites: Sequence[str], held: int, unit: str | None = None
    ) -> tuple[dict[str, tuple[Batches, Part]], tuple[str, ...]]:
        """The rows of each of these sites, by one pass over all of them, and notes.

        Batches and parts are those of the site alone. With a unit, another pass finds at which site
        its rows are, as `split_rows` does.
        """
        code_of = {site: code for code, site in enumerate(sites)}
        moved = UnitSites.of(np.empty(0, np.uint64), np.empty(0, np.int64))
        notes: tuple[str, ...] = ()

        def dealt(table: Table) -> NDArray[np.int64]:
            """The site of each row, as its column says."""
            codes, levels = level_texts(table[by])
            return np.array([*map(code_of.get, levels), -1], dtype=np.int64)[codes]

        def units_of(table: Table) -> NDArray[np.uint64]:
            return _mixed(_hash_rows([table[unit or ""]], table.rows))

        if unit is not None:
            alone = 0  # rows without a value are units by themselves
            for table in self:
                known = ~table[unit].missing
                moved += UnitSites.of(units_of(table)[known], dealt(table)[known])
                alone += int(np.count_nonzero(~known))
            moved, notes = moved.dealt(self.name, by, alone)

        def rows_of(chosen: Collection[int], texts: frozenset[str]) -> Iterator[tuple[int, Table]]:
            for table in self.read(texts):
                codes = dealt(table)
                if len(moved.units):
                    codes = moved.moved(units_of(table), codes)
                for code in chosen:
                    own = np.flatnonzero(codes == code)
                    if len(own):
                        yield code, replace(table.take(own), name=sites[code])

        def rows_of_one(code: int, texts: frozenset[str]) -> Iterator[Table]:
            return (table for _, table in rows_of((code,), texts))

        found = [_Gathering(held, unit) for _ in sites]
        for code, table in rows_of(range(len(sites)), self.texts):
            found[code].add(table)
            _log.info("%s: %d rows read", self.name, sum(one.rows for one in found))
        return {
            site: (Batches(site, partial(rows_of_one, code), self.texts), found[code].whole(site))
            for site, code in code_of.items()
            if found[code].rows
        }, notes


class _Gathering:
    """The part that tables are which come one after the other."""

    def __init__(self, held: int, unit: str | None) -> None:
        self._held, self._unit, self.rows = held, unit, 0
        self._parts: list[Part] = []  # the first is that of all rows but those that wait

    def add(self, table: Table) -> None:
        part = part_of(table, self.rows, self._held, self._unit)
        parts = self._parts
        parts.append(thinned(replace(part, limit=parts[0].limit)) if parts else part)
        self.rows += table.rows
        if sum(len(part.keys) for part in parts[1:]) > self._held // 2:
            self._parts = [merge(*parts)]

    def whole(self, name: str) -> Part:
        """The part of all of them; InputError if there are none."""
        if not self._parts:
            raise InputError(f"{name} is empty; give at least one sample.", "empty-table")
        return merge(*self._parts)


def read_batches(
    source: Any,
    name: str | None = None,
    *,
    missing: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    label: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    query: str | None = None,
    held: int = HELD_ROWS,
    batch_rows: int = 1 << 17,
    batch_bytes: int = 1 << 25,
    large_bytes: int = 1 << 27,
) -> Batches | None:
    """The batches of a large file, of a folder of files that are one table, or of what a database
    returns for a query; None if it is small.

    A text file is small below `large_bytes` (128 MB), and anything else with fewer than twice the
    `held` rows. The options are those of `read_table`.
    """
    if not isinstance(source, str | Path):
        return None
    missing_texts = frozenset(text.strip() for text in as_strings(missing, "missing"))
    required = () if label is None else (label,)
    options = FileOptions(missing_texts, as_strings(drop, "drop"), required, encoding, header)
    title = redact(str(source)) if name is None else name
    path = Path(source)
    files = table_files(path) if is_folder(path) else [path] if path.is_file() else []
    suffixes = {file_suffix(file) for file in files}
    if is_database(source) or suffixes == {".parquet"}:
        arrow: Callable[[], Iterable[Any]]
        try:
            if is_database(source):
                rows = count_rows_of(str(source), query)
                arrow = partial(query_batches, str(source), query, batch_rows)
            else:
                rows, arrow = _open_parquet(path, files, options, batch_rows)
        except Exception:  # which `read_table` says in a sentence
            return None
        if rows < 2 * held:
            return None
        return Batches(title, partial(_read_arrow, title, arrow, options))
    large = sum(file.stat().st_size for file in files) >= large_bytes
    if not large or not suffixes <= set(TEXT_FORMATS):
        return None

    def read_text(texts: frozenset[str]) -> Iterator[Table]:
        tables = csv_batches(path, options, files if is_folder(path) else (), texts, batch_bytes)
        return (replace(table, name=title) for table in tables)

    return Batches(title, read_text)


def _open_parquet(
    path: Path, files: Sequence[Path], options: FileOptions, batch_rows: int
) -> tuple[int, Callable[[], Iterable[Any]]]:
    """The number of rows of files, and what reads them in record batches."""
    from pyarrow import dataset, parquet

    content = dataset.dataset(path, format="parquet", partitioning="hive")
    unread = {*options.drop, *index_columns(content.schema, options.required)}
    names = [column for column in content.schema.names if column not in unread]
    ahead = {"batch_readahead": 2, "fragment_readahead": 1}
    rows = sum(parquet.read_metadata(file).num_rows for file in files)
    return rows, lambda: content.scanner(names, batch_size=batch_rows, **ahead).to_batches()


def _read_arrow(
    name: str, batches: Callable[[], Iterable[Any]], options: FileOptions, texts: frozenset[str]
) -> Iterator[Table]:
    """The tables of Arrow tables or record batches with rows; the columns in `texts` stay texts."""
    for batch in batches():
        columns = []
        for title, array in zip(batch.schema.names, batch.columns, strict=True):
            if title in texts and str(array.type) in ("int64", "double"):
                array = array.cast("string")
            if title not in options.drop:
                columns.append(
                    arrow_column(title, array, options.missing_texts, elementwise=title in texts)
                )
        if batch.num_rows:
            yield Table(name, tuple(columns), batch.num_rows)
