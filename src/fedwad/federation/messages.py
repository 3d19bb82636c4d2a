"""Everything that may travel: what a server can ask, and what a client can reply.

A message is a frozen dataclass of arrays, numbers and short words. There are no others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from fedwad.ot import Covariance, Floats, Interpolant, Measure, Summary

__all__ = [
    "CellsRequest",
    "Moments",
    "MomentsRequest",
    "Reply",
    "Request",
    "SummaryReply",
    "SummaryRequest",
    "TransportReply",
    "TransportRequest",
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


def payload(message: Any) -> int:
    """Number of bytes that a message carries: eight for each number, one for each letter of a word."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if is_dataclass(message):
        return sum(payload(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, str):
        return len(message)
    return 0 if message is None else 8
