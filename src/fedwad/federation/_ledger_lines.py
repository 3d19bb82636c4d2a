"""Lines of a ledger: one JSON object each, sealed by a hash of itself and of the line before.

A line ends with its seal, the first half of SHA-256 over the seal of the line before and this line
without its own seal. A changed, inserted or removed line shows, because this line or the next one
no longer fits its seal; a removed last line shows only in the head of a file (`_ledger_file`). A
seal is no signature: it finds accidents and careless edits, not an
operator who writes the whole file anew.
"""

from __future__ import annotations

import json
import math
import re
from binascii import hexlify
from collections.abc import Iterator
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Literal, NamedTuple, get_args

from fedwad.errors import InputError
from fedwad.federation.needs import NON_QUERY_KINDS

__all__ = [
    "FIRST_SEAL",
    "Content",
    "Entry",
    "LedgerLine",
    "Outcome",
    "is_query",
    "read_lines",
    "refuse_unchained",
    "sealed_line",
]

#: "answered"; "refused" if no reply left and the data were not read, "withheld" if they were;
#: "repeated" if the same request got the same reply as before; "spent" for the payment of a private
#: release, before its noise is drawn; "accepted" if the operator let a new version of the data be
#: asked about; "torn" for a line that cannot be read.
Outcome = Literal["answered", "repeated", "refused", "withheld", "spent", "accepted", "torn"]

#: The fields of a line by name, those at their default left out.
Content = dict[str, Any]

#: What the first line of a file is chained to.
FIRST_SEAL = "0" * 32

_SEAL_BYTES = len(FIRST_SEAL) // 2
_NON_QUERY_OUTCOMES = ("refused", "repeated", "accepted")
_MAX_LINE_BYTES = 1 << 14  # no entry makes a longer line
_BEFORE_SEAL, _AFTER_SEAL = b',"seal":"', b'"}'
_CHUNK_LINES = 4096  # number of lines that are decoded together
_TAIL_BYTES = len(_BEFORE_SEAL) + len(FIRST_SEAL) + len(_AFTER_SEAL)
_SEALED = re.compile(rb',"seal":"([0-9a-f]{32})"\}\Z')


@dataclass(frozen=True, slots=True)
class Entry:
    """One request, or several that were counted together.

    Attributes
    ----------
    when : str
        Time in UTC. Nothing depends on it: clocks jump.
    kind : str
        Kind of the request.
    outcome : str
        What became of it.
    bytes : int
        Size of the reply.
    min_cell_size : int
        Smallest number of samples that one number of the reply averages.
    digest, data, request : str
        SHA-256 of the reply, of the data, and of the request. The last is empty where the same
        request can have a different reply the next time.
    mu : float
        Privacy loss of a private release.
    reason : str
        Why no reply left.
    count : int
        How many requests of this kind and outcome the line stands for.
    """

    when: str
    kind: str
    outcome: Outcome
    bytes: int = 0
    min_cell_size: int = 0
    digest: str = ""
    data: str = ""
    mu: float = 0.0
    request: str = ""
    reason: str = ""
    count: int = 1

    @property
    def is_query(self) -> bool:
        """Whether this counts as a query, see the function `is_query`."""
        return is_query(self.kind, self.outcome)

    @classmethod
    def of(cls, content: Content) -> Entry:
        """The entry with these fields; fields that an entry does not have are ignored."""
        return cls(**{name: content[name] for name in _FIELD_TYPES if name in content})

    @property
    def content(self) -> Content:
        """The fields by name, without those at their default."""
        named = ((name, getattr(self, name)) for name in _FIELD_TYPES)
        return {name: value for name, value in named if _DEFAULTS.get(name) != value}


_FIELD_TYPES: dict[str, type] = {
    field.name: {"int": int, "float": float}.get(str(field.type), str) for field in fields(Entry)
}
_DEFAULTS: Content = {field.name: field.default for field in fields(Entry)[3:]}
_REQUIRED_FIELDS = frozenset(("when", "kind", "outcome"))
_OUTCOMES = frozenset(get_args(Outcome)) - {"torn"}


class LedgerLine(NamedTuple):
    """A line that was read: its fields, where it ends in the text, and the seal that the next line
    is chained to."""

    content: Content
    end: int
    seal: str


def is_query(kind: str, outcome: str) -> bool:
    """Whether a request of this kind and outcome counts as a query.

    A withheld reply counts, because its absence says something about the data. A repeated one does
    not. A private release counts once, by its line "spent" and not by the line "answered".
    """
    if kind == "private" and outcome == "answered":
        return False
    return outcome not in _NON_QUERY_OUTCOMES and kind not in NON_QUERY_KINDS


