"""A federation whose clients are reached by messages: what all engines have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from fedwad._checks import format_value
from fedwad.errors import FederationError, InputError
from fedwad.federation.federation import Answer, NamedSites, Question
from fedwad.messages.codec import Envelope, pack, unpack
from fedwad.messages.columns import ColumnsReply, DescribeRequest, Description
from fedwad.messages.message import BundleReply, Failure, Reply, error_of

Packed = bytes | bytearray | memoryview
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
            raise FederationError("No site is connected; start the nodes first.", "no-sites")
        self._names = tuple(names)
        self._timeout = timeout
        #: Digests of each site's own schema, or of the names of its features if it has none.
        self._feature_digests: dict[str, str] = {}
        #: Descriptions that sites sent before the run. Each answers one DescribeRequest.
        self.descriptions: dict[str, Description] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @abstractmethod
    def exchange(
        self, messages: Mapping[str, bytes], timeout: float
    ) -> Mapping[str, Packed | Failure]:
        """Carry a message to each named site, all at once; return what each answers within
        `timeout` seconds.

        A site that is silent is left out; a `Failure` says more of one."""

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        described = {
            name: self.descriptions.pop(name)
            for name, request in requests.items()
            if self[name].name in self.descriptions and type(request) is DescribeRequest
        }
        requests = {name: request for name, request in requests.items() if name not in described}
        request_id = os.urandom(8).hex()
        distinct = {id(request): request for request in requests.values()}  # each is packed once
        packed = {key: pack(Envelope(request, request_id)) for key, request in distinct.items()}
        messages = {name: packed[id(request)] for name, request in requests.items()}
        came = self.exchange(messages, self._timeout) if messages else {}
        if not isinstance(came, Mapping):
            raise FederationError(
                f"exchange returned {format_value(came)}; return what each site answered, by name.",
                "bad-message",
            )
        answers = {
            name: self._unpack(name, came[name], request_id)
            for name in requests
            if came.get(name) is not None
        }
        checked = {name: self._check_features(name, answer) for name, answer in answers.items()}
        return {**described, **checked}

    def _unpack(self, name: str, packed: Packed | Failure, request_id: str) -> Answer:
        """The answer of this site, or a failure if it cannot be used; notes the digest of its
        features."""
        if isinstance(packed, Failure):
            return packed
        try:
            envelope = unpack(bytes(packed) if isinstance(packed, Packed) else packed)
        except FederationError as error:
            own = error.code if error.code == "wrong-version" else ""
            return Failure("invalid_reply", str(error), own)
        except InputError as error:  # a measure of NaN
            return Failure("invalid_reply", f"its reply cannot be used: {error}")
        message = envelope.content
        if isinstance(message, Failure):
            return _blame_site(message)
        if not isinstance(message, Reply | BundleReply):
            kind = type(message).__name__
            return Failure("invalid_reply", f"a {kind} came, which is not a reply.")
        if envelope.request_id != request_id:
            return Failure("invalid_reply", "an answer to a different request came, maybe late.")
        digest = "" if isinstance(message, Description | ColumnsReply) else envelope.features
        if digest and self._feature_digests.setdefault(name, digest) != digest:
            return Failure("invalid_reply", "its features changed during the run; start it again.")
        if isinstance(message, BundleReply):
            return BundleReply(tuple(_blame_site(reply) for reply in message.replies))
        return message

    def _check_features(self, name: str, answer: Answer) -> Answer:
        """The answer, or a failure if the digest of the site's features is not the most frequent.

        If two digests tie, the failure blames the request (code "input") and not the site.
        """
        digests = self._feature_digests
        own = digests.get(name)
        if own is None or isinstance(answer, Failure | Description | ColumnsReply):
            return answer
        (most_frequent, count), *others = Counter(digests.values()).most_common()
        if own == most_frequent:
            return answer
        if others[0][1] < count:
            return Failure(
                "invalid_reply", "its features, or their schema, are not the most frequent ones."
            )
        first = next(one for one, digest in digests.items() if digest == most_frequent)
        return Failure(
            "input",
            f"its features, or their schema, differ from those of '{first}'; make them agree.",
            "different-columns",
        )


def _blame_site(answer: R) -> R | Failure:
    """The answer; a failure that blames the request (code "input") becomes one of the site alone.

    Otherwise one site could end the run of all.
    """
    if isinstance(answer, Failure) and answer.code == "input":
        return Failure("federation", answer.sentence, answer.error)
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
        error = error_of(message)
        raise FederationError(str(error), error.code)
    if not isinstance(message, Description) or not message.name:
        raise FederationError("A site did not send its name; give its policy one.", "bad-name")
    if not message.name.isprintable():
        raise FederationError(
            "A site sent a name with control characters; change its policy.", "bad-name"
        )
    return message
