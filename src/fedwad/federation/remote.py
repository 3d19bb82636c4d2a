"""A federation whose clients are reached by letters: what all engines have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from fedwad.errors import FederationError, InputError
from fedwad.federation.codec import Envelope, VersionError, pack, unpack
from fedwad.federation.federation import Answer, Question, Site, site
from fedwad.federation.message import Reply
from fedwad.federation.replies import BundleReply, Failure
from fedwad.federation.requests.describe import DescribeRequest, Description

__all__ = ["RemoteFederation", "describe_message", "encode_failure", "site_name"]


class RemoteFederation(ABC):
    """Clients that answer letters. An engine adds `exchange`, which carries bytes and knows nothing
    of their content.

    Each round has a ticket of its own, which answers repeat: one that comes a round late is not
    taken for the answer to the next question.
    """

    def __init__(self, names: Sequence[str], timeout: float = 600.0) -> None:
        if not names:
            raise FederationError("No client is connected; start the nodes first.")
        self._names = tuple(names)
        self._timeout = timeout
        self._features: tuple[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def __getitem__(self, name: str) -> Site:
        return site(self, name)

    def __len__(self) -> int:
        return len(self._names)

    @abstractmethod
    def exchange(
        self, letters: Mapping[str, bytes], timeout: float
    ) -> Mapping[str, bytes | Failure]:
        """Carry a letter to each named client, all at once; bring back what each answers within
        `timeout` seconds."""

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        for name in requests:
            site(self, name)
        request_id = os.urandom(8).hex()
        letters = {name: pack(Envelope(request, request_id)) for name, request in requests.items()}
        brought = self.exchange(letters, self._timeout)
        return {
            name: self._opened(name, brought[name], request_id)
            for name in requests
            if name in brought
        }

    def _opened(self, name: str, brought: bytes | Failure, request_id: str) -> Answer:
        if isinstance(brought, Failure):
            return brought
        try:
            letter = unpack(brought)
        except VersionError as error:
            return Failure("version", str(error))
        except FederationError as error:
            return Failure("garbage", str(error))
        except InputError as error:  # a measure of NaN
            return Failure("garbage", f"its reply cannot be used: {error}")
        message = letter.content
        if not isinstance(message, Reply | BundleReply | Failure):
            return Failure("garbage", f"a {type(message).__name__} came, which is no reply.")
        if letter.request_id != request_id and not isinstance(message, Failure):
            return Failure("garbage", "an answer to another question came; it may be late.")
        return (
            message
            if isinstance(message, Failure)
            else self._comparable(name, letter.features, message)
        )

    def _comparable(self, name: str, features: str, message: Reply | BundleReply) -> Answer:
        """Features are named or not, and named alike, at all clients."""
        if isinstance(message, Description):
            return message
        if not features:
            return message
        if self._features is None:
            self._features = name, features
        first, expected = self._features
        if features != expected:
            return Failure(
                "input", f"its features have other names than those of '{first}'; make them agree."
            )
        return message


def describe_message() -> bytes:
    """A letter that asks a client who it is."""
    return pack(Envelope(DescribeRequest()))


def encode_failure(failure: Failure) -> bytes:
    """A letter that says why there is no answer, for a node that could not even open its client."""
    return pack(Envelope(failure))


def site_name(answer: bytes) -> str:
    """The name in the answer to `describe_message`; FederationError if there is none."""
    message = unpack(answer).content
    if isinstance(message, Failure):
        raise FederationError(message.sentence)
    if not isinstance(message, Description) or type(message.name) is not str or not message.name:
        raise FederationError("A client did not tell its name; give its policy one.")
    return message.name
