"""Everything that may travel: what a server can ask, and what a client can reply.

A message is a frozen dataclass of arrays, numbers and short words. There are no others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, get_args

import numpy as np

from fedwad._checks import check_choice, check_whole
from fedwad.errors import FederationError, FedwadError, InputError
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
    "cleaned",
    "kind_of",
    "payload",
]


_LONGEST_RUN = 64


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


def cleaned(request: Request) -> Request:
    """A copy of the request made of plain values; InputError unless each makes sense by itself, whatever the data.

    Plain means of exactly the expected type: nothing that arrives gets to run code of its own.
    """
    try:
        return _rebuilt(request)
    except FedwadError:
        raise
    except Exception:  # attributes that are missing, or no arrays at all
        raise InputError(f"A request of kind '{kind_of(request)}' has fields that cannot be read.") from None


def _rebuilt(request: Request) -> Request:
    if isinstance(request, MomentsRequest):
        return MomentsRequest()
    p = check_order(request.p)
    if isinstance(request, SummaryRequest):
        cells, seed = check_whole(request.cells, "support"), check_whole(request.seed, "seed", 0)
        return SummaryRequest(cells, _word(request.covariance, "covariance", get_args(Covariance)), p, seed)
    if type(request.support) is not Measure:
        raise InputError(f"The support is a {type(request.support).__name__}; give a Measure.")
    support = Measure(np.array(request.support.points), np.array(request.support.weights), name="the support")
    if type(request.run) is not str or len(request.run) > _LONGEST_RUN:
        raise InputError(f"run must be a word of at most {_LONGEST_RUN} letters.")
    if isinstance(request, CellsRequest):
        return CellsRequest(request.run, support, p, _word(request.covariance, "covariance", get_args(Covariance)))
    if type(request.t) is not float or not 0 < request.t < 1:
        raise InputError("t must be a number strictly between 0 and 1.")
    if type(request.reveal) is not bool:
        raise InputError("reveal must be true or false.")
    kind = _word(request.interpolant, "interpolant", get_args(Interpolant))
    return TransportRequest(request.run, support, request.t, p, kind, request.reveal)


def _word(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    check_choice(value, name, choices)
    return next(choice for choice in choices if choice == str(value))


def payload(message: Any) -> int:
    """Number of bytes that a message carries: eight for each number, one for each letter of a word."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if is_dataclass(message):
        return sum(payload(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, str):
        return len(message)
    return 0 if message is None else 8
