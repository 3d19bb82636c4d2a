"""A federation whose clients are reached by messages: what all engines have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from fedwad._words import to_printable
from fedwad.errors import FederationError, InputError
from fedwad.federation.bundle import BundleReply
from fedwad.federation.codec import Envelope, VersionError, pack, unpack
from fedwad.federation.failures import Failure
from fedwad.federation.federation import Answer, NamedSites, Question
from fedwad.federation.message import Reply
from fedwad.federation.requests.describe import DescribeRequest, Description
from fedwad.federation.requests.schema import AdoptSchemaReply, ProfileReply

__all__ = ["RemoteFederation", "describe_message", "pack_failure", "unpack_description"]


R = TypeVar("R", bound=Reply | BundleReply | Failure)


class RemoteFederation(NamedSites, ABC):
    """Sites that answer messages. An engine adds `exchange`, which carries bytes and knows nothing
    of their content.

    Each round has its own `request_id`, which answers repeat. A reply that comes a round late is
    therefore not taken for a reply to the next request. A failure needs no id, since a node may
    fail before it reads one. A question is a request or a bundle of them; an answer is a reply, the
    replies to a bundle, or a failure.
    """

    def __init__(self, names: Sequence[str], timeout: float = 600.0) -> None:
        if not names:
            raise FederationError("No site is connected; start the nodes first.")
        self._names = tuple(names)
        self._timeout = timeout
        #: Digests of each site's schema, or of the names of its features if it has none.
        self._feature_digests: dict[str, str] = {}
        #: Descriptions that sites sent before the run. Each answers one DescribeRequest.
        self.descriptions: dict[str, Description] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @abstractmethod
    def exchange(
        self, messages: Mapping[str, bytes], timeout: float
    ) -> Mapping[str, bytes | Failure]:
        """Carry a message to each named site, all at once; return what each answers within
        `timeout` seconds."""

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        described = {
            name: self.descriptions.pop(name)
            for name, request in requests.items()
            if self[name].name in self.descriptions and type(request) is DescribeRequest
        }
        others = {name: request for name, request in requests.items() if name not in described}
        return {**described, **(self._ask(others) if others else {})}

    def _ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        request_id = os.urandom(8).hex()
        packed: dict[int, bytes] = {}  # a request to all sites is packed once
        for request in requests.values():
            if id(request) not in packed:
                packed[id(request)] = pack(Envelope(request, request_id))
        messages = {name: packed[id(request)] for name, request in requests.items()}
        packed_answers = self.exchange(messages, self._timeout)
        answers = {
            name: self._unpack(name, packed_answers[name], request_id)
            for name in requests
            if name in packed_answers
        }
        if any(map(_takes_schema, answers.values())):
            # Digests of sites that were not asked are of the old encoding; their next reply brings
            # the new one.
            self._feature_digests = {
                name: self._feature_digests[name]
                for name in answers
                if name in self._feature_digests
            }
        return {name: self._check_features(name, answer) for name, answer in answers.items()}

    def _unpack(self, name: str, packed: bytes | Failure, request_id: str) -> Answer:
        """The answer of this site, or a failure if it cannot be used; notes the digest of its
        features."""
        envelope = packed if isinstance(packed, Failure) else _open_envelope(packed)
        if isinstance(envelope, Failure):
            return envelope
        message = envelope.content
        if not isinstance(message, Reply | BundleReply | Failure):
            return Failure(
                "invalid_reply", f"a {type(message).__name__} came, which is not a reply."
            )
        if envelope.request_id != request_id and not isinstance(message, Failure):
            return Failure(
                "invalid_reply", "an answer to a different request came; it may be late."
            )
        if isinstance(message, Failure):
            return _blame_site(message)
        if not isinstance(message, Description | ProfileReply) and envelope.features:
            if _takes_schema(message):
                self._feature_digests[name] = envelope.features
            elif self._feature_digests.setdefault(name, envelope.features) != envelope.features:
                return Failure(
                    "invalid_reply", "its features changed during the run; start it again."
                )
        if isinstance(message, BundleReply):
            return BundleReply(tuple(_blame_site(reply) for reply in message.replies))
        return message

    def _check_features(self, name: str, answer: Answer) -> Answer:
        """The answer, or a failure if the digest of the site's features is not the most frequent.

        If two digests tie, the failure blames the request (code "input") and not the site.
        """
        own = self._feature_digests.get(name)
        if own is None or isinstance(
            answer, Failure | Description | ProfileReply | AdoptSchemaReply
        ):
            return answer
        (most_frequent, count), *others = Counter(self._feature_digests.values()).most_common()
        if own == most_frequent:
            return answer
        if others[0][1] < count:
            return Failure(
                "invalid_reply", "its features, or their schema, are not the most frequent ones."
            )
        first = next(
            site for site, features in self._feature_digests.items() if features == most_frequent
        )
        return Failure(
            "input",
            f"its features, or their schema, differ from those of '{first}'; make them agree.",
        )


def _takes_schema(answer: Answer) -> bool:
    """Whether a site says that it has taken a schema, alone or first in a bundle."""
    first = answer.replies[:1] if isinstance(answer, BundleReply) else (answer,)
    return any(isinstance(reply, AdoptSchemaReply) for reply in first)


def _open_envelope(packed: bytes) -> Envelope | Failure:
    try:
        return unpack(packed)
    except VersionError as error:
        return Failure("version", str(error))
    except FederationError as error:
        return Failure("invalid_reply", str(error))
    except InputError as error:  # a measure of NaN
        return Failure("invalid_reply", f"its reply cannot be used: {error}")


def _blame_site(answer: R) -> R | Failure:
    """The answer; a failure that blames the request (code "input") becomes one of the site alone.

    Otherwise one site could end the run of all.
    """
    if isinstance(answer, Failure) and answer.code == "input":
        return Failure("federation", answer.sentence)
    return answer


def describe_message() -> bytes:
    """A packed message that asks a client who it is."""
    return pack(Envelope(DescribeRequest()))


def pack_failure(failure: Failure) -> bytes:
    """A packed failure, for a node that could not even open its data and policy."""
    return pack(Envelope(failure))


def unpack_description(answer: bytes) -> Description:
    """The description in the answer to `describe_message`; FederationError if it has no name."""
    message = unpack(answer).content
    if isinstance(message, Failure):
        raise FederationError(to_printable(message.sentence))
    if not isinstance(message, Description) or type(message.name) is not str or not message.name:
        raise FederationError("A site did not send its name; give its policy one.")
    if not message.name.isprintable():
        raise FederationError("A site sent a name with control characters; change its policy.")
    return message
