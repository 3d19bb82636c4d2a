"""What every question and every answer is, and the checks that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fedwad._checks import check_choice
from fedwad.errors import InputError
from fedwad.ot import Measure

if TYPE_CHECKING:
    from fedwad.federation.context import ClientContext
    from fedwad.federation.policy import Policy

__all__ = ["Classes", "Reply", "Request"]

_LONGEST_RUN = 64
_LONGEST_WORD = 1000
_SUMS_TO_ONE = 1e-9

#: Whether samples are looked at without their labels, or with the statistics of their class
#: appended: mean and standard deviations ("diagonal"), or mean and root covariance ("full").
Classes = Literal["ignored", "diag", "full"]


class Reply:
    """What a client can reply: a frozen dataclass of arrays, numbers and short words."""

    def check_alone(self) -> None:
        """Raise InputError unless each number makes sense by itself. Runs on the server."""
        raise NotImplementedError


class Request:
    """What a server can ask: a frozen dataclass of arrays, numbers and short words, and how a
    client deals with it.

    A client calls, in this order, `validate`, `admit`, `check_shape` and `execute`; the server
    calls `check` on what comes back. All are looked up on the class, never on what arrived.
    """

    kind: ClassVar[str]
    answer: ClassVar[type[Reply]]
    #: Whether the reply depends on nothing but the question, the data and the policy. Such a
    #: question counts once.
    lasting: ClassVar[bool] = False

    def validate(self) -> Request:
        """A copy made of plain values; InputError unless each makes sense by itself, whatever the
        data.

        Plain means of exactly the expected type: nothing that arrives gets to run code of its own.
        """
        raise NotImplementedError

    def admit(self, policy: Policy) -> None:
        """Raise PolicyError unless this policy lets the request be worked on, beyond its kind and
        number."""

    def check_shape(self, context: ClientContext) -> None:
        """Raise InputError unless the request fits the data in shape; nothing is looked at yet."""

    def execute(self, context: ClientContext) -> tuple[Reply, int | None]:
        """The reply, and the number of samples that its least protected number averages (None if it
        averages none)."""
        raise NotImplementedError

    def check(self, reply: Any) -> None:
        """Raise InputError unless `reply`, an `answer`, is about what was asked. Runs on the
        server."""


def plain_word(value: Any, name: str, choices: tuple[Any, ...]) -> Any:
    """The choice that equals `value`, itself and not a copy in disguise."""
    check_choice(value, name, choices)
    return next(choice for choice in choices if choice == str(value))


def plain_support(support: Any) -> Measure:
    if type(support) is not Measure:
        raise InputError(f"The support is a {type(support).__name__}; give a Measure.")
    return Measure(np.array(support.points), np.array(support.weights), name="the support")


def plain_run(run: Any) -> str:
    if type(run) is not str or len(run) > _LONGEST_RUN:
        raise InputError(f"run must be a word of at most {_LONGEST_RUN} letters.")
    return run


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise InputError(sentence)


def check_measure(measure: Any) -> None:
    require(type(measure) is Measure and is_finite(measure.points, 2), "points are not finite.")
    check_weights(measure.weights, len(measure.points))


def check_weights(weights: Any, count: int) -> None:
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
    proper = distance is None or (isinstance(distance, float) and 0 <= distance < np.inf)
    require(proper, "a distance is not a finite number.")


def check_words(*words: Any) -> None:
    require(
        all(type(word) is str and len(word) <= _LONGEST_WORD for word in words),
        "words are too long.",
    )


def is_count(number: Any) -> bool:
    return (
        isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number >= 1)
    )


def is_finite(array: Any, ndim: int | None = None) -> bool:
    proper = (
        isinstance(array, np.ndarray) and array.dtype == np.float64 and ndim in (None, array.ndim)
    )
    return bool(proper and np.isfinite(array).all())
