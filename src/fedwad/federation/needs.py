"""What a request needs from a policy: the request declares it, and the policy checks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["KINDS", "NON_QUERY_KINDS", "ClassStatistics", "Needs"]

#: The kinds of requests, by the words that policies and ledgers use.
KINDS: tuple[str, ...] = (
    "describe",
    "schema",
    "encode",
    "moments",
    "summary",
    "blocks",
    "transport",
    "cells",
    "atoms",
    "labels",
    "prototypes",
    "private",
    "train",
    "evaluate",
)

#: Kinds of which no request is a query: their replies are not computed from the samples.
NON_QUERY_KINDS: tuple[str, ...] = ("describe", "encode")

#: Samples without their labels ("ignored"), or with the statistics of their class appended: mean
#: and standard deviations ("diag"), or mean and root covariance ("full").
ClassStatistics = Literal["ignored", "diag", "full"]


@dataclass(frozen=True)
class Needs:
    """What a policy must allow before a request is executed, beyond its kind.

    Attributes
    ----------
    order : order p of a distance; None if there is none
    size : number of cells, atoms or support points; None if there are none
    support : "none" if no support arrives, otherwise whether its points have equal weights
    exact_interpolant : whether the reply is the exact interpolating measure
    class_statistics : statistics of classes that enter the reply
    class_covariance : whether the reply holds the covariance of each class
    label_names : whether the names of labels enter the reply
    model : the network that the client would build; empty if there is none
    mu : privacy loss of a private release
    """

    order: float | None = None
    size: int | None = None
    support: Literal["none", "uniform", "weighted"] = "none"
    exact_interpolant: bool = False
    class_statistics: ClassStatistics = "ignored"
    class_covariance: bool = False
    label_names: bool = False
    model: str = ""
    mu: float = 0.0
