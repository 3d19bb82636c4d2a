"""The seam between algorithms and engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fedwad.errors import FederationError
from fedwad.federation.messages import Reply, Request, payload

__all__ = ["Federation", "Line", "Site", "Traffic"]

R = TypeVar("R", bound=Reply)


class Federation(Protocol):
    """Clients that can be asked. Algorithms know no more of an engine than this."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all clients."""
        ...

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Send each named client its request, all in one round, and return the replies."""
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


class Line:
    """A federation with a meter: passes requests on, counts what travels, and checks what came back."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.traffic = Traffic()

    def ask(self, requests: Mapping[str, Request], expected: type[R]) -> dict[str, R]:
        """Ask one round; every client asked has replied with an `expected` message, or FederationError."""
        replies: dict[str, R] = {}
        for name, reply in self._federation.ask(requests).items():
            if not isinstance(reply, expected):
                raise FederationError(
                    f"Client '{name}' sent a {type(reply).__name__} where a {expected.__name__} was expected;"
                    " its version may differ from this one."
                )
            replies[name] = reply
        silent = [name for name in requests if name not in replies]
        if silent:
            raise FederationError(f"No reply came from {', '.join(silent)}; see whether the client is running.")
        self.traffic = Traffic(
            up=self.traffic.up + sum(map(payload, replies.values())),
            down=self.traffic.down + sum(map(payload, requests.values())),
            messages=self.traffic.messages + len(replies),
        )
        return replies
