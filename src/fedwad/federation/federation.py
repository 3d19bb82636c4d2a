"""The seam between algorithms and engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fedwad.errors import FederationError, InputError
from fedwad.federation.bundle import Bundle
from fedwad.federation.message import Reply, Request
from fedwad.federation.replies import BundleReply, Failure, check_reply, error_of, payload

__all__ = ["Answer", "Federation", "MeteredFederation", "Question", "Site", "Traffic", "chosen"]

Question = Request | Bundle
Answer = Reply | BundleReply | Failure
R = TypeVar("R", bound=Reply | BundleReply)


class Federation(Protocol):
    """Clients that can be asked. Algorithms know no more of an engine than this."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all clients."""
        ...

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Send each named client its request, all in one round, and return what came back: replies
        or failures."""
        ...


@dataclass(frozen=True)
class Site:
    """One client of a federation, as seen from outside: a name to ask under, no data."""

    federation: Federation
    name: str

    def __repr__(self) -> str:
        return f"Site({self.name!r})"


@dataclass(frozen=True)
class Traffic:
    """Bytes of payload that clients sent (`up`) and received (`down`), and in how many replies."""

    up: int = 0
    down: int = 0
    messages: int = 0


class MeteredFederation:
    """A federation with a meter: passes requests on, counts what travels, and checks what came
    back."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.traffic = Traffic()
        self.lost: dict[str, str] = {}

    def ask(self, requests: Mapping[str, Question], expected: type[R]) -> dict[str, R]:
        """Ask one round; every client asked has replied with an `expected` message, or the first
        failure is raised."""
        replies, failures = self._round(requests, expected)
        for name, failure in failures.items():
            raise error_of(name, failure)
        return replies

    def gather(
        self, requests: Mapping[str, Question], expected: type[R], least: int = 2
    ) -> dict[str, R]:
        """Ask one round and go on without the clients that fail, as long as `least` are left.

        Who was lost, and why, is kept in `lost`. An InputError is raised all the same: there the
        question is wrong.
        """
        replies, failures = self._round(requests, expected)
        for name, failure in failures.items():
            if failure.code == "input" or len(replies) < least:
                raise error_of(name, failure)
            self.lost[name] = failure.sentence
        return replies

    def _round(
        self, requests: Mapping[str, Question], expected: type[R]
    ) -> tuple[dict[str, R], dict[str, Failure]]:
        replies: dict[str, R] = {}
        failures: dict[str, Failure] = {}
        answers = self._federation.ask(requests)
        for name, request in requests.items():
            answer = answers.get(
                name, Failure("silent", "no reply came; see whether the client is running.")
            )
            wrong = check_reply(request, answer)
            if wrong is not None:
                failures[name] = wrong
            elif isinstance(answer, Failure):
                failures[name] = answer
            elif isinstance(answer, expected):
                replies[name] = answer
            else:
                kinds = f"a {type(answer).__name__} came where a {expected.__name__} was expected"
                failures[name] = Failure(
                    "garbage", f"{kinds}; its version may differ from this one."
                )
        self.traffic = Traffic(
            up=self.traffic.up + sum(map(payload, replies.values())),
            down=self.traffic.down + sum(payload(requests[name]) for name in replies),
            messages=self.traffic.messages + len(replies),
        )
        return replies, failures


def site(federation: Federation, name: str) -> Site:
    """The client of this name; FederationError if there is none."""
    if name not in federation.names:
        raise FederationError(
            f"There is no client '{name}'; the clients are {', '.join(federation.names)}."
        )
    return Site(federation, name)


def chosen(
    federation: Federation, clients: Sequence[str] | None, what: str, least: int = 1
) -> tuple[str, ...]:
    """The clients of these names, all when none are named; InputError unless `what` can be made of
    them."""
    wanted = federation.names if clients is None else clients
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    unknown = [name for name in names if name not in federation.names]
    if unknown:
        raise InputError(
            f"There is no client '{unknown[0]}'; the clients are {', '.join(federation.names)}."
        )
    if len(set(names)) < len(names):
        raise InputError("A client is named twice; name each once.")
    if len(names) < least:
        came = f"{len(names)} client{'' if len(names) == 1 else 's'} came"
        raise InputError(f"{came}; {what} needs at least {('one', 'two')[least - 1]}.")
    return names