def sealed_line(entry: Entry, previous: str) -> tuple[bytes, str]:
    """The line of an entry, with its newline, and its seal."""
    body = json.dumps(entry.content, allow_nan=False, separators=(",", ":")).encode("utf-8")[:-1]
    seal = _seal(previous.encode(), body)
    return b"".join((body, _BEFORE_SEAL, seal, _AFTER_SEAL, b"\n")), seal.decode()


def read_lines(text: bytes, previous: str) -> Iterator[LedgerLine]:
    """The lines of a text, whose first one is chained to `previous`.

    A line that does not fit its seal is "torn". It counts as often as it holds seals, since a
    damaged newline joins two lines. The next line is chained to the last seal in it, so that the
    damage does not spread to all lines after it.
    """
    lines = text.split(b"\n")
    if not lines[-1]:
        del lines[-1]
    end, seal = 0, previous.encode()
    for start in range(0, len(lines), _CHUNK_LINES):
        chunk = lines[start : start + _CHUNK_LINES]
        checked = _check_seals(chunk, seal)
        contents = iter(
            _decode([line for line, (intact, _) in zip(chunk, checked, strict=True) if intact])
        )
        for line, (intact, seal) in zip(chunk, checked, strict=True):
            end += len(line) + 1
            content = next(contents) if intact else None
            yield LedgerLine(content or _torn_content(line), end, seal.decode())


def refuse_unchained(text: bytes, name: str) -> None:
    """Raise InputError if this is the text of a ledger whose lines have no seals.

    Earlier versions wrote such ledgers. They are not continued, because nobody can say whether a
    line is missing.
    """
    first = text[: _MAX_LINE_BYTES + 1].split(b"\n", 1)[0]
    if first.startswith(b'{"when": ') and b'"outcome": ' in first and b'"seal"' not in first:
        raise InputError(
            f"The ledger {name} is of an earlier version, whose lines are not chained; keep it in"
            " another place, and start a new one if what it lists is acceptable."
        )


def _check_seals(lines: list[bytes], seal: bytes) -> list[tuple[bool, bytes]]:
    """Whether each line fits its seal, and the seal that the next line is chained to."""
    checked, tail = [], -_TAIL_BYTES
    for line in lines:
        expected = _seal(seal, line[:tail])
        intact = line[tail:] == b"".join((_BEFORE_SEAL, expected, _AFTER_SEAL))
        intact = intact and len(line) <= _MAX_LINE_BYTES
        seal = expected if intact else _last_seal(line)
        checked.append((intact, seal))
    return checked


def _seal(previous: bytes, body: bytes) -> bytes:
    return hexlify(sha256(previous + body).digest()[:_SEAL_BYTES])


def _last_seal(line: bytes) -> bytes:
    """The seal at the end of a torn line, or a hash of the line if there is none."""
    found = _SEALED.search(line[-_TAIL_BYTES:])
    return found[1] if found else _seal(b"", line)


def _torn_content(line: bytes) -> Content:
    return {
        "when": "",
        "kind": "unreadable",
        "outcome": "torn",
        "count": max(1, line.count(b'"seal"')),
    }


def _decode(lines: list[bytes]) -> list[Content | None]:
    """The fields of each line; None for a line whose fields are not those of an entry."""
    try:
        contents: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        contents = [_decode_line(line) for line in lines]
    return [content if _is_entry(content) else None for content in contents]


def _decode_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_entry(content: Any) -> bool:
    """Whether these are the fields of an entry; later versions may have more of them."""
    if type(content) is not dict or content.pop("seal", None) is None:
        return False
    names = tuple(content)
    types = _types_cache.get(names) or _valid_types(names, tuple(map(type, content.values())))
    if [*map(type, content.values())] != types or content["outcome"] not in _OUTCOMES:
        return False
    get = content.get
    sizes = get("bytes", 0) >= 0 and get("min_cell_size", 0) >= 0 and get("count", 1) >= 1
    return bool(sizes and 0.0 <= get("mu", 0.0) < math.inf)


#: Valid types of fields by the names of the fields: most lines have the same fields.
_types_cache: dict[tuple[str, ...], list[type]] = {}
_MAX_CACHED_TYPES = 256


def _valid_types(names: tuple[str, ...], types: tuple[type, ...]) -> list[type] | None:
    """The types as a list, which is cached; None unless they are those of an entry's fields."""
    if not set(names) >= _REQUIRED_FIELDS:
        return None
    if any(
        _FIELD_TYPES.get(name, kind) is not kind for name, kind in zip(names, types, strict=True)
    ):
        return None
    if len(_types_cache) < _MAX_CACHED_TYPES and set(names) <= set(_FIELD_TYPES):
        _types_cache[names] = list(types)
    return list(types)
