"""Replies that sites allow to be kept, as plain JSON, and a federation that answers from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeGuard

import numpy as np

from fedwad.errors import InputError
from fedwad.federation.bundle import Bundle
from fedwad.federation.codec import digest
from fedwad.federation.failures import Failure
from fedwad.federation.federation import (
    Answer,
    Federation,
    MeteredFederation,
    NamedSites,
    Question,
    Traffic,
)
from fedwad.federation.message import Request
from fedwad.federation.requests.blocks import BlocksReply, BlocksRequest
from fedwad.federation.requests.summary import SummaryReply, SummaryRequest
from fedwad.ot import Calibration, Summary
from fedwad.tables import Schema

__all__ = ["KeptFederation", "KeptReplies", "KeptReply", "ask_to_keep", "check_keep"]

_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (SummaryRequest, SummaryReply, BlocksRequest, BlocksReply, Summary, Calibration)
}
_TUPLE_FIELDS = ("counts",)  # all other sequences are arrays


@dataclass(frozen=True, eq=False)
class KeptReply:
    """A request and the reply of one site to it, which its policy allows to be kept."""

    request: Request
    reply: SummaryReply | BlocksReply

    def to_dict(self) -> dict[str, Any]:
        """Return named numbers and lists."""
        return {"request": _to_plain(self.request), "reply": _to_plain(self.reply)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> KeptReply:
        """Read what `to_dict` wrote, and check it like a reply that arrives.

        ValueError, KeyError or TypeError if `to_dict` did not write it; InputError if the values
        are not valid or the reply does not fit the request.
        """
        request, reply = _from_plain(content["request"]), _from_plain(content["reply"])
        if not isinstance(request, Request) or not isinstance(reply, SummaryReply | BlocksReply):
            raise TypeError("not a request and its reply")
        request = request.validate()
        reply.check_values()
        request.check(reply)
        return cls(request, reply)


def check_keep(name: str, *replies: SummaryReply | BlocksReply) -> None:
    """Raise InputError unless the site allows these replies to be kept."""
    if not all(reply.keep for reply in replies):
        raise InputError(
            f"{name} does not allow what it sends to be kept in a file; its policy needs"
            " keep = true."
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
        request = _read_request(content)
        reply: SummaryReply | BlocksReply
        if isinstance(request, SummaryRequest):
            reply = metered.ask({name: request}, SummaryReply)[name]
        else:
            reply = metered.ask({name: request}, BlocksReply)[name]
        check_keep(name, reply)
        replies.append(KeptReply(request, reply))
    return replies


def _read_request(content: Mapping[str, Any]) -> SummaryRequest | BlocksRequest:
    try:
        request = _from_plain(content)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        request = None
    if not isinstance(request, SummaryRequest | BlocksRequest):
        raise InputError("Only requests of a saved matrix can be asked again.")
    return request.validate()


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
        answers: dict[str, Answer] = {
            name: self._kept_answer(name, request)
            for name, request in requests.items()
            if name in self._kept
        }
        if others and self._live is not None:
            live = self._live.ask(others)
            replies = {name: one for name, one in live.items() if not isinstance(one, Failure)}
            self.traffic = self.traffic.plus_round(others, replies)
            answers |= live
        return answers

    def _kept_answer(self, name: str, request: Question) -> Answer:
        reply = None if isinstance(request, Bundle) else self._kept[name].get(digest(request))
        return reply or Failure("policy", "what was kept of it answers another request.")


def _to_plain(value: Any) -> Any:
    """The value in JSON's types; an array is an object {"array": list}."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if is_dataclass(value):
        named = {field.name: _to_plain(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **named}
    if isinstance(value, tuple):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def _from_plain(value: Any) -> Any:
    """The value that `_to_plain` made this of; ValueError for a number that is not finite."""
    if not isinstance(value, dict):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("not finite")
        return value
    if set(value) == {"array"}:
        return np.array(value["array"], dtype=np.float64)
    kind = _TYPES[value["type"]]
    parts = {name: _from_plain(part) for name, part in value.items() if name != "type"}
    if set(parts) != {field.name for field in fields(kind)}:
        raise ValueError("different fields than it has")
    return kind(**{k: tuple(v) if k in _TUPLE_FIELDS else v for k, v in parts.items()})


class KeptReplies:
    """Collects the replies that sites allow to be kept; `add` suits `on_reply` of
    `MeteredFederation`."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, KeptReply]] = {}

    def add(self, name: str, request: Question, reply: Answer) -> None:
        """Store a reply if the site allows it to be kept; only the last one of each kind stays."""
        if isinstance(request, Request) and _keepable(reply):
            self._kept.setdefault(name, {})[type(request).kind] = KeptReply(request, reply)

    def of(self, names: Sequence[str]) -> dict[str, list[KeptReply]]:
        """The replies of these sites; empty if one of them has no summary that may be kept."""
        if not all("summary" in self._kept.get(name, {}) for name in names):
            return {}
        return {name: list(self._kept[name].values()) for name in names}


def _keepable(reply: Answer) -> TypeGuard[SummaryReply | BlocksReply]:
    """Whether the site allows this summary without classes, or these block means, to be kept."""
    if isinstance(reply, SummaryReply):
        return isinstance(reply.summary, Summary) and reply.keep
    return isinstance(reply, BlocksReply) and reply.keep
