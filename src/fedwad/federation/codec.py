"""Messages as bytes: named arrays and numbers, with a version.

A letter is `fedwad`, the version, the length of a header, the header in JSON, then the arrays one
after another as little-endian numbers. The header tells the ticket that an answer repeats, a digest
of the names of features, the message with numbers and words in place, and type and shape of each
array. Reading makes objects of the few types below and of no others, and nothing that is read is
run.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FederationError, FedwadError
from fedwad.federation.bundle import Bundle
from fedwad.federation.replies import BundleReply, Failure
from fedwad.federation.requests import REPLIES, REQUESTS
from fedwad.ot import LabelledSummary, Measure, Summary

__all__ = ["LARGEST", "VERSION", "Envelope", "VersionError", "digest", "pack", "unpack"]

VERSION = 1
#: Most bytes of a letter that is read.
LARGEST = 1 << 30

_MAGIC = b"fedwad"
_START = len(_MAGIC) + 2 + 4
_LARGEST_HEADER = 1 << 26
_PARTS: tuple[type, ...] = (Measure, Summary, LabelledSummary)
_MESSAGES: tuple[type, ...] = (*REQUESTS, Bundle, *REPLIES, BundleReply, Failure)
_TYPES = {kind.__name__: kind for kind in (*_PARTS, *_MESSAGES)}
_TUPLES = {
    kind: {field.name for field in fields(kind) if str(field.type).startswith("tuple[")}
    for kind in _TYPES.values()
}
_ARRAYS: dict[str, type[np.generic]] = {"<f8": np.float64, "<f4": np.float32, "<i8": np.int64}
_MOST_AXES = 4


class VersionError(FederationError):
    """A letter of another version of the format."""


@dataclass(frozen=True, eq=False)
class Envelope:
    """A message on its way: the ticket of the question, and a digest of the names of the sender's
    features."""

    content: Any
    request_id: str = ""
    features: str = ""


def pack(letter: Envelope) -> bytes:
    """The letter as bytes."""
    arrays: list[NDArray[Any]] = []
    content = _plain(letter.content, arrays)
    shapes = [[array.dtype.newbyteorder("<").str, list(array.shape)] for array in arrays]
    head = {
        "request_id": letter.request_id,
        "features": letter.features,
        "message": content,
        "arrays": shapes,
    }
    header = json.dumps(head, allow_nan=False, separators=(",", ":")).encode("utf-8")
    start = _MAGIC + VERSION.to_bytes(2, "little") + len(header).to_bytes(4, "little")
    return b"".join([start, header, *(np.ascontiguousarray(array).tobytes() for array in arrays)])


def digest(message: Any) -> str:
    """SHA-256 of a message."""
    return hashlib.sha256(pack(Envelope(message))).hexdigest()


def _plain(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The value in JSON's types, its arrays put aside."""
    if isinstance(value, np.ndarray):
        kind = "<i8" if value.dtype.kind in "iu" else "<f4" if value.dtype == np.float32 else "<f8"
        arrays.append(value.astype(kind, copy=False))
        return {"array": len(arrays) - 1}
    if type(value) in _TYPES.values():
        named = {field.name: _plain(getattr(value, field.name), arrays) for field in fields(value)}
        return {"type": type(value).__name__, **named}
    if isinstance(value, tuple):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FederationError(f"A {type(value).__name__} cannot travel.")


def unpack(data: bytes, largest: int = LARGEST) -> Envelope:
    """Read a letter; VersionError or FederationError, in one sentence, for anything else."""
    if not isinstance(data, bytes) or data[: len(_MAGIC)] != _MAGIC or len(data) < _START:
        raise FederationError("What arrived is no letter of fedwad.")
    if len(data) > largest:
        raise FederationError(f"A letter of {len(data)} bytes arrived; up to {largest} are read.")
    version = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2], "little")
    if version != VERSION:
        raise VersionError(
            f"A letter of version {version} arrived where version {VERSION} is read; update the older."
        )
    try:
        return _read(data)
    except FedwadError:
        raise
    except Exception:  # whatever the bytes made the readers stumble over; RecursionError is one
        raise FederationError("A damaged letter arrived.") from None


def _read(data: bytes) -> Envelope:
    end = _START + int.from_bytes(data[_START - 4 : _START], "little")
    if end > min(len(data), _LARGEST_HEADER):
        raise FederationError("A letter arrived cut short.")
    head = json.loads(data[_START:end], parse_constant=_refuse)
    arrays = []
    for kind, shape in head["arrays"]:
        if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > _MOST_AXES:
            raise FederationError("A letter arrived with an array of impossible shape.")
        count, dtype = math.prod(shape), np.dtype(_ARRAYS[kind]).newbyteorder("<")
        size = count * dtype.itemsize
        if size > len(data) - end:
            raise FederationError("A letter arrived cut short.")
        values = np.frombuffer(data, dtype=dtype, count=count, offset=end)
        arrays.append(values.reshape(shape).astype(_ARRAYS[kind], copy=False))
        end += size
    if end != len(data):
        raise FederationError("A letter arrived with more bytes than it tells.")
    request_id, features = head["request_id"], head["features"]
    if type(request_id) is not str or type(features) is not str:
        raise FederationError("A damaged letter arrived.")
    message = _built(head["message"], arrays)
    if type(message) not in _MESSAGES:
        raise FederationError("A letter arrived without a message.")
    return Envelope(message, request_id, features)


def _refuse(word: str) -> Any:
    raise FederationError(f"A letter arrived with a number that is none ({word}).")


def _built(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise FederationError("A letter arrived with a list where none belongs.")
        return value
    if set(value) == {"array"}:
        return arrays[value["array"]]
    kind = _TYPES[value.pop("type")]
    names = {field.name for field in fields(kind)}
    if set(value) != names:
        raise FederationError(f"A {kind.__name__} arrived with other fields than it has.")
    found: dict[str, Any] = {}
    for name, part in value.items():
        if name in _TUPLES[kind] and isinstance(part, list):
            found[name] = tuple(_built(item, arrays) for item in part)
        else:
            found[name] = _built(part, arrays)
    if kind is Measure:
        return Measure(found["points"], found["weights"], name="what arrived")
    return kind(**found)
