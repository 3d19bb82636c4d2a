"""Files that are written whole or not at all, and results that are saved in them."""

from __future__ import annotations

import io
import json
import math
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from fedwad._checks import check_path
from fedwad.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


T = TypeVar("T")

_ENGINE_ENTRIES = ("kind", "agreed_schema")  # entries that a job of an engine adds to a result
#: What reading damaged content can raise.
DAMAGE_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    msgspec.ValidationError,
)


# Characters that steer a terminal or the direction of writing; those kept are in names and texts.
_STEERING = {
    code: "\ufffd"
    for code in range(0x206A)
    if unicodedata.category(chr(code)) in ("Cc", "Cf") and chr(code) not in "\n\r\t\xad\u200c\u200d"
}


def _as_text(content: Any) -> Any:
    """The content of a file from somebody else, without characters that are no text."""
    if isinstance(content, str):
        return content.translate(_STEERING)
    if isinstance(content, Mapping):
        return {_as_text(key): _as_text(value) for key, value in content.items()}
    if isinstance(content, list) and not (content and isinstance(content[0], float)):
        return [_as_text(value) for value in content]
    return content


class SavedResult:
    """A result that can be written to a file and read again."""

    _format: ClassVar[str]  # "fedwad <noun> <version>", the first entry of the file
    _noun: ClassVar[str]  # the word for such a result in errors
    _unsaved: ClassVar[tuple[str, ...]] = ()  # fields that are not saved as they are

    def _content(self) -> dict[str, Any]:
        """Return the fields that are saved, as plain numbers, strings and lists."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {name: to_plain(getattr(self, name)) for name in names if name not in self._unsaved}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> Self:
        """Make a result from what `_content` returned; anything else raises a `DAMAGE_ERRORS`."""
        return read_fields(cls, content)

    def _check(self) -> None:
        """Raise ValueError unless the fields fit one another."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, which `save` writes.

        The entry "format" has the kind of result and the version of what follows. Within a version
        entries are added, and none is removed or changes its meaning.
        """
        return {"format": self._format, **self._content()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Make a result from what `to_dict` or an engine returned; InputError for anything else."""
        entries = dict(content) if isinstance(content, Mapping) else {"format": None}
        for name in _ENGINE_ENTRIES:
            entries.pop(name, None)
        saved_format = entries.pop("format", cls._format)
        if saved_format != cls._format:
            raise InputError(
                f"This is the content of {saved_format!r} where '{cls._format}' is read; give"
                " that.",
                "wrong-format",
            )
        try:
            result = cls._from_content(_as_text(entries))
            result._check()
            repr(result), result._html_rows()  # they raise if a part of a field has a wrong type
            return result
        except DAMAGE_ERRORS:
            raise InputError(
                f"This is not the content of a fedwad {cls._noun}; parts are missing or were"
                " changed.",
                "damaged-content",
            ) from None

    def _compared_content(self) -> dict[str, Any]:
        """Return the content that decides whether two results are equal."""
        return self.to_dict()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        # By their texts, since nan differs from itself.
        return repr(self._compared_content()) == repr(other._compared_content())

    def _html_rows(self) -> Mapping[str, str]:
        """Return the rows of the table that a notebook shows, a text for each name."""
        return {}

    def _repr_html_(self) -> str:
        from fedwad._html import html_table

        return html_table(repr(self), self._html_rows())

    def save(self, path: str | Path) -> None:
        """Write the result as JSON, all of it or nothing."""
        write_atomically(path, json.dumps(self.to_dict()) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a result that `save` wrote; every number comes back bit for bit."""
        path = check_path(path, "path")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError:
            raise InputError(
                f"There is no readable file at {path}; check the path.", "no-such-file"
            ) from None
        except ValueError:
            content = None
        saved_format = content.pop("format", None) if isinstance(content, dict) else None
        if saved_format != cls._format:
            if isinstance(saved_format, str) and saved_format.startswith(f"fedwad {cls._noun} "):
                raise InputError(
                    f"{path} was saved by a different version of fedwad ('{saved_format}', not"
                    f" '{cls._format}'); compute the {cls._noun} again.",
                    "wrong-version",
                )
            raise InputError(
                f"{path} is not a saved {cls._noun}; give a file that was saved as one.",
                "wrong-format",
            )
        try:
            return cls.from_dict(content)
        except InputError:
            raise InputError(
                f"{path} is damaged: parts of the saved {cls._noun} are missing or were changed.",
                "damaged-content",
            ) from None


def to_plain(value: Any) -> Any:
    """Return the value of a field in a form that JSON can hold; NaN becomes None."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def read_fields(kind: type[T], content: Mapping[str, Any]) -> T:
    """Make a dataclass from the plain form of its fields, which are checked against their types.

    Where a number is declared and None was saved, it is NaN. The entries named in `_computed`
    follow from the fields and are left out.
    """
    hints = get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in content and field.name not in getattr(kind, "_unsaved", ()):
            raise KeyError(field.name)
    names = content.keys() - set(getattr(kind, "_computed", ()))
    return kind(**{name: read_field(hints[name], content[name]) for name in names})


def read_field(hint: Any, value: Any) -> Any:
    """Make a value of a declared type from its plain form."""
    if hint is float and value is None:
        return math.nan
    kinds = get_args(hint)
    if isinstance(value, Mapping):
        for kind in kinds or (hint,):
            if hasattr(kind, "from_dict"):
                return kind.from_dict(value)
            if isinstance(kind, type) and is_dataclass(kind):
                return read_fields(kind, value)
        if get_origin(hint) is Mapping:
            return {str(key): read_field(kinds[1], item) for key, item in value.items()}
    if isinstance(value, list) and (get_origin(hint) is list or kinds[1:] == (...,)):
        return get_origin(hint)(read_field(kinds[0], item) for item in value)
    return msgspec.convert(value, hint, dec_hook=_read_array)


def _read_array(kind: Any, value: Any) -> Any:
    if get_origin(kind) is not np.ndarray:
        raise TypeError(kind)
    return np.array(value, dtype=get_args(get_args(kind)[1])[0])


def to_toml(content: Mapping[str, Any]) -> str:
    """Return entries as lines of TOML: strings, numbers, lists and flat mappings."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in content.items())


def toml_value(value: Any) -> str:
    """Return a value in TOML, which differs from JSON in mappings, DEL and infinite floats."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {toml_value(part)}" for key, part in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write `content` to a temporary file in the folder of `path`, flush it, and rename it.

    An interruption leaves the old file or the new one, never a part of one.
    """
    path = check_path(path, "path")
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if not path.parent.is_dir():
            raise InputError(
                f"There is no folder {path.parent} to write {path.name} into; create it first.",
                "no-such-file",
            )
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file to write.", "is-a-folder")
        _write_and_rename(path, data)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid name"
        raise InputError(
            f"{path} cannot be written ({reason}); choose a different path.", "cannot-write"
        ) from None


def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a .npz file without pickled objects, all of it or nothing."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_atomically(path, content.getvalue())


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Return the arrays of a .npz file by name; an empty dict if it is another kind of file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"There is no file at {path}; check the path.", "no-such-file") from None
    except Exception:  # NumPy raises many types of errors for files of other kinds
        return {}


def _write_and_rename(path: Path, data: bytes) -> None:
    import tempfile  # when first needed: importing fedwad stays light

    handle, temporary = tempfile.mkstemp(prefix=".fedwad-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of Matplotlib, of this size in inches.

    An InputError says how to install Matplotlib where it is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "Pictures need Matplotlib; run: pip install 'fedwad[plot]'.", "missing-package"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")
