"""Messages as bytes: named arrays and numbers, with a version.

A packed message is `fedwad`, the version, the length of a header, the header in JSON, then the
arrays one after another as little-endian numbers. The header holds the `request_id` that an answer
repeats, a digest of the schema or of the names of features, the content with its numbers and
strings, and type and shape of each array. Unpacking makes objects of the few types in `_TYPES` and
of no others, and executes nothing that arrived.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, fields
from typing import Any, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FederationError, FedwadError
from fedwad.federation.bundle import Bundle, BundleReply
from fedwad.federation.failures import Failure
from fedwad.federation.requests import REPLIES, REQUESTS
from fedwad.ot import Calibration, LabelledSummary, Measure, Summary
from fedwad.tables import ColumnStatistics, Profile

__all__ = [
    "MAX_MESSAGE_BYTES",
    "WIRE_VERSION",
    "Envelope",
    "VersionError",
    "digest",
    "pack",
    "unpack",
]

WIRE_VERSION = 5
#: Longer messages are not read.
MAX_MESSAGE_BYTES = 1 << 30

_MAGIC = b"fedwad"
_HEADER_START = len(_MAGIC) + 2 + 4  # after the version and the length of the header
_MAX_HEADER_BYTES = 1 << 24
_MAX_PARTS = 100_000  # lists and objects in the JSON of a header
_NESTED_TYPES: tuple[type, ...] = (
    Measure,
    Summary,
    LabelledSummary,
    Calibration,
    Profile,
    ColumnStatistics,
)
_MESSAGE_TYPES: tuple[type, ...] = (*REQUESTS, Bundle, *REPLIES, BundleReply, Failure)
_TYPES = {kind.__name__: kind for kind in (*_NESTED_TYPES, *_MESSAGE_TYPES)}
_ARRAY_TYPES: dict[str, type[np.generic]] = {"<f8": np.float64, "<f4": np.float32, "<i8": np.int64}
_MAX_AXES = 4


def _fields(kind: type) -> dict[str, bool]:
    """The names of a type's fields, each with whether it is a tuple, which JSON has as a list."""
    hints = get_type_hints(kind)
    return {field.name: get_origin(hints[field.name]) is tuple for field in fields(kind)}


_IS_TUPLE = {kind: _fields(kind) for kind in _TYPES.values()}


class VersionError(FederationError):
    """A message of a different version of the format."""


@dataclass(frozen=True, eq=False)
class Envelope:
    """A message on its way.

    An answer repeats the `request_id` of its request. `features` is a digest of the sender's
    schema, or else of the names of its features, empty if these have no names.
    """

    content: Any
    request_id: str = ""
    features: str = ""


def pack(envelope: Envelope) -> bytes:
    """The message as bytes."""
    arrays: list[NDArray[Any]] = []
    content = _plain(envelope.content, arrays)
    shapes = [[array.dtype.newbyteorder("<").str, list(array.shape)] for array in arrays]
    head = {
        "request_id": envelope.request_id,
        "features": envelope.features,
        "message": content,
        "arrays": shapes,
    }
    header = json.dumps(head, allow_nan=False, separators=(",", ":")).encode("utf-8")
    start = _MAGIC + WIRE_VERSION.to_bytes(2, "little") + len(header).to_bytes(4, "little")
    return b"".join([start, header, *(np.ascontiguousarray(array).tobytes() for array in arrays)])


def digest(message: Any) -> str:
    """SHA-256 of a message."""
    return hashlib.sha256(pack(Envelope(message))).hexdigest()


