"""Replies that sites allow to be kept, as plain JSON, and a federation that answers from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedwad.errors import InputError
from fedwad.federation.federation import (
    Answer,
    Federation,
    MeteredFederation,
    NamedSites,
    Question,
    Traffic,
    known_of,
)
from fedwad.messages.codec import convert, digest, to_builtins
from fedwad.messages.message import Failure
from fedwad.messages.samples import SummaryReply, SummaryRequest
from fedwad.statistics import Summary
from fedwad.tables import Schema


@dataclass(frozen=True, eq=False)
class KeptReply:
    """A request and the reply of one site to it, which its policy allows to be kept."""

    request: SummaryRequest
    reply: SummaryReply

    def to_dict(self) -> dict[str, Any]:
        """Return named numbers and lists."""
        return {"request": to_builtins(self.request), "reply": to_builtins(self.reply)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> KeptReply:
        """Read what `to_dict` wrote, and check it like a reply that arrives.

        ValueError, KeyError or TypeError if `to_dict` did not write it; InputError if the values
        are not valid or the reply does not fit the request.
        """
        request = convert(content["request"], SummaryRequest)
        reply = convert(content["reply"], SummaryReply)
        request.check_values()
        reply.check_values()
        request.check(reply)
        return cls(request, reply)


def check_keep(name: str, *replies: SummaryReply) -> None:
    """Raise InputError unless the site allows these replies to be kept."""
    if not all(reply.keep for reply in replies):
        raise InputError(
            f"{name} does not allow what it sends to be kept in a file; its policy needs"
            " keep = true.",
            "withheld",
        )


def ask_to_keep(
    federation: Federation, name: str, requests: Sequence[Mapping[str, Any]]
) -> list[KeptReply]:
    """Send a site the requests that other sites answered before, and keep its replies.

    `requests` are as in `KeptReply.to_dict`. InputError for requests of other kinds, or if the site
    does not allow its replies to be kept.
    """
    metered = MeteredFederation(federation)
    replies = []
    for content in requests:
        try:
            request = convert(content, SummaryRequest)
            request.check_values()
        except (ValueError, LookupError, TypeError, ArithmeticError):
            raise InputError(
                "Only requests of a saved matrix can be asked again.", "not-kept"
            ) from None
        reply = metered.ask({name: request}, SummaryReply)[name]
        check_keep(name, reply)
        replies.append(KeptReply(request, reply))
    return replies


class KeptFederation(NamedSites):
    """Sites whose kept replies answer for them, beside the sites of `live`, which are asked.

    A kept site answers only the requests that it has answered before. Nothing is sent to it.
    """

    def __init__(
        self,
        kept: Mapping[str, Sequence[KeptReply]],
        live: Federation | None = None,
        features: tuple[str, ...] | None = None,
        schema: Schema | None = None,
    ) -> None:
        #: Replies by site and digest of the request.
        self._kept = {
            name: {digest(one.request): one.reply for one in replies}
            for name, replies in kept.items()
        }
        self._live = live
        if live is not None:
            known = known_of(live)
            self.takers, self._live_schema_bytes = known["takers"], known["schema_bytes"]
        for replies in kept.values():  # the others need the units of the kept block means too
            for one in replies:
                self.units = one.request.centre, one.request.scale
        #: What the sites of `live` sent and received.
        self.traffic = Traffic()
        self.features = features
        self.schema = schema

    @property
    def names(self) -> tuple[str, ...]:
        return (*self._kept, *(() if self._live is None else self._live.names))

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Answer for kept sites, and ask the others."""
        others = {name: one for name, one in requests.items() if name not in self._kept}
        unknown = Failure("policy", "what was kept of it answers another request.", "not-kept")
        answers: dict[str, Answer] = {
            name: self._kept[name].get(digest(request), unknown)
            for name, request in requests.items()
            if name in self._kept
        }
        if others and self._live is not None:
            live = self._live.ask(others)
            replies = {name: one for name, one in live.items() if not isinstance(one, Failure)}
            self.traffic = self.traffic.plus_round(others, replies, self._live_schema_bytes)
            answers |= live
        return answers


class KeptReplies(dict[str, KeptReply]):
    """Collects the replies that sites allow to be kept; `add` suits `on_reply` of
    `MeteredFederation`."""

    def add(self, name: str, request: Question, reply: Answer) -> None:
        """Store a summary if the site allows it to be kept; only the last one stays."""
        if not isinstance(request, SummaryRequest) or not isinstance(reply, SummaryReply):
            return
        if reply.keep and isinstance(reply.summary, Summary):
            self[name] = KeptReply(request, reply)

    def of(self, names: Sequence[str]) -> dict[str, list[KeptReply]]:
        """The replies of these sites; empty if one of them has no summary that may be kept."""
        return {name: [self[name]] for name in names} if self.keys() >= set(names) else {}
