"""How a letter travels in a Flower message: as bytes in one record."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

from fedwad.federation import Envelope, Failure, pack

__all__ = ["KIND", "opened", "packed", "refusal"]

#: Kind of message that nodes answer; they have no other door.
KIND = "query"

_RECORD, _LETTER = "fedwad", "letter"

#: Flower's error codes in words of our own: its reasons quote a client's exceptions, paths, data
#: and all.
_SILENCES = {
    1: "its node could not load the app; see whether fedwad is installed there",
    2: "its app failed; its node's log says more",
    3: "the message was lost on the way",
    4: "the reply came too late and was dropped",
    5: "its node stopped giving signs of life; see whether it is running",
    7: "its node does not trust the app",
    8: "its app crashed; its node's log says more",
}


def packed(letter: bytes) -> RecordDict:
    """A letter as the content of a message."""
    return RecordDict({_RECORD: ConfigRecord({_LETTER: letter})})


def opened(message: Message) -> bytes | Failure:
    """The letter in a message from the other side, which may hold anything."""
    if message.has_error():
        return Failure(
            "silent", f"{_SILENCES.get(message.error.code, 'Flower reported an error')}."
        )
    try:
        letter = message.content.config_records[_RECORD][_LETTER]
    except Exception:  # another record, another key, no content at all
        letter = None
    return (
        letter
        if type(letter) is bytes
        else Failure("garbage", "what came back is no letter; it may run another app.")
    )


def refusal(message: Message, failure: Failure) -> Message:
    """The reply to a message that cannot be answered."""
    return Message(packed(pack(Envelope(failure))), reply_to=message)
