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
from fedwad.federation.replies import payload_bytes
from fedwad.federation.requests.blocks import BlocksReply, BlocksRequest
from fedwad.federation.requests.summary import SummaryReply, SummaryRequest
from fedwad.ot import Calibration, Summary
from fedwad.tables import Schema

__all__ = ["Kept", "KeptFederation", "KeptReplies", "ask_kept", "check_kept"]

_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (SummaryRequest, SummaryReply, BlocksRequest, BlocksReply, Summary, Calibration)
}
_TUPLES = ("counts",)


@dataclass(frozen=True, eq=False)
class Kept:
    """A request and the reply of one site to it, which its policy allows to be kept."""

    request: Request
    reply: SummaryReply | BlocksReply

    def to_dict(self) -> dict[str, Any]:
        """Return named numbers and lists."""
        return {"request": _plain(self.request), "reply": _plain(self.reply)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Kept:
        """Read what `to_dict` wrote, and check it like a reply that arrives.

        ValueError, KeyError or TypeError for anything else; InputError for numbers that are no
        reply.
        """
        request, reply = _built(content["request"]), _built(content["reply"])
        if not isinstance(request, Request) or not isinstance(reply, SummaryReply | BlocksReply):
            raise TypeError("not a request and its reply")
        request = request.validate()
        reply.check_values()
        request.check(reply)
        return cls(request, reply)


def check_kept(name: str, *replies: SummaryReply | BlocksReply) -> None:
    """Raise InputError unless the site allows these replies to be kept."""
    if not all(reply.keep for reply in replies):
        raise InputError(
            f"{name} does not allow what it sends to be kept in a file; its policy needs"
            " keep = true."
        )


def ask_kept(
    federation: Federation, name: str, requests: Sequence[Mapping[str, Any]]
) -> list[Kept]:
    """Ask a site what other sites were asked before; `requests` are as in `Kept.to_dict`.

    InputError for other requests, or if the site does not allow its replies to be kept.
    """
    metered = MeteredFederation(federation)
    found = []
    for content in requests:
        request = _asked(content)
        reply: SummaryReply | BlocksReply
        if isinstance(request, SummaryRequest):
            reply = metered.ask({name: request}, SummaryReply)[name]
        else:
            reply = metered.ask({name: request}, BlocksReply)[name]
        check_kept(name, reply)
        found.append(Kept(request, reply))
    return found


def _asked(content: Mapping[str, Any]) -> SummaryRequest | BlocksRequest:
    try:
        request = _built(content)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        request = None
    if not isinstance(request, SummaryRequest | BlocksRequest):
        raise InputError("Only requests of a saved matrix can be asked again.")
    return request.validate()


class KeptFederation(NamedSites):
    """Sites that were asked before, whose kept replies answer again, beside sites to be asked.

    A kept site answers only the requests that it has answered before. Nothing is sent to it.
    """

    def __init__(
        self,
        kept: Mapping[str, Sequence[Kept]],
        live: Federation | None = None,
        features: tuple[str, ...] | None = None,
        schema: Schema | None = None,
    ) -> None:
        self._kept = {
            name: {digest(one.request): one.reply for one in replies}
            for name, replies in kept.items()
        }
        self._live = live
        #: What the sites that were asked sent and received.
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
            name: self._again(name, request)
            for name, request in requests.items()
            if name in self._kept
        }
        if others and self._live is not None:
            came = self._live.ask(others)
            self._count(others, came)
            answers |= came
        return answers

    def _count(self, requests: Mapping[str, Question], answers: Mapping[str, Answer]) -> None:
        sent = {name: one for name, one in answers.items() if not isinstance(one, Failure)}
        self.traffic = Traffic(
            up=self.traffic.up + sum(map(payload_bytes, sent.values())),
            down=self.traffic.down + sum(payload_bytes(requests[name]) for name in sent),
            messages=self.traffic.messages + len(sent),
        )

    def _again(self, name: str, request: Question) -> Answer:
        found = None if isinstance(request, Bundle) else self._kept[name].get(digest(request))
        if found is None:
            return Failure("policy", "what was kept of it answers another request.")
        return found


def _plain(value: Any) -> Any:
    """The value in JSON's types; arrays are lists in a small object."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if is_dataclass(value):
        named = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **named}
    if isinstance(value, tuple):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not finite")
    return value


def _built(value: Any) -> Any:
    if not isinstance(value, dict):
        return _finite(value)
    if set(value) == {"array"}:
        return np.array(value["array"], dtype=np.float64)
    kind = _TYPES[value["type"]]
    parts = {name: _built(part) for name, part in value.items() if name != "type"}
    if set(parts) != {field.name for field in fields(kind)}:
        raise ValueError("different fields than it has")
    return kind(**{k: tuple(v) if k in _TUPLES else v for k, v in parts.items()})


class KeptReplies:
    """Replies of sites that allow them to be kept, by site."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Kept]] = {}

    def add(self, name: str, request: Question, reply: Answer) -> None:
        """Remember a reply if it may be kept."""
        if isinstance(request, Request) and _keepable(reply):
            self._kept.setdefault(name, {})[type(request).kind] = Kept(request, reply)

    def of(self, names: Sequence[str]) -> dict[str, list[Kept]]:
        """What may be kept of these sites; nothing if one of them does not allow it."""
        if not all("summary" in self._kept.get(name, {}) for name in names):
            return {}
        return {name: list(self._kept[name].values()) for name in names}


def _keepable(reply: Answer) -> TypeGuard[SummaryReply | BlocksReply]:
    """Whether the site allows this reply, of a kind that is used again, to be kept."""
    plain = isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary)
    return (plain or isinstance(reply, BlocksReply)) and getattr(reply, "keep", False) is True
