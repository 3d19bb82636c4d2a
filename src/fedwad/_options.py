"""Option objects, whose options are checked by their types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from fedwad._checks import check_choice, check_integer, check_number, format_value
from fedwad.errors import InputError
from fedwad.transport import Measure

M = TypeVar("M", bound="Method")


@dataclass(frozen=True)
class OptionKind:
    """The values that an option can have.

    `annotation` is the type of the option on the command line. `check` returns a value of this name
    as a plain type or a Measure, or raises an InputError.
    """

    annotation: Any
    check: Callable[[Any, str], Any]


def check_position(value: Any, name: str) -> Any:
    """Return a position on a geodesic: a number strictly between 0 and 1, "own" or "random"."""
    if isinstance(value, str) and value in ("own", "random"):
        return value
    number = math.nan
    if isinstance(value, str | int | float | np.floating) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if not 0 < number < 1:
        raise InputError(
            f"{name} is {format_value(value)}; give 'own', 'random', or a number strictly"
            " between 0 and 1.",
            "bad-option",
        )
    return number


def check_points(value: Any, name: str, words: tuple[str, ...] = ()) -> Measure | str:
    """Return a point cloud to start from, or one of a few words that say how to make one."""
    if isinstance(value, str) and words:
        return check_choice(value, name, words)
    if np.isscalar(value):
        raise InputError(
            f"{name} is {value!r}; give an array of shape (points, features).", "bad-option"
        )
    return value if isinstance(value, Measure) else Measure(value, name=name)


def start(*words: str) -> OptionKind:
    """A point cloud, or one of a few words, which the command line offers."""
    return OptionKind(Literal[words], lambda value, name: check_points(value, name, words))


_INTEGER, _NUMBER = OptionKind(int, check_integer), OptionKind(float, check_number)
#: A number above zero.
Positive = Annotated[
    float, OptionKind(float, lambda value, name: check_number(value, name, positive=True))
]
#: A position on a geodesic.
Position = Annotated[float | Literal["own", "random"], OptionKind(str, check_position)]


@dataclass(frozen=True)
class Method:
    """Options of one method, checked when the object is made.

    `name` is the word by which users name the method, and `about` describes it in help texts. An
    option whose default is None may stay None.
    """

    name: ClassVar[str]
    about: ClassVar[str]

    def __post_init__(self) -> None:
        for name, kind in self.kinds().items():
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:
                object.__setattr__(self, name, kind.check(value, name))

    @classmethod
    def kinds(cls) -> dict[str, OptionKind]:
        """The kind of each option, from its type: a word, an integer, a number, or its own.

        An option that may be None has the kind of its other values.
        """
        hints, found = get_type_hints(cls, include_extras=True), {}
        for spec in fields(cls):
            hint = hints[spec.name]
            if get_origin(hint) in (Union, UnionType):
                hint = get_args(hint)[0]
            if get_origin(hint) is Annotated:
                found[spec.name] = get_args(hint)[1]
            elif get_origin(hint) is Literal:
                check = partial(check_choice, choices=get_args(hint))
                found[spec.name] = OptionKind(hint, check)
            else:
                found[spec.name] = _INTEGER if hint is int else _NUMBER
        return found

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        return tuple(spec.name for spec in fields(cls))

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain numbers and words; a starting cloud becomes "given"."""
        options = {name: getattr(self, name) for name in self.option_names()}
        return {k: "given" if isinstance(v, Measure) else v for k, v in options.items()}

    def changed(self) -> list[str]:
        """Return the names of the options that differ from their defaults."""
        values = [(spec, getattr(self, spec.name)) for spec in fields(self)]
        return [
            spec.name
            for spec, value in values
            if isinstance(value, Measure) or value != spec.default
        ]


def resolve(method: Any, options: Mapping[str, Any], methods: Sequence[type[M]]) -> M:
    """Return the option object of the chosen method.

    `method` is the name of one of `methods`, and `options` are its options by keyword. Or `method`
    is an option object already, which is returned unchanged. If an option belongs to another
    method, the error names that method.
    """
    if isinstance(method, Method):
        name = type(method).__name__
        if not isinstance(method, tuple(methods)):
            raise InputError(
                f"method is a {name}, which this function does not take; give"
                f" {' or '.join(one.__name__ for one in methods)}.",
                "bad-option",
            )
        for option_name in options:
            raise InputError(
                f"{option_name} came beside an option object; set it in {name}(...).", "bad-option"
            )
        return method  # type: ignore[return-value]  # it is one of them
    names = [m.name for m in methods]
    chosen = methods[names.index(check_choice(method, "method", names))]
    for name in options:
        if name not in chosen.option_names():
            takes = f"method '{chosen.name}' takes {', '.join(chosen.option_names())}."
            others = [f"'{m.name}'" for m in methods if name in m.option_names()]
            said = f"There is no option '{name}'"
            if others:
                plural = "methods" if others[1:] else "method"
                said = f"{name} is an option of {plural} {' and '.join(others)}"
            raise InputError(f"{said}; {takes}", "unknown-option")
    return chosen(**options)
