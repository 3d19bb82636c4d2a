"""The schema: how each column of a table is encoded; and schema files, in TOML.

People can read and edit such a file; an error names the mistake in it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedwad._files import toml_value, write_atomically
from fedwad.errors import InputError
from fedwad.tables.conflicts import Conflict
from fedwad.tables.encode import encode
from fedwad.tables.profiles import Profile
from fedwad.tables.read import read_table
from fedwad.tables.schema_column import KINDS, MISSING_RULES, OTHER, SchemaColumn, accept_new_data
from fedwad.tables.table import first_repeated, similar_name_hint, unknown_column_error


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
            raise InputError(f"A schema has two columns '{repeated}'; keep one.", "repeated-column")
        labels = [column.name for column in self.columns if column.kind == "label"]
        if len(labels) > 1:
            raise InputError(
                f"A schema has the labels '{labels[0]}' and '{labels[1]}'; keep one, and give the"
                " other a different kind.",
                "bad-labels",
            )

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file, which counts as `public`; InputError names what is wrong in it."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise InputError(
                f"There is no readable schema file at {path}; check it.", "no-such-file"
            ) from None
        return cls.from_toml(text, str(path), public=True)

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML, all of it or nothing."""
        write_atomically(path, self.to_toml())

    def to_toml(self) -> str:
        """The text of the schema file, as `save` writes it."""
        parts = [_HEAD, "version = 1\n"]
        for column in self.columns:
            lines = [f"[columns.{toml_value(column.name)}]"]
            for key in _KEYS[column.kind]:
                value = getattr(column, key)
                if key in ("centre", "scale", "weight"):
                    value = float(value)
                elif key == "range":
                    value = [*map(float, value)]
                if value not in ((), [], ""):
                    lines.append(f"{key} = {toml_value(value)}")
            parts.append("\n".join(lines) + "\n")
        return "\n".join(parts)

    def to_request(self) -> str:
        """The text that a question brings: without ignored columns, which encode nothing and of
        which a single site may name any number."""
        return replace(self, columns=self.compared_columns).to_toml()

    @classmethod
    def from_toml(cls, text: str, name: str = "The schema", public: bool = False) -> Schema:
        """The schema in the text of a schema file; InputError names the column and the key that are
        wrong, and calls the file `name`."""
        if _LONG_KEY.search(_TEXTS.sub("_", text)):
            raise InputError(
                f"{name} has a key of more than three parts, such as columns.age.kind has; quote"
                " names that have dots.",
                "bad-schema",
            )
        try:
            return cls(_parse_columns(tomllib.loads(text), name), public=public)
        except InputError:
            raise
        except tomllib.TOMLDecodeError as error:
            problem = f"is not valid TOML ({' '.join(str(error).split())}); correct that place"
        except RecursionError:
            problem = "has lists or tables nested too deep; write them flat"
        except (ValueError, OverflowError):  # such as whole numbers of thousands of digits
            problem = "has a number that is too long; correct it"
        raise InputError(f"{name} {problem}.", "bad-toml")

    def to_dict(self) -> dict[str, Any]:
        """The text of the schema file and the conflicts, as plain lists and strings."""
        return {"schema": self.to_toml(), "conflicts": msgspec.to_builtins(list(self.conflicts))}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """The schema of which `to_dict` returned this content; InputError for anything else."""
        try:
            conflicts = msgspec.convert(content["conflicts"], tuple[Conflict, ...])
            return replace(cls.from_toml(content["schema"]), conflicts=conflicts)
        except (KeyError, TypeError, AttributeError, msgspec.ValidationError):
            raise InputError(
                "This is not the content of a schema: parts are missing or were changed.",
                "damaged-content",
            ) from None

    def encode(self, table: Any) -> NDArray[np.float64]:
        """The matrix (n, D) that is compared, with a row for each row of the table.

        `table` is whatever `read_table` reads. Columns that the schema does not have are left out.
        InputError if the table lacks a column that the schema compares.
        """
        return encode(self.columns, read_table(table))

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
    def indicators(self) -> tuple[int, ...]:
        """The encoded columns that have two values: levels, booleans, flags of missing values."""
        return tuple(
            features.start + k
            for column, features in self._layout()
            for k in range(column.width)
            if k > 0 or column.kind not in ("number", "date")
        )

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
                " columns; give one number per encoded column.",
                "wrong-shape",
            )
        return {c.name: c.describe(vector[features]) for c, features in self._layout() if c.width}

    def edited(self, changes: Mapping[str, Mapping[str, Any]]) -> Schema:
        """A copy of the schema with some keys of some columns changed.

        If a new kind does not have the column's rule for missing values, that becomes "refuse".

        >>> schema = Schema((SchemaColumn("ca", "number"),))
        >>> schema.edited({"ca": {"kind": "ignored", "reason": "rarely measured"}}).ignored
        {'ca': 'rarely measured'}
        """
        edits = {}
        for name, change in changes.items():
            old = self[name]
            refuse_unknown_keys(change, vars(old), f"A change of column '{name}'")
            kept = old.missing in MISSING_RULES.get(change.get("kind", old.kind), ())
            rule = {} if kept else {"missing": "refuse"}
            edits[name] = _to_column({**vars(old), **rule, **change}, "the changed schema")
        return replace(self, columns=tuple(edits.get(c.name, c) for c in self.columns))

    def for_new_data(self) -> Schema:
        """The schema with a rule for missing values and new levels in every compared column.

        It refuses no later table because of missing values or new levels.

        >>> Schema((SchemaColumn("age", "number"),)).for_new_data()["age"].missing
        'indicator'
        """
        return replace(self, columns=tuple(map(accept_new_data, self.columns)))

    def without_rare_levels(self, profile: Profile, least: int = 10) -> Schema:
        """The schema in which levels of fewer than `least` rows become "other".

        For a site that later data are compared with: a second sample of its population lacks some
        of its rare levels and has others instead, each of which would count as a difference.
        """
        changes = {}
        for column in self.compared_columns:
            found = profile[column.name]
            counts = zip(found.levels, found.level_counts, strict=True)
            rare = {OTHER, *(level for level, count in counts if count < least)}
            if column.kind == "category":
                kept = [level for level in column.levels if level not in rare]
                changes[column.name] = {"levels": (*kept, OTHER)}
        return self.edited(changes)

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


