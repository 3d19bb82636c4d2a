"""How a packed message travels in a Flower message: as bytes in one record."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

from fedwad.federation import Failure, pack_failure

__all__ = ["MESSAGE_TYPE", "failure_reply", "is_unknown", "unwrap", "wrap"]

#: The only type of Flower message that nodes answer.
MESSAGE_TYPE = "query"

_RECORD, _PAYLOAD = "fedwad", "payload"

#: Our sentences for Flower's error codes. Flower's own reasons quote exceptions of the client,
#: which can contain paths and data.
_UNKNOWN = 3
_ERRORS = {
    1: "its node could not load the app; check that fedwad is installed there",
    2: "its app failed; see the log of its node",
    3: "the message was lost on the way",
    4: "the reply came too late and was dropped",
    5: "its node stopped sending heartbeats; check that it is running",
    7: "its node does not trust the app",
    8: "its app crashed; see the log of its node",
}


def wrap(payload: bytes) -> RecordDict:
    """The content of a Flower message that carries these bytes."""
    return RecordDict({_RECORD: ConfigRecord({_PAYLOAD: payload})})


def unwrap(message: Message) -> bytes | Failure:
    """The bytes in a Flower message from the other side, which may contain anything."""
    if message.has_error():
        return Failure("silent", f"{_ERRORS.get(message.error.code, 'Flower reported an error')}.")
    try:
        payload = message.content.config_records[_RECORD][_PAYLOAD]
    except Exception:  # another record, another key, no content at all
        payload = None
    if type(payload) is bytes:
        return payload
    return Failure(
        "invalid_reply", "its reply is not a fedwad message; its node may run another app."
    )


def is_unknown(message: Message) -> bool:
    """Whether this says that the SuperLink does not know the message that was sent."""
    return message.has_error() and message.error.code == _UNKNOWN


def failure_reply(message: Message, failure: Failure) -> Message:
    """The reply to a message that cannot be answered."""
    return Message(wrap(pack_failure(failure)), reply_to=message)
