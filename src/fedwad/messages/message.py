"""The base classes of requests and replies, the values in them, bundles and failures.

A message is a frozen dataclass. msgspec holds each field to its declared type when a message is
decoded (`fedwad.messages.codec`), a site's own requests included, so `check_values` looks at values
only.
"""

from __future__ import annotations

import re
from abc import ABC
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedwad._words import to_printable
from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError
from fedwad.statistics import LabelledSummary, Summary
from fedwad.transport import Floats, Measure

#: Largest number of samples that a site can have.
MAX_COUNT = 10**12
#: Largest coordinate or distance in a reply.
MAX_ABS = 1e95
#: Largest number of requests in one bundle.
MAX_BUNDLE = 256

Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Distance = Annotated[float, Meta(ge=0, le=MAX_ABS)]
Text = Annotated[str, Meta(max_length=1000)]
#: The name of a run, under which a site starts from what it computed last.
Run = Annotated[str, Meta(max_length=64)]
#: The text of a schema file.
SchemaText = Annotated[str, Meta(max_length=1 << 22)]
#: The name of a label: a string, an integer or a boolean.
LabelName = str | int | bool

if TYPE_CHECKING:
    Support = Measure
    AnySummary = Summary | LabelledSummary
else:  # the codec makes these by itself: msgspec would not call the checks of a Measure

    class Support(ABC):  # noqa: B024
        """A Measure on its way."""

    class AnySummary(ABC):  # noqa: B024
        """A Summary or a LabelledSummary on its way."""

    Support.register(Measure)
    AnySummary.register(Summary)
    AnySummary.register(LabelledSummary)

#: The kinds of requests, by the words that policies and ledgers use.
KINDS: tuple[str, ...] = (
    "describe",
    "columns",
    "summary",
    "transport",
    "cells",
    "atoms",
    "labels",
    "prototypes",
    "private",
    "train",
    "evaluate",
)

#: Kinds of lines in a ledger that are no query, since nothing was computed from the samples: who
#: a site is, and that a schema was used for the first time.
NON_QUERY_KINDS: tuple[str, ...] = ("describe", "schema")

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
    subset : whether the reply is about some rows, which the site draws
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
    subset: bool = False
    class_statistics: ClassStatistics = "ignored"
    class_covariance: bool = False
    label_names: bool = False
    model: str = ""
    mu: float = 0.0


#: Codes with an error of their own; all others stand for a FederationError.
_CODES: dict[str, type[FedwadError]] = {
    "input": InputError,
    "policy": PolicyError,
    "certificate": CertificateError,
}
#: Codes of the errors that stand for failures without an error of the client.
_ERRORS = {
    "silent": "no-reply",
    "invalid_reply": "bad-reply",
    "invalid_request": "bad-message",
    "internal": "site-failed",
    "busy": "site-busy",
}


@dataclass(frozen=True)
class Failure:
    """Why a client did not answer: a code, and one sentence without data.

    Codes are "input", "policy", "certificate" and "federation" for an error that the client raised,
    "silent" if no answer of the client came in time or its engine reported an error instead,
    "invalid_reply" for an answer that cannot be used, "invalid_request" for a request that is not a
    message of fedwad, "internal" for a fault inside the client, and "busy" for a client that has no
    time left. `error` is the code of the error that the client raised, such as
    "too-many-queries".
    """

    code: Text
    sentence: Text
    error: Text = ""


def failure_of(error: FedwadError) -> Failure:
    """The failure to send for this error."""
    codes = (code for code, kind in _CODES.items() if isinstance(error, kind))
    return Failure(next(codes, "federation"), str(error), error.code)


def error_of(failure: Failure, site: str = "") -> FedwadError:
    """The error that a failure stands for; its message begins with the name of the site, if given.

    The name, the sentence and the code came from another machine, so control characters are
    removed, and a code that is no word with hyphens is not taken.
    """
    where = f"Site '{site}': " if site else ""
    is_code = re.fullmatch(r"[a-z]{1,20}(-[a-z]{1,20}){0,5}", failure.error)
    return _CODES.get(failure.code, FederationError)(
        to_printable(f"{where}{failure.sentence}"),
        failure.error if is_code else _ERRORS.get(failure.code),
    )


