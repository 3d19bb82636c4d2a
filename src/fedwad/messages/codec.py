"""Messages as bytes, and the one place where types of what arrives are checked.

A packed message is `fedwad`, the version, the length of a header, the header in JSON, then the
arrays one after another as little-endian numbers. The header holds the `request_id` that an answer
repeats, a digest of the site's own schema or names of features, and the messages, each with its
type. Where a message has an array, its header has the array's type and shape. msgspec makes objects
of the types in `REQUESTS` and `REPLIES` and of no others, with fields of their declared types, and
executes nothing that arrived. Fields that it does not know are dropped.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedwad._words import to_printable
from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.messages import columns, learning, private, samples
from fedwad.messages.message import (
    MAX_BUNDLE,
    AnySummary,
    Bundle,
    BundleReply,
    Failure,
    Reply,
    Request,
    SchemaText,
    Support,
)
from fedwad.statistics import LabelledSummary, Summary
from fedwad.transport import Measure

#: All requests; an object of any other type, a subclass included, is refused.
REQUESTS: tuple[type[Request], ...] = (
    columns.DescribeRequest,
    columns.ColumnsRequest,
    samples.SummaryRequest,
    samples.TransportRequest,
    samples.DistanceRequest,
    samples.CellsRequest,
    samples.AtomsRequest,
    learning.LabelsRequest,
    learning.PrototypesRequest,
    private.PrivateRequest,
    private.PrivateColumnsRequest,
    private.PrivateSchemaRequest,
    learning.TrainRequest,
    learning.EvaluateRequest,
)
#: All replies. Nothing else leaves a client.
REPLIES: tuple[type[Reply], ...] = tuple(dict.fromkeys(one.reply_type for one in REQUESTS))


def kind_of(request: object) -> str:
    """The kind of a request, by its exact type; FederationError if it is not a request."""
    if isinstance(request, Request) and type(request) in REQUESTS:
        return type(request).kind  # an instance may lie
    raise FederationError(
        f"A message of type {type(request).__name__} is not a request.", "bad-request"
    )


WIRE_VERSION = 7  # of the format; others are refused
#: Longer messages are not read.
MAX_MESSAGE_BYTES = 1 << 30

_MAGIC = b"fedwad"
_HEADER_START = len(_MAGIC) + 2 + 4  # after the version and the length of the header
_TYPES = {kind.__name__: kind for kind in (*REQUESTS, *REPLIES, Failure)}

_Form = Literal["one", "requests", "replies"]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Envelope:
    """A message on its way.

    An answer repeats the `request_id` of its request. `features` is a digest of the sender's
    schema, or else of the names of its features, empty if these have no names.
    """

    content: Any
    request_id: str = ""
    features: str = ""


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    content: msgspec.Raw


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    request_id: str
    features: str
    form: _Form
    schema: SchemaText
    parts: Annotated[tuple[_Part, ...], msgspec.Meta(max_length=MAX_BUNDLE)]


def pack(envelope: Envelope) -> bytes:
    """The message as bytes."""
    content = envelope.content
    arrays: list[NDArray[Any]] = []
    form: _Form = "one"
    schema, messages = "", cast("tuple[Any, ...]", (content,))
    if isinstance(content, Bundle):
        form, schema, messages = "requests", content.schema, content.requests
    elif isinstance(content, BundleReply):
        form, messages = "replies", content.replies
    parts = tuple(_Part(type(one).__name__, _encode(one, arrays)) for one in messages)
    header = msgspec.json.encode(
        _Header(envelope.request_id, envelope.features, form, schema, parts)
    )
    start = _MAGIC + WIRE_VERSION.to_bytes(2, "little") + len(header).to_bytes(4, "little")
    return b"".join([start, header, *(array.tobytes() for array in arrays)])


def _encode(message: Any, arrays: list[NDArray[Any]]) -> msgspec.Raw:
    """The message in JSON, with its arrays added to `arrays`."""

    def hook(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            wide = "<i8" if value.dtype.kind in "iu" else "<f8"
            kind = "<f4" if value.dtype == np.float32 else wide
            arrays.append(value.astype(kind, order="C", copy=False))
            return [kind, value.shape]
        return _scalar(value)

    return msgspec.Raw(msgspec.json.encode(message, enc_hook=hook))


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise FederationError(f"A {type(value).__name__} cannot be sent in a message.", "bad-message")


def digest(message: Any) -> str:
    """SHA-256 of a message, or of a part of one."""
    return hashlib.sha256(pack(Envelope(message))).hexdigest()


def unpack(data: bytes) -> Envelope:
    """The message in these bytes; FederationError if they are not a message."""
    if not isinstance(data, bytes) or data[: len(_MAGIC)] != _MAGIC or len(data) < _HEADER_START:
        raise FederationError("What arrived is not a message of fedwad.", "bad-message")
    if len(data) > MAX_MESSAGE_BYTES:
        raise FederationError(
            f"A message of {len(data)} bytes arrived; up to {MAX_MESSAGE_BYTES} are read.",
            "too-large",
        )
    version = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2], "little")
    if version != WIRE_VERSION:
        raise FederationError(
            f"A message of version {version} arrived where version {WIRE_VERSION} is read;"
            " update the older installation.",
            "wrong-version",
        )
    try:
        return _unpack(data)
    except FedwadError:
        raise
    except msgspec.ValidationError as error:  # it may repeat a word that arrived
        reason = to_printable(str(error))[:200]
        raise FederationError(f"A damaged message arrived: {reason}.", "bad-message") from None
    except Exception:  # whatever the bytes led to, a RecursionError included
        raise FederationError("A damaged message arrived.", "bad-message") from None


def _unpack(data: bytes, most_parts: int = 100_000) -> Envelope:
    """The message; `most_parts` is a limit on lists and objects in the JSON of its header."""
    end = _HEADER_START + int.from_bytes(data[_HEADER_START - 4 : _HEADER_START], "little")
    header = data[_HEADER_START:end]
    if end > len(data) or len(header) > 1 << 24:
        raise FederationError(
            "A message arrived cut short, or with too long a header.", "bad-message"
        )
    if header.count(b"[") + header.count(b"{") > most_parts:  # counted before any is parsed
        raise FederationError(
            f"A message arrived with more than {most_parts} parts; split it.", "too-large"
        )
    head = msgspec.json.decode(header, type=_Header)
    arrays = _Arrays(data, end)
    messages: tuple[Any, ...] = tuple(
        msgspec.json.decode(part.content, type=_TYPES[part.type], dec_hook=_hook(arrays.read))
        for part in head.parts
    )
    if arrays.start != len(data):
        raise FederationError("A message arrived with more bytes than it declares.", "bad-message")
    content: Any
    if head.form == "one":
        (content,) = messages
    else:
        content = (
            Bundle(messages, head.schema) if head.form == "requests" else BundleReply(messages)
        )
    return Envelope(content, head.request_id, head.features)


class _Arrays:
    """Reads the arrays of a message in the order in which the header names them."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self.start = data, start

    def read(self, dtype: type, value: Any) -> NDArray[Any]:
        """The array of this declared type and shape; ValueError unless the bytes are there."""
        kind, shape = value
        if kind not in ("<f8", "<f4", "<i8") or np.dtype(kind) != dtype or len(shape) > 4:
            raise ValueError("an array has another type than its field")
        count = math.prod(msgspec.convert(shape, tuple[Annotated[int, msgspec.Meta(ge=0)], ...]))
        size = count * np.dtype(kind).itemsize
        if size > len(self._data) - self.start:
            raise ValueError("an array is cut short")
        array = np.frombuffer(self._data, kind, count, self.start).reshape(shape)
        self.start += size
        return array.astype(dtype)  # a copy, aligned like any other array


