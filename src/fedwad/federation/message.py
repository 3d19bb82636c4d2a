"""The base classes of requests and replies, and the checks that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.federation.context import MAX_CALIBRATED, ClientContext
from fedwad.federation.needs import Needs
from fedwad.ot import Measure

__all__ = ["MAX_ABS", "MAX_CALIBRATED", "MAX_COUNT", "Reply", "Request"]

_LONGEST_RUN = 64
_LONGEST_WORD = 1000
_SUMS_TO_ONE = 1e-9
#: Largest number of samples that a site can have.
MAX_COUNT = 10**12
#: Largest coordinate or distance in a reply; data are at most 1e100.
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
    #: Whether the reply is paid for out of the privacy budget. Such a reply is kept for good, and
    #: the same request gets it again at no cost.
    uses_budget: ClassVar[bool] = False
    #: Whether it is about encoded data; a table that waits for a schema answers only other ones.
    needs_encoding: ClassVar[bool] = True
    #: Whether several clients of one process execute such requests together, see
    #: `execute_batch`.
    can_batch: ClassVar[bool] = False

    def validate(self) -> Request:
        """A copy made of plain values; InputError unless each makes sense by itself.

        Plain means of exactly the expected type, so that no code of an object that arrived is run.
        """
        raise NotImplementedError

    def needs(self) -> Needs:
        """What a policy must allow before this request is executed."""
        return Needs()

    def check_shape(self, context: ClientContext) -> None:
        """Raise InputError unless the request fits the shape of the data. No sample is read."""

    def execute(self, context: ClientContext) -> tuple[Reply, int | None]:
        """The reply, and how many samples its least protected number averages.

        None stands for a reply that averages no samples.
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


def plain_word(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    """The element of `choices` that equals `value`."""
    check_choice(value, name, choices)
    return next(choice for choice in choices if choice == str(value))


def plain_switch(value: Any, name: str) -> bool:
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
    if type(run) is not str or len(run) > _LONGEST_RUN:
        raise InputError(f"run must be a string of at most {_LONGEST_RUN} characters.")
    return run


def without_run(request: R) -> R:
    """A request without the name of its run, which is drawn anew at each start."""
    return replace(request, run="") if hasattr(request, "run") else request  # type: ignore[type-var]


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
        proper and abs(float(weights.sum()) - 1) <= _SUMS_TO_ONE,
        "weights are not positive with sum one.",
    )


def check_distance(distance: Any) -> None:
    """Raise InputError unless this is a distance or None."""
    proper = distance is None or (isinstance(distance, float) and 0 <= distance <= MAX_ABS)
    require(proper, "a distance is not a finite number.")


def check_switch(value: Any) -> None:
    """Raise InputError unless this is true or false."""
    require(type(value) is bool, "a switch is neither true nor false.")


def check_words(*words: Any) -> None:
    """Raise InputError unless these are strings of a reasonable length."""
    require(
        all(type(word) is str and len(word) <= _LONGEST_WORD for word in words),
        "a string is too long, or is none.",
    )


def is_count(number: Any) -> bool:
    """Whether this is a positive integer that a site can have counted to."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return whole and bool(1 <= number <= MAX_COUNT)


def is_finite(array: Any, ndim: int | None = None, max_abs: float = MAX_ABS) -> bool:
    """Whether this is an array of float64 numbers up to `max_abs`, with `ndim` axes if given.

    Larger numbers would overflow when the server squares them.
    """
    proper = (
        isinstance(array, np.ndarray) and array.dtype == np.float64 and ndim in (None, array.ndim)
    )
    return bool(proper and (np.abs(array) <= max_abs).all())
