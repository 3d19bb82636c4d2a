"""What users say about a table: its columns, its rows, and how it is read and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fedwad._checks import check_integer, format_value
from fedwad.errors import InputError
from fedwad.tables import HELD_ROWS, Schema, as_strings, condition_column

#: The unit of rows that is looked for among the columns; see `find_unit`.
AUTO = "auto"


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are, which rows count, and how a source is read.

    Parameters
    ----------
    label : the label column
    drop, keep : columns that are left out, and those that alone are compared
    missing : texts that stand for a missing value in every column, or, like "chol=0", in one
    schema : a given schema, "auto" for one that the sites agree on, or None for columns of numbers
        as they are; `schema_path` is the file of a given schema
    elementwise : no entry of a table changes how another is read, which differential privacy needs
    unit : the column that says which unit, such as a patient, a row belongs to; "auto" for one
        that is named like an identifier and repeats; None if each row is a unit
    by : the column that says to which site a row of one table belongs
    where : conditions such as "age>=18", which a row must meet
    weights : the column with the weight of each row, such as that of a survey
    category, number : columns that are of this kind, whatever they look like
    query : the SELECT statement for databases, or the name of a table
    header, encoding, sheet : of files, see `read_table`
    max_rows : rows that are held in memory. A file with at least twice as many is read in batches,
        and a random sample of so many rows is held
    """

    label: str | None = None
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    schema: Schema | Literal["auto"] | None = None
    schema_path: str = ""
    elementwise: bool = False
    unit: str | None = AUTO
    by: str | None = None
    where: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    weights: str | None = None
    query: str | None = None
    header: bool | None = None
    encoding: str | None = None
    sheet: str | None = None
    max_rows: int = HELD_ROWS

    @classmethod
    def of(
        cls,
        label_column: str | None = None,
        drop: str | Iterable[str] | None = None,
        missing: str | Iterable[str] | Mapping[str, Iterable[str]] | None = None,
        schema: Schema | str | Path | None = None,
        **more: Any,
    ) -> Columns:
        """The columns for the options of a user.

        Those that may be several are one string or several; `missing` may be a mapping from columns
        to texts. `schema` is a Schema, the path of one, "auto", or "none" like None. `unit` is
        "none" like None. `more` are other fields of the class.
        """
        if isinstance(missing, Mapping):  # {"chol": ["0"]} as ["chol=0"]
            pairs = [(c, (v,) if isinstance(v, str) else v) for c, v in missing.items()]
            missing = [f"{column}={value}" for column, values in pairs for value in values]
        given = {"drop": drop, "missing": missing}
        given |= {name: more.pop(name, None) for name in ("keep", "category", "number", "where")}
        names: dict[str, Any] = {name: as_strings(value, name) for name, value in given.items()}
        for condition in names["where"]:
            condition_column(condition)
        texts = ("unit", "by", "weights", "query", "encoding", "sheet")
        forms: dict[str, tuple[Any, str]] = dict.fromkeys(texts, (str, "a text"))
        forms["header"] = bool, "True or False"
        forms["label_column"] = str | int, "the name of a column"
        for option, (kind, form) in forms.items():
            value = label_column if option == "label_column" else more.get(option)
            if value is not None and not isinstance(value, kind):
                raise InputError(f"{option} is {format_value(value)}; give {form}.", "bad-option")
        if more.get("unit") == "none":
            more["unit"] = None
        if "max_rows" in more:
            more["max_rows"] = check_integer(more["max_rows"], "max_rows", 1000)
        both = set(names["category"]) & set(names["number"])
        if both:
            raise InputError(
                f"Column '{min(both)}' is named as a category and as a number; choose one.",
                "bad-option",
            )
        if label_column in names["drop"]:
            raise InputError(
                f"Column '{label_column}' is named as the label and to be dropped; choose one.",
                "conflicting-options",
            )
        columns = cls(label_column, **names, **more)
        if schema is None or isinstance(schema, Schema):
            return replace(columns, schema=schema)
        if str(schema) in ("auto", "none"):
            return replace(columns, schema="auto" if str(schema) == "auto" else None)
        if not isinstance(schema, str | Path):
            raise InputError(
                f"schema is a {type(schema).__name__}; give a Schema, the path of its file, 'auto'"
                " or None.",
                "bad-option",
            )
        path = Path(schema).expanduser()
        return replace(columns, schema=Schema.load(path), schema_path=str(path.resolve()))

    def missing_in(self, column: str) -> tuple[str, ...]:
        """The texts that stand for a missing value in this column alone."""
        prefix = f"{column}="
        return tuple(text.removeprefix(prefix) for text in self.missing if text.startswith(prefix))

    def to_options(self) -> dict[str, Any]:
        """The keywords of `open_client` and of a site's file that give these columns."""
        options: dict[str, Any] = {"label_column": self.label} if self.label is not None else {}
        several = "drop", "missing", "where", "keep", "category", "number"
        for name in (*several, "weights", "query", "header", "encoding", "sheet"):
            value = getattr(self, name)
            if value not in (None, ()):
                options[name] = list(value) if name in several else value
        if self.max_rows != HELD_ROWS:
            options["max_rows"] = self.max_rows
        if self.unit != AUTO:
            options["unit"] = self.unit or "none"
        if isinstance(self.schema, Schema):
            options["schema"] = self.schema_path
        elif self.schema is None:
            options["schema"] = "none"
        return options