def _hook(array: Callable[[type, Any], NDArray[Any]]) -> Callable[[Any, Any], Any]:
    """How msgspec makes the types that it does not know; `array` makes arrays."""

    def make(kind: Any, value: Any) -> Any:
        if get_origin(kind) is np.ndarray:
            return array(get_args(get_args(kind)[1])[0], value)
        if kind is Support:
            points, weights = (array(np.float64, value[name]) for name in ("points", "weights"))
            return Measure(points, weights, name="what arrived")
        if kind is AnySummary:
            form = LabelledSummary if "parts" in value else Summary
            return msgspec.convert(value, form, dec_hook=make)
        raise TypeError(kind)

    return make


def plain(message: T) -> T:
    """The message as it would arrive: fields of their declared types, and arrays of its own.

    InputError if a field has another type.
    """
    name = type(message).__name__
    code = "bad-request" if isinstance(message, Request) else "bad-reply"
    try:
        arrays: list[NDArray[Any]] = []
        text = _encode(message, arrays)
        data = _Arrays(b"".join(one.tobytes() for one in arrays), 0)
        return msgspec.json.decode(text, type=type(message), dec_hook=_hook(data.read))
    except msgspec.ValidationError as error:
        raise InputError(f"A {name} has a field that cannot be used: {error}.", code) from None
    except Exception:  # objects of other types
        raise InputError(f"A {name} has fields that cannot be read.", code) from None


