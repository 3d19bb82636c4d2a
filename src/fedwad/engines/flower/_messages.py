"""A message of fedwad travels in a Flower message, as the bytes of one record."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

from fedwad.federation import Failure, pack_failure

__all__ = ["MESSAGE_TYPE", "failure_reply", "is_message_unavailable", "unwrap", "wrap"]

#: The only one of Flower's message types that nodes answer. The glossary's query is another thing.
MESSAGE_TYPE = "query"

_RECORD, _PAYLOAD = "fedwad", "payload"

_MESSAGE_UNAVAILABLE = 3
# Our sentences for Flower's `ErrorCode`s; whoever shows one puts "Site 'paris': " before it.
# Flower's own reasons quote exceptions of the ClientApp, which can contain paths and data.
_ERRORS = {
    1: "its node could not load the app; check that fedwad is installed there",
    2: "its app failed; see the log of its node",
    _MESSAGE_UNAVAILABLE: "the message was lost on the way",
    4: "the reply came too late and was dropped",  # REPLY_MESSAGE_UNAVAILABLE
    5: "its node stopped sending heartbeats; check that it is running",
    7: "its node does not accept the app as valid",  # INVALID_FAB
    8: "its app crashed; see the log of its node",
}


def wrap(payload: bytes) -> RecordDict:
    """The content of a Flower message that carries these bytes."""
    return RecordDict({_RECORD: ConfigRecord({_PAYLOAD: payload})})


def unwrap(message: Message) -> bytes | Failure:
    """The bytes in a Flower message, which comes from outside and may contain anything.

    Returns a Failure if the message is an error, or not one of fedwad.
    """
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


def is_message_unavailable(reply: Message) -> bool:
    """Whether a reply is Flower's error that the SuperLink does not have the message any more."""
    return reply.has_error() and reply.error.code == _MESSAGE_UNAVAILABLE


def failure_reply(message: Message, failure: Failure) -> Message:
    """The Flower reply to `message` that says why it cannot be answered."""
    return Message(wrap(pack_failure(failure)), reply_to=message)
