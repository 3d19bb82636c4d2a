"""Everything that may travel: what a server can ask, and what a client can reply.

A message is a frozen dataclass of arrays, numbers and short words. There are no others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, get_args

import numpy as np

from fedwad._checks import check_choice, check_whole
from fedwad.errors import FederationError, InputError
from fedwad.ot import Covariance, Floats, Interpolant, Measure, Summary, check_order

__all__ = [
    "KINDS",
    "CellsRequest",
    "Moments",
    "MomentsRequest",
    "Reply",
    "Request",
    "SummaryReply",
    "SummaryRequest",
    "TransportReply",
    "TransportRequest",
    "check",
    "kind_of",
    "payload",
]


@dataclass(frozen=True)
class MomentsRequest:
    """How many samples, around which mean, how widely spread?"""

    kind: ClassVar[str] = "moments"


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of samples, mean, and standard deviation of each feature."""

    count: int
    mean: Floats
    scale: Floats


@dataclass(frozen=True)
class SummaryRequest:
    """A summary of the data from k-means cells: the one message of method="summary"."""

    kind: ClassVar[str] = "summary"
    cells: int
    covariance: Covariance
    p: float
    seed: int


@dataclass(frozen=True, eq=False)
class TransportRequest:
    """One round of FedWaD: transport the data to this support, reply with an interpolating measure.

    `run` names the sequence of rounds that the request belongs to: a client starts from where it was in that
    run, which saves time and changes no number.
    """

    kind: ClassVar[str] = "transport"
    run: str
    support: Measure
    t: float
    p: float
    interpolant: Interpolant
    reveal: bool


@dataclass(frozen=True, eq=False)
class TransportReply:
    """Interpolating measure between the data (t = 0) and the support (t = 1); the distance if revealed."""

    interpolant: Measure
    distance: float | None


@dataclass(frozen=True, eq=False)
class CellsRequest:
    """FedWaD's last message: transport the data to this support, reply with the cells it makes."""

    kind: ClassVar[str] = "cells"
    run: str
    support: Measure
    p: float
    covariance: Covariance


@dataclass(frozen=True, eq=False)
class SummaryReply:
    """A summary, and the distance to the support that made its cells (None for k-means cells)."""

    summary: Summary
    distance: float | None


Request = MomentsRequest | SummaryRequest | TransportRequest | CellsRequest
Reply = Moments | SummaryReply | TransportReply


#: The kind of each request, by its exact type: a subclass or a changed attribute passes for nothing else.
KINDS: dict[type, str] = {kind: kind.kind for kind in (MomentsRequest, SummaryRequest, TransportRequest, CellsRequest)}


def kind_of(request: object) -> str:
    """The kind of a request; FederationError for anything that is none."""
    kind = KINDS.get(type(request))
    if kind is None:
        raise FederationError(f"A message of type {type(request).__name__} is not a request.")
    return kind


def check(request: Request) -> None:
    """Raise InputError unless every field of a request makes sense by itself, whatever the data."""
    if isinstance(request, MomentsRequest):
        return
    check_order(request.p)
    if isinstance(request, SummaryRequest):
        check_whole(request.cells, "support")
        check_whole(request.seed, "seed", 0)
    elif not isinstance(request.support, Measure):
        raise InputError(f"The support is a {type(request.support).__name__}; give a Measure.")
    if isinstance(request, TransportRequest):
        check_choice(request.interpolant, "interpolant", get_args(Interpolant))
        if not (isinstance(request.t, float) and 0 < request.t < 1):
            raise InputError(f"t is {request.t!r}; give a number strictly between 0 and 1.")
    else:
        check_choice(request.covariance, "covariance", get_args(Covariance))


def payload(message: Any) -> int:
    """Number of bytes that a message carries: eight for each number, one for each letter of a word."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if is_dataclass(message):
        return sum(payload(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, str):
        return len(message)
    return 0 if message is None else 8