def to_builtins(message: Any) -> Any:
    """The message in JSON's types, for a file; an array is an object {"array": list}."""

    def hook(value: Any) -> Any:
        return {"array": value.tolist()} if isinstance(value, np.ndarray) else _scalar(value)

    return msgspec.to_builtins(message, enc_hook=hook)


def convert(content: Any, kind: type[T]) -> T:
    """The message that `to_builtins` made this of; ValueError or TypeError for anything else."""

    def array(dtype: type, value: Any) -> NDArray[Any]:
        return np.array(value["array"], dtype=dtype)

    return msgspec.convert(content, kind, dec_hook=_hook(array))


def payload_bytes(message: Any) -> int:
    """Number of bytes that a message carries: its arrays, eight for each number, one for each
    character."""
    return sum(
        one.nbytes if isinstance(one, np.ndarray) else len(one) if isinstance(one, str) else 8
        for one in leaves(message)
    )


def leaves(value: Any) -> list[Any]:
    """The arrays, numbers and texts in a message or in a part of one, in any order."""
    found: list[Any] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float | int | str | np.ndarray):  # most are
            found.append(one)
        elif isinstance(one, tuple):
            if set(map(type, one)) == {float}:  # as one array, which is counted at once
                found.append(np.array(one))
            else:
                waiting += one
        elif is_dataclass(one):
            waiting += [getattr(one, field.name) for field in fields(one)]
        elif one is not None:
            found.append(one)
    return found


def check_reply(request: Request | Bundle, reply: Any) -> Failure | None:
    """The failure to use instead of `reply` if it cannot answer `request`; None if it can."""
    try:
        if isinstance(reply, Failure):
            plain(reply)
            return None
        if isinstance(request, Bundle):
            if not isinstance(reply, BundleReply) or len(reply.replies) != len(request.requests):
                raise InputError("it does not answer each request of the bundle.", "bad-reply")
            failures = map(check_reply, request.requests, reply.replies)
            return next(filter(None, failures), None)
        if type(reply) not in REPLIES:
            raise InputError(f"a {type(reply).__name__} is not a reply.", "bad-reply")
        plain(reply)
        reply.check_values()
        if isinstance(reply, request.reply_type):
            request.check(reply)
    except InputError as error:
        return Failure("invalid_reply", f"its reply cannot be used: {error}")
    except Exception:  # numbers that do not fit together
        return Failure(
            "invalid_reply", f"its reply, a {type(reply).__name__}, has fields that cannot be read."
        )
    return None
