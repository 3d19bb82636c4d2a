"""The base classes of requests and replies, and the checks that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.needs import Needs
from fedwad.ot import Measure

__all__ = ["MAX_ABS", "MAX_COUNT", "Reply", "Request"]

_MAX_RUN_CHARS = 64
_MAX_STRING_CHARS = 1000
_MAX_SCHEMA_CHARS = 1 << 22
_SUM_TOLERANCE = 1e-9  # by which the sum of weights may differ from one
#: Largest number of samples that a site can have.
MAX_COUNT = 10**12
#: Largest coordinate or distance in a reply.
MAX_ABS = 1e95


R = TypeVar("R", bound="Request")


class Reply:
    """A reply of a client: a frozen dataclass of arrays, numbers and short strings."""

    def check_values(self) -> None:
        """Raise InputError unless each value makes sense by itself. Runs on the server."""
        raise NotImplementedError


class Request:
    """A request of a server: a frozen dataclass of arrays, numbers and short strings.

    A client calls `validate`, `needs`, `check_shape` and `execute`, in this order. The server calls
    `check` on the reply. All of them are looked up on the class, never on the object that arrived.
    """

    kind: ClassVar[str]
    reply_type: ClassVar[type[Reply]]
    #: Whether the reply depends on nothing but the request, the data and the policy. Such a request
    #: counts as one query, however often it is sent.
    repeatable: ClassVar[bool] = False
    #: Whether the reply is paid for out of the privacy budget. Such a reply is stored for good, and
    #: the same request gets it again at no cost.
    uses_budget: ClassVar[bool] = False
    #: Whether the request is about encoded data. A site whose table waits for a schema refuses it.
    needs_encoding: ClassVar[bool] = True
    #: Whether several clients of one process may execute such requests together, by
    #: `execute_batch`.
    can_batch: ClassVar[bool] = False

    def validate(self) -> Request:
        """A copy made of plain values; InputError unless each makes sense by itself.

        A plain value has exactly the expected type, no subclass of it, so that no method of an
        object that arrived is called.
        """
        raise NotImplementedError

    def needs(self) -> Needs:
        """What a policy must allow before this request is executed."""
        return Needs()

    def check_shape(self, context: ClientContext) -> None:
        """Raise InputError unless the request fits the shape of the data. No sample is read."""

    def execute(self, context: ClientContext) -> tuple[Reply, int | None]:
        """The reply, and the smallest number of samples that one of its numbers averages.

        The second is None if the reply averages no samples.
        """
        raise NotImplementedError

    def data_digest(self, context: ClientContext) -> str:
        """The digest of the data that the reply depends on."""
        return context.encoded_digest

    @classmethod
    def execute_batch(
        cls, requests: Sequence[Any], contexts: Sequence[ClientContext]
    ) -> Sequence[tuple[Reply, int | None]]:
        """The results of `execute` for several clients of this process, one request each."""
        return [
            cls.execute(request, context)
            for request, context in zip(requests, contexts, strict=True)
        ]

    def check(self, reply: Any) -> None:
        """Raise InputError unless `reply` fits this request. Runs on the server."""


def plain_choice(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    """The element of `choices` that equals `value`."""
    check_choice(value, name, choices)
    return next(choice for choice in choices if choice == str(value))


def plain_bool(value: Any, name: str) -> bool:
    """True or False; InputError for anything else."""
    if type(value) is not bool:
        raise InputError(f"{name} must be true or false.")
    return value


def plain_support(support: Any) -> Measure:
    """A copy of a support; InputError unless it is a Measure."""
    if type(support) is not Measure:
        raise InputError(f"The support is a {type(support).__name__}; give a Measure.")
    return Measure(np.array(support.points), np.array(support.weights), name="the support")


def plain_run(run: Any) -> str:
    """The name of a run; InputError unless it is a short string."""
    if type(run) is not str or len(run) > _MAX_RUN_CHARS:
        raise InputError(f"run must be a string of at most {_MAX_RUN_CHARS} characters.")
    return run


def plain_schema(text: Any, name: str) -> str:
    """The text of a schema file; InputError unless it is a string of at most 4 MiB."""
    if type(text) is not str or len(text) > _MAX_SCHEMA_CHARS:
        raise InputError(f"A {name} arrived that is not the text of a schema file.")
    return text


def without_run(request: R) -> R:
    """The request with an empty name of its run, since that name is drawn anew at each start."""
    if not hasattr(request, "run"):
        return request
    return replace(request, run="")  # type: ignore[type-var]


def require(condition: bool, sentence: str) -> None:
    """Raise InputError with this sentence unless the condition holds."""
    if not condition:
        raise InputError(sentence)


def check_measure(measure: Any) -> None:
    """Raise InputError unless this is a measure of finite points."""
    require(type(measure) is Measure and is_finite(measure.points, 2), "points are not finite.")
    check_weights(measure.weights, len(measure.points))


def check_weights(weights: Any, count: int) -> None:
    """Raise InputError unless these are `count` positive weights that sum to one."""
    proper = (
        is_finite(weights, 1)
        and weights.shape == (count,)
        and count > 0
        and bool((weights > 0).all())
    )
    require(
        proper and abs(float(weights.sum()) - 1) <= _SUM_TOLERANCE,
        "weights are not positive with sum one.",
    )


def check_distance(distance: Any) -> None:
    """Raise InputError unless this is a distance or None."""
    proper = distance is None or (isinstance(distance, float) and 0 <= distance <= MAX_ABS)
    require(proper, "a distance is not a finite number.")


def check_bool(value: Any) -> None:
    """Raise InputError unless this is True or False."""
    require(type(value) is bool, "a value is neither true nor false.")


def check_strings(*strings: Any) -> None:
    """Raise InputError unless these are strings of at most 1000 characters."""
    require(
        all(type(string) is str and len(string) <= _MAX_STRING_CHARS for string in strings),
        "a text is too long, or is not a string.",
    )


def is_count(number: Any) -> bool:
    """Whether this is an integer from 1 to MAX_COUNT."""
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return is_integer and bool(1 <= number <= MAX_COUNT)


def is_finite(array: Any, ndim: int | None = None, max_abs: float = MAX_ABS) -> bool:
    """Whether this is a float64 array, absolute values up to `max_abs`, with `ndim` axes if given.

    Larger numbers would overflow when the server squares them.
    """
    proper = (
        isinstance(array, np.ndarray) and array.dtype == np.float64 and ndim in (None, array.ndim)
    )
    return bool(proper and (np.abs(array) <= max_abs).all())
