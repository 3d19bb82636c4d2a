"""Which column of a table is the label, which are dropped, and how the others are encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedwad._checks import format_value
from fedwad.errors import InputError
from fedwad.tables import Schema

__all__ = ["Columns"]


@dataclass(frozen=True)
class Columns:
    """Which column of a table is the label, which are left unread, which texts stand for a missing
    value, and how the others are encoded.

    A text of `missing` stands for a missing value in every column, or, like "chol=0", in one.
    `schema` is a given schema, "auto" for one that the sites agree on, or None for columns of
    numbers as they are; `schema_path` is the file of a given schema. With `elementwise` no entry of
    a table changes how another is read, which differential privacy needs.
    """

    label: str | None = None
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    schema: Schema | Literal["auto"] | None = None
    schema_path: str = ""
    elementwise: bool = False

    @classmethod
    def of(
        cls,
        label_column: str | None = None,
        drop: str | Iterable[str] | None = None,
        missing: str | Iterable[str] | Mapping[str, Iterable[str]] | None = None,
        schema: Schema | str | Path | None = None,
    ) -> Columns:
        """The columns for the options of a user.

        `drop` and `missing` are one string or several, or `missing` a mapping from columns to
        texts. `schema` is a Schema, the path of one, "auto", or "none" like None.
        """
        names = _as_strings(
            drop, "drop", "the name of a column", "names of columns, which are strings"
        )
        texts = _as_strings(
            _flatten(missing), "missing", "a text that stands for a missing value", "texts"
        )
        _check_label(label_column, names)
        if schema is None or isinstance(schema, Schema):
            return cls(label_column, names, texts, schema)
        if str(schema) in ("auto", "none"):
            return cls(label_column, names, texts, "auto" if str(schema) == "auto" else None)
        if not isinstance(schema, str | Path):
            raise InputError(
                f"schema is a {type(schema).__name__}; give a Schema, the path of its file, 'auto'"
                " or None."
            )
        path = Path(schema).expanduser()
        return cls(label_column, names, texts, Schema.load(path), str(path.resolve()))

    def missing_in(self, column: str) -> tuple[str, ...]:
        """The texts that stand for a missing value in this column alone."""
        prefix = f"{column}="
        return tuple(text.removeprefix(prefix) for text in self.missing if text.startswith(prefix))

    def to_options(self) -> dict[str, Any]:
        """The keywords of `open_client` and of a site's file that give these columns."""
        label = {} if self.label is None else {"label_column": self.label}
        drop = {"drop": list(self.drop)} if self.drop else {}
        missing = {"missing": list(self.missing)} if self.missing else {}
        if isinstance(self.schema, Schema):
            schema = {"schema": self.schema_path}
        else:
            schema = {} if self.schema == "auto" else {"schema": "none"}
        return label | drop | missing | schema


def _check_label(label: Any, dropped: Sequence[str]) -> None:
    if label is not None and not isinstance(label, str | int):
        raise InputError(f"label_column is {format_value(label)}; give the name of a column.")
    if label in dropped:
        raise InputError(f"Column '{label}' is named as the label and to be dropped; choose one.")


def _flatten(missing: Any) -> Any:
    """A mapping such as {"chol": ["0"]} as ["chol=0"]; anything else as it is."""
    if not isinstance(missing, Mapping):
        return missing
    pairs = [(c, (v,) if isinstance(v, str) else v) for c, v in missing.items()]
    return [f"{column}={value}" for column, values in pairs for value in values]


def _as_strings(given: Any, option: str, one: str, several: str) -> tuple[str, ...]:
    """The strings as a tuple, each once; InputError says to give `one` or `several`."""
    try:
        strings = (given,) if isinstance(given, str) else () if given is None else tuple(given)
    except TypeError:
        raise InputError(f"{option} is a {type(given).__name__}; give {one}, or several.") from None
    for string in strings:
        if not isinstance(string, str):
            raise InputError(f"{option} holds {string!r}; give {several}.")
    return tuple(dict.fromkeys(strings))