def _plain(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The value in JSON's types, with its arrays moved to `arrays`."""
    if isinstance(value, np.ndarray):
        arrays.append(value.astype(_array_type(value), copy=False))
        return {"array": len(arrays) - 1}
    if type(value) in _TYPES.values():
        named = {name: _plain(getattr(value, name), arrays) for name in _IS_TUPLE[type(value)]}
        return {"type": type(value).__name__, **named}
    if isinstance(value, tuple):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FederationError(f"A {type(value).__name__} cannot be sent in a message.")


def _array_type(array: NDArray[Any]) -> str:
    if array.dtype.kind in "iu":
        return "<i8"
    return "<f4" if array.dtype == np.float32 else "<f8"


def unpack(data: bytes) -> Envelope:
    """The message in these bytes; VersionError or FederationError if they are not a message."""
    if not isinstance(data, bytes) or data[: len(_MAGIC)] != _MAGIC or len(data) < _HEADER_START:
        raise FederationError("What arrived is not a message of fedwad.")
    if len(data) > MAX_MESSAGE_BYTES:
        raise FederationError(
            f"A message of {len(data)} bytes arrived; up to {MAX_MESSAGE_BYTES} are read."
        )
    version = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2], "little")
    if version != WIRE_VERSION:
        raise VersionError(
            f"A message of version {version} arrived where version {WIRE_VERSION} is read;"
            " update the older installation."
        )
    try:
        return _unpack_header(data)
    except FedwadError:
        raise
    except Exception:  # whatever the bytes led to, a RecursionError included
        raise FederationError("A damaged message arrived.") from None


def _unpack_header(data: bytes) -> Envelope:
    end = _HEADER_START + int.from_bytes(data[_HEADER_START - 4 : _HEADER_START], "little")
    if end > len(data):
        raise FederationError("A message arrived cut short.")
    if end > _MAX_HEADER_BYTES:
        raise FederationError("A message arrived with too long a header; split it.")
    header = data[_HEADER_START:end]
    if header.count(b"[") + header.count(b"{") > _MAX_PARTS:  # counted before any is parsed
        raise FederationError(f"A message arrived with more than {_MAX_PARTS} parts; split it.")
    head = json.loads(header, parse_constant=_refuse_constant)
    arrays = []
    for kind, shape in head["arrays"]:
        arrays.append(_read_array(data, end, kind, shape))
        end += arrays[-1].nbytes
    if end != len(data):
        raise FederationError("A message arrived with more bytes than it declares.")
    request_id, features = head["request_id"], head["features"]
    if type(request_id) is not str or type(features) is not str:
        raise FederationError("A damaged message arrived.")
    message = _build(head["message"], arrays)
    if type(message) not in _MESSAGE_TYPES:
        raise FederationError("A message arrived without content of a known type.")
    return Envelope(message, request_id, features)


def _read_array(data: bytes, start: int, kind: str, shape: list[Any]) -> NDArray[Any]:
    if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > _MAX_AXES:
        raise FederationError("A message arrived with an array of impossible shape.")
    count, dtype = math.prod(shape), np.dtype(_ARRAY_TYPES[kind]).newbyteorder("<")
    if count * dtype.itemsize > len(data) - start:
        raise FederationError("A message arrived cut short.")
    values = np.frombuffer(data, dtype=dtype, count=count, offset=start)
    return values.reshape(shape).astype(_ARRAY_TYPES[kind], copy=False)


def _refuse_constant(word: str) -> Any:
    raise FederationError(f"A message arrived with {word} instead of a number.")


def _build(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The value that `_plain` made this of, with its arrays put back."""
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise FederationError("A message arrived with a list where none belongs.")
        return value
    if set(value) == {"array"}:
        return arrays[value["array"]]
    kind = _TYPES[value.pop("type")]
    is_tuple = _IS_TUPLE[kind]
    if set(value) != set(is_tuple):
        raise FederationError(f"A {kind.__name__} arrived with different fields than it has.")
    content = {
        name: tuple(_build(item, arrays) for item in part)
        if is_tuple[name] and isinstance(part, list)
        else _build(part, arrays)
        for name, part in value.items()
    }
    if kind is Measure:
        return Measure(content["points"], content["weights"], name="what arrived")
    return kind(**content)