_RANGE_HINT = "range = [0, 120], the smallest and the largest value that is possible"
_HEAD = """\
# What each column of a table becomes when sites are compared.
# kind: number, category, boolean, date, label or ignored.
# Numbers, dates (in days since 1970) and booleans become (x - centre) / scale.
# A category becomes one column per level; two different levels are `weight` apart in squares.
# Levels that are not listed become "other"; without "other" among the levels they are refused.
# missing: "indicator", "mean" or "refuse" for numbers; "level", "other" or "refuse" for categories.
# missing_values: values that stand for a missing one, such as ["0"] or ["-9", "99"].
# range: smallest and largest value that is possible; centre and scale follow if they are left out.
"""
_SCALED_KEYS = ("kind", "centre", "scale", "missing", "missing_values")
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("number", "date"), (*_SCALED_KEYS, "range")),
    "boolean": _SCALED_KEYS,
    "category": ("kind", "levels", "weight", "missing", "missing_values"),
    "label": ("kind",),
    "ignored": ("kind", "reason"),
}
# What to give for a key, in the sentence of an error.
_VALUES = {
    **dict.fromkeys(("centre", "scale", "weight"), "a finite number"),
    **dict.fromkeys(("levels", "missing_values"), 'a list of texts, such as ["a", "b"]'),
    "range": _RANGE_HINT,
    "kind": f"one of {', '.join(KINDS)}",
}
_REQUIRED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("number", "date"), ("centre", "scale")),
    "category": ("levels",),
}


