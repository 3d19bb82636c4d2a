"""The schema: how each column of a table is encoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._files import write_atomically
from fedwad.errors import InputError
from fedwad.tables._conflicts import Conflict
from fedwad.tables._encode import encode, label_values
from fedwad.tables._reading import read_table
from fedwad.tables._schema_column import SchemaColumn, accept_new_data, edit_column
from fedwad.tables._table import first_repeated, unknown_column_error
from fedwad.tables._toml import parse_schema, write_schema

__all__ = ["Schema"]


@dataclass(frozen=True, repr=False)
class Schema:
    """How each column is encoded: as number, category, boolean or date, as the label, or not.

    Let m and s be the pooled mean and standard deviation of the values that are present, and p_k
    the pooled fraction of level k.

    - A number or a date (in days since 1970) becomes (x - m) / s. So does a boolean, with 0 for
      false and 1 for true.
    - If such a column has missing values (`missing = "indicator"`), it becomes two columns. The
      first is 0 where the value is missing. The second is 1 where it is missing and 0 elsewhere.
      The mean squared distance between a missing and a present value is then 1 + 1 = 2, the same
      as between two present values.
    - A category becomes one column per level: sqrt(lambda / 2) in the column of the row's level and
      0 in the others, with lambda = 2 / (1 - sum p_k^2) (`weight`). The squared distance between
      two different levels is lambda. Between two random rows it is 2 on average, as in a column of
      numbers. A missing value is a level of its own (`missing = "level"`). A level that the schema
      does not list counts as "other" if that is among the levels; otherwise it is refused.

    `public` says that differential privacy may rely on the schema, because it was written from
    public knowledge or released with noise. `load` takes every file to be so, including one that
    was saved from a schema on which sites agreed, which holds their pooled means and levels.
    `conflicts` say where the sites contradict each other, one sentence each. `traffic` is that of
    the agreement: bytes that the sites sent, bytes that they received, and the number of their
    messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = Schema(
    ...     (
    ...         SchemaColumn("age", "number", centre=50.0, scale=10.0),
    ...         SchemaColumn("sex", "category", levels=("f", "m"), weight=4.0),
    ...     )
    ... )
    >>> schema.encode(pa.table({"sex": ["f", "m"], "age": [40, 55]}))
    array([[-1.        ,  1.41421356,  0.        ],
           [ 0.5       ,  0.        ,  1.41421356]])
    >>> schema.feature_names
    ('age', 'sex=f', 'sex=m')
    >>> schema.feature_columns
    ('age', 'sex', 'sex')
    """

    columns: tuple[SchemaColumn, ...]
    public: bool = field(default=False, compare=False)
    conflicts: tuple[Conflict, ...] = field(default=(), compare=False)
    traffic: tuple[int, int, int] = field(default=(0, 0, 0), compare=False)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        repeated = first_repeated(names)
        if repeated is not None:
            raise InputError(f"A schema has two columns '{repeated}'; keep one.")
        labels = [column.name for column in self.columns if column.kind == "label"]
        if len(labels) > 1:
            raise InputError(
                f"A schema has the labels '{labels[0]}' and '{labels[1]}'; keep one, and give the"
                " other a different kind."
            )

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file, which counts as `public`; InputError names what is wrong in it."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise InputError(f"There is no readable schema file at {path}; check it.") from None
        return cls.from_toml(text, str(path), public=True)

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML, all of it or nothing."""
        write_atomically(path, self.to_toml())

    def to_toml(self) -> str:
        """The text of the schema file, as `save` writes it."""
        return write_schema(self.columns)

    @classmethod
    def from_toml(cls, text: str, name: str = "The schema", public: bool = False) -> Schema:
        """The schema in the text of a schema file; `name` is what errors call it."""
        return cls(parse_schema(text, name), public=public)

    def to_dict(self) -> dict[str, Any]:
        """The text of the schema file and the conflicts, as plain lists and strings."""
        conflicts = [{**asdict(c), "sites": list(c.sites)} for c in self.conflicts]
        return {"schema": self.to_toml(), "conflicts": conflicts}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """The schema of which `to_dict` returned this content; InputError for anything else."""
        try:
            conflicts = tuple(
                Conflict(str(c["column"]), tuple(c["sites"]), str(c["problem"]), str(c["sentence"]))
                for c in content["conflicts"]
            )
            return replace(cls.from_toml(content["schema"]), conflicts=conflicts)
        except (KeyError, TypeError, AttributeError):
            raise InputError(
                "This is not the content of a schema: parts are missing or were changed."
            ) from None

    def encode(self, table: Any) -> NDArray[np.float64]:
        """The matrix (n, D) that is compared, with a row for each row of the table.

        `table` is whatever `read_table` reads. Columns that the schema does not have are left out.
        InputError if the table lacks a column that the schema compares.
        """
        return encode(self.columns, read_table(table))

    def labels(self, table: Any) -> NDArray[Any]:
        """The values of the label column: strings, integers, floats or booleans."""
        if self.label is None:
            raise InputError('The schema has no label column; give one column kind = "label".')
        read = read_table(table)
        return label_values(read[self.label], read.name)

    def __getitem__(self, name: str) -> SchemaColumn:
        return self._find(name)[0]

    def _find(self, name: str) -> tuple[SchemaColumn, slice]:
        """A column and the slice of its encoded columns."""
        for column, features in self._layout():
            if column.name == name:
                return column, features
        raise unknown_column_error(name, [column.name for column in self.columns], "The schema")

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def compared_columns(self) -> tuple[SchemaColumn, ...]:
        """The columns that are encoded and compared: neither labels nor ignored ones."""
        return tuple(column for column in self.columns if column.width)

    @property
    def label(self) -> str | None:
        """The name of the label column, if there is one."""
        return next((column.name for column in self.columns if column.kind == "label"), None)

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that are left out, with the reason of each."""
        return {c.name: c.reason for c in self.columns if c.kind == "ignored"}

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return tuple(name for column in self.compared_columns for name in column.encoded_names)

    @property
    def feature_columns(self) -> tuple[str, ...]:
        """The name of the original column of each encoded column."""
        return tuple(column.name for column in self.compared_columns for _ in column.encoded_names)

    @property
    def width(self) -> int:
        """The number D of encoded columns."""
        return sum(column.width for column in self.columns)

    @property
    def centre(self) -> NDArray[np.float64]:
        """The point in encoded units about which differential privacy clips unless one is given.

        It is near the mean of encoded rows and follows from the schema alone: 0 for numbers, dates
        and booleans, and the mean of equally frequent levels for a category.
        """
        return np.array([value for column in self.compared_columns for value in column.middle])

    @property
    def clip_norm(self) -> float:
        """The clip norm that differential privacy uses unless one is given.

        It is twice the typical distance of a row from `centre`: each compared column has a pooled
        variance of about 1, summed over its encoded columns.
        """
        return 2.0 * float(np.sqrt(max(1, len(self.compared_columns))))

    def feature_slice(self, name: str) -> slice:
        """The encoded columns of an original column."""
        return self._find(name)[1]

    def _layout(self) -> Iterator[tuple[SchemaColumn, slice]]:
        """Each column with the slice of its encoded columns."""
        start = 0
        for column in self.columns:
            yield column, slice(start, start + column.width)
            start += column.width

    def describe(self, mean: Sequence[float] | NDArray[np.float64]) -> dict[str, dict[str, float]]:
        """A mean of encoded rows in the units of the original columns.

        For a category it has the fraction of each level, else the mean ("mean"). If missing values
        have an indicator, the mean is over the rows that have a value, and the fraction of rows
        that have none ("missing") is there as well.
        """
        vector = np.asarray(mean, dtype=np.float64)
        if vector.shape != (self.width,):
            raise InputError(
                f"A mean of shape {vector.shape} arrived where the schema encodes {self.width}"
                " columns; give one number per encoded column."
            )
        return {c.name: c.describe(vector[features]) for c, features in self._layout() if c.width}

    def edited(self, changes: Mapping[str, Mapping[str, Any]]) -> Schema:
        """A copy of the schema with some keys of some columns changed.

        >>> schema = Schema((SchemaColumn("ca", "number"),))
        >>> schema.edited({"ca": {"kind": "ignored", "reason": "rarely measured"}}).ignored
        {'ca': 'rarely measured'}
        """
        for name in changes:
            self[name]  # raises InputError if it does not exist
        columns = tuple(edit_column(c, changes.get(c.name, {})) for c in self.columns)
        return replace(self, columns=columns)

    def for_new_data(self) -> Schema:
        """The schema with a rule for missing values and new levels in every compared column.

        It refuses no later table because of missing values or new levels.

        >>> Schema((SchemaColumn("age", "number"),)).for_new_data()["age"].missing
        'indicator'
        """
        return replace(self, columns=tuple(map(accept_new_data, self.columns)))

    def description_lines(self) -> tuple[str, ...]:
        """Sentences that say what is compared, what is the label, and what is ignored and why.

        >>> schema = Schema((SchemaColumn("age", "number"), SchemaColumn("num", "label")))
        >>> schema.description_lines()
        ('1 of 2 columns compared (1 number), encoded as 1 numbers per row.', "Label: 'num'.")
        """
        compared = self.compared_columns
        kinds = Counter(column.kind for column in compared)
        counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        lines = [
            f"{len(compared)} of {len(self)} columns compared ({counts}), encoded as {self.width}"
            " numbers per row."
        ]
        if self.label is not None:
            lines.append(f"Label: '{self.label}'.")
        # The sentence of a conflict about an ignored column already says why it is ignored.
        in_conflicts = {conflict.column for conflict in self.conflicts}
        ignored = [f"'{n}' ({why})" for n, why in self.ignored.items() if n not in in_conflicts]
        if ignored:
            more = f" and {len(ignored) - 5} more" if len(ignored) > 5 else ""
            lines.append(f"Ignored: {', '.join(ignored[:5])}{more}.")
        return tuple(lines)

    def __repr__(self) -> str:
        head = f"Schema of {len(self.columns)} columns, encoded as {self.width} numbers per row"
        rows = [("column", "kind", "becomes", "missing")]
        rows += [(c.name, c.kind, c.becomes, c.missing if c.width else "") for c in self.columns]
        widths = [max(len(row[index]) for row in rows) for index in range(4)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join([head, *(line.rstrip() for line in lines)])