R = TypeVar("R", bound="Request")


class Reply:
    """A reply of a client: a frozen dataclass of arrays, numbers and short strings."""

    def check_values(self) -> None:
        """Raise InputError unless each value makes sense by itself. Runs on the server."""


@dataclass(frozen=True, eq=False)
class Request:
    """A request of a server: a frozen dataclass of arrays, numbers and short strings.

    `schema` is the text of the schema file by which a table is encoded for this request; empty for
    data that are encoded already. A site keeps no schema: it answers each request for the schema
    that came with it.

    A client calls `check_values` and `needs`, and then answers (`fedwad.site.answers`). The server
    calls `check` on the reply.
    """

    kind: ClassVar[str]
    reply_type: ClassVar[type[Reply]]
    #: Whether the reply depends on nothing but the request, the data and the policy. Such a request
    #: counts as one query, however often it is sent.
    repeatable: ClassVar[bool] = False
    #: Whether the reply is paid for out of the privacy budget. Such a reply is stored for good, and
    #: the same request gets it again at no cost.
    uses_budget: ClassVar[bool] = False
    #: Whether the request is about encoded data. A site that holds a table refuses it without a
    #: schema.
    needs_encoding: ClassVar[bool] = True
    schema: SchemaText = field(default="", kw_only=True)

    def check_values(self) -> None:
        """Raise InputError unless each value makes sense by itself."""

    def needs(self) -> Needs:
        """What a policy must allow before this request is executed."""
        return Needs()

    def check(self, reply: Any) -> None:
        """Raise InputError unless `reply` fits this request. Runs on the server."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """Several requests in one message. Each is answered or refused, and recorded, by itself.

    `schema` is that of all requests that bring none of their own.
    """

    requests: tuple[Request, ...]
    schema: str = ""


@dataclass(frozen=True, eq=False)
class BundleReply:
    """One reply or failure per request of a Bundle, in the order of the requests."""

    replies: tuple[Reply | Failure, ...]


def without_run(request: R) -> R:
    """The request with an empty name of its run, since that name is drawn anew at each start."""
    if not hasattr(request, "run"):
        return request
    return replace(request, run="")  # type: ignore[call-arg]


def require(condition: bool, sentence: str) -> None:
    """Raise InputError with this sentence unless the condition holds."""
    if not condition:
        raise InputError(sentence, "bad-reply")


def check_weights(weights: Floats, count: int, tolerance: float = 1e-9) -> None:
    """Raise InputError unless these are `count` positive weights that sum to one."""
    positive = weights.shape == (count,) and count > 0 and bool((weights > 0).all())
    proper = positive and abs(float(weights.sum()) - 1) <= tolerance
    require(proper, "weights are not positive with sum one.")


def is_finite(array: NDArray[Any], ndim: int | None = None, max_abs: float = MAX_ABS) -> bool:
    """Whether absolute values are up to `max_abs`, and there are `ndim` axes if that is given.

    Larger numbers would overflow when the server squares them.
    """
    return ndim in (None, array.ndim) and bool((np.abs(array) <= max_abs).all())


def have_shapes(*expected: tuple[NDArray[Any], str], max_abs: float = MAX_ABS) -> bool:
    """Whether absolute values are up to `max_abs`, and axes of the same letter are equally long.

    >>> have_shapes((np.ones(2), "s"), (np.ones((2, 3)), "sd"))
    True
    >>> have_shapes((np.ones((2, 3)), "dd"))
    False
    """
    lengths: dict[str, int] = {}
    return all(
        is_finite(array, len(axes), max_abs)
        and all(lengths.setdefault(axis, n) == n for axis, n in zip(axes, array.shape, strict=True))
        for array, axes in expected
    )