# Texts and comments as TOML reads them, and a key of four parts where no schema has more than
# three (columns.age.kind): the parser takes memory by the square of the parts, and a schema may
# come from outside. Both patterns never go back, so that no text takes long.
_TEXTS = re.compile(
    r'''"""(?:[^"\\]|\\.|"{1,2}(?!"))*+(?:"{3,5})?|"(?:[^"\\\n]|\\.)*+"?'''
    r"""|'''(?:[^']|'{1,2}(?!'))*+(?:'{3,5})?|'[^'\n]*+'?|#[^\n]*+""",
    re.DOTALL,
)
_LONG_KEY = re.compile(r"(?:\.[ \t]*+[\w-]++[ \t]*+){3}")


def refuse_unknown_keys(content: Iterable[Any], allowed: Iterable[str], subject: str) -> None:
    """InputError if a key is not allowed, with a similar one that is."""
    keys = list(allowed)
    for key in content:
        if key not in keys:
            raise InputError(
                f"{subject} has an unknown key '{key}'{similar_name_hint(key, keys)}; its keys are"
                f" {', '.join(keys)}.",
                "unknown-key",
            )


def _parse_columns(content: Mapping[str, Any], name: str) -> tuple[SchemaColumn, ...]:
    """The columns in the content of a schema file."""
    refuse_unknown_keys(content, ("version", "columns"), name)
    if content.get("version") != 1:
        shown = content.get("version", "no version")
        raise InputError(
            f"{name} has version {shown!r} where 1 is read; is it a schema file?", "wrong-version"
        )
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise InputError(
            f"{name} describes no columns; add a section such as [columns.age].", "bad-schema"
        )
    return tuple(_parse_column(column, value, name) for column, value in columns.items())


def _parse_column(column: str, content: Any, name: str) -> SchemaColumn:
    subject = f"Column '{column}' of {name}"  # of the sentence of an error
    if not isinstance(content, dict):
        raise InputError(
            f"{subject} is not a section; write [columns.{toml_value(column)}] above its keys.",
            "bad-schema",
        )
    kind = content.get("kind")
    if kind not in KINDS:
        problem = "no kind" if kind is None else f"the kind {kind!r}"
        raise InputError(f"{subject} has {problem}; give {_VALUES['kind']}.", "bad-schema")
    refuse_unknown_keys(content, _KEYS[kind], f"{subject}, a {kind},")
    for key in _REQUIRED.get(kind, ()):
        if key not in content and "range" not in content:
            or_range = f", or a range ({_RANGE_HINT})" if "range" in _KEYS[kind] else ""
            raise InputError(f"{subject} has no {key}; a {kind} needs one{or_range}.", "bad-schema")
    return _to_column({"name": column, **_default_values(kind, content), **content}, name)


def _to_column(values: Mapping[str, Any], schema: str) -> SchemaColumn:
    """The column with these values; InputError names the one that is wrong."""
    try:
        plain = msgspec.to_builtins(values, enc_hook=_from_numpy)
        return msgspec.convert(plain, SchemaColumn)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InputError):  # of a value that is not possible
            raise InputError(f"In {schema}, {error.__cause__}", "bad-schema") from None
        where = re.search(r"\$\.(\w+)", str(error))
        key = "kind" if where is None else where[1]
        raise InputError(
            f"Column '{values['name']}' of {schema} has {key} = {values[key]!r}; give"
            f" {_VALUES.get(key, 'a text in quotes')}.",
            "bad-schema",
        ) from None


def _from_numpy(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else repr(value)


def _default_values(kind: str, values: Mapping[str, Any]) -> dict[str, float]:
    """What a file may leave out.

    Centre and scale are those of values uniform over their range, or of equally frequent booleans;
    the weight is that of equally frequent levels.
    """
    if kind == "boolean":
        return {"centre": 0.5, "scale": 0.5}
    if kind == "category":
        given = values["levels"] if isinstance(values["levels"], list) else ()
        levels = max(2, len([level for level in given if level != OTHER]))
        return {"weight": 2.0 * levels / (levels - 1.0)}
    try:
        low, high = msgspec.convert(values.get("range"), tuple[float, float])
    except msgspec.ValidationError:
        return {}
    return {"centre": (low + high) / 2.0, "scale": (high - low) / math.sqrt(12.0)}
