"""What a server can ask. A request is a frozen dataclass of arrays, numbers and short words; there are no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from fedwad._checks import check_choice, check_whole
from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.ot import Form, Interpolant, Measure, check_order

__all__ = [
    "KINDS",
    "Bundle",
    "CellsRequest",
    "Classes",
    "DescribeRequest",
    "MomentsRequest",
    "Request",
    "SummaryRequest",
    "TransportRequest",
    "cleaned",
    "kind_of",
]

_LONGEST_RUN = 64

#: Whether samples are looked at without their labels, or with the statistics of their class appended:
#: mean and standard deviations ("diagonal"), or mean and root covariance ("full").
Classes = Literal["ignored", "diagonal", "full"]


@dataclass(frozen=True)
class DescribeRequest:
    """Who are you, and what do you answer?"""

    kind: ClassVar[str] = "describe"


@dataclass(frozen=True)
class MomentsRequest:
    """How many samples, around which mean, how widely spread?"""

    kind: ClassVar[str] = "moments"
    classes: Classes = "ignored"


@dataclass(frozen=True)
class SummaryRequest:
    """A summary of the data from k-means cells, class by class if wanted: the one message of method="summary"."""

    kind: ClassVar[str] = "summary"
    cells: int
    form: Form
    p: float
    seed: int
    classes: Classes = "ignored"


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
    classes: Classes = "ignored"


@dataclass(frozen=True, eq=False)
class CellsRequest:
    """Transport the data to this support, reply with the cells it makes: FedWaD's last message, and each of a hub."""

    kind: ClassVar[str] = "cells"
    run: str
    support: Measure
    p: float
    form: Form
    classes: Classes = "ignored"


Request = DescribeRequest | MomentsRequest | SummaryRequest | TransportRequest | CellsRequest


@dataclass(frozen=True, eq=False)
class Bundle:
    """Several requests in one message; each is answered, or refused, and recorded by itself."""

    requests: tuple[Request, ...]


#: The kind of each request, by its exact type: a subclass or a changed attribute passes for nothing else.
KINDS: dict[type, str] = {kind: kind.kind for kind in get_args(Request)}


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
    if isinstance(request, DescribeRequest):
        return DescribeRequest()
    classes = _word(request.classes, "classes", get_args(Classes))
    if isinstance(request, MomentsRequest):
        return MomentsRequest(classes)
    p = check_order(request.p)
    if isinstance(request, SummaryRequest):
        cells, seed = check_whole(request.cells, "support"), check_whole(request.seed, "seed", 0)
        return SummaryRequest(cells, _word(request.form, "form", get_args(Form)), p, seed, classes)
    if type(request.support) is not Measure:
        raise InputError(f"The support is a {type(request.support).__name__}; give a Measure.")
    support = Measure(np.array(request.support.points), np.array(request.support.weights), name="the support")
    if type(request.run) is not str or len(request.run) > _LONGEST_RUN:
        raise InputError(f"run must be a word of at most {_LONGEST_RUN} letters.")
    if isinstance(request, CellsRequest):
        return CellsRequest(request.run, support, p, _word(request.form, "form", get_args(Form)), classes)
    if type(request.t) is not float or not 0 < request.t < 1:
        raise InputError("t must be a number strictly between 0 and 1.")
    if type(request.reveal) is not bool:
        raise InputError("reveal must be true or false.")
    kind = _word(request.interpolant, "interpolant", get_args(Interpolant))
    return TransportRequest(request.run, support, request.t, p, kind, request.reveal, classes)


def _word(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    check_choice(value, name, choices)
    return next(choice for choice in choices if choice == str(value))
