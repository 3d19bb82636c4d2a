"""Option objects: defaults, checks and help of a method's options in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from fedwad._checks import check_choice, check_integer, check_number, format_value
from fedwad.errors import InputError
from fedwad.ot import Measure

__all__ = [
    "Choice",
    "Integer",
    "Method",
    "Number",
    "OptionKind",
    "Points",
    "Position",
    "option",
    "resolve",
]

M = TypeVar("M", bound="Method")


class OptionKind(Protocol):
    """The values that an option can have.

    `annotation` is the type of the option on the command line, or None if the command line does not
    offer the option.
    """

    @property
    def annotation(self) -> Any: ...

    def check(self, value: Any, name: str) -> Any:
        """Return the value as a plain type or a Measure; InputError if it is not allowed."""
        ...


@dataclass(frozen=True)
class Integer:
    """An integer of at least one."""

    annotation: ClassVar[Any] = int

    def check(self, value: Any, name: str) -> int:
        return check_integer(value, name)


@dataclass(frozen=True)
class Number:
    """A finite number of at least zero, or above zero if `positive`."""

    positive: bool = False
    annotation: ClassVar[Any] = float

    def check(self, value: Any, name: str) -> float:
        return check_number(value, name, positive=self.positive)


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def annotation(self) -> Any:
        return Literal[self.words]

    def check(self, value: Any, name: str) -> str:
        return check_choice(value, name, self.words)


@dataclass(frozen=True)
class Position:
    """A position on a geodesic: a number strictly between 0 and 1, or "random"."""

    annotation: ClassVar[Any] = str

    def check(self, value: Any, name: str) -> float | Literal["random"]:
        if isinstance(value, str):
            if value == "random":
                return "random"
            value = _parse_float(value)
        real = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
        if not real or not 0 < value < 1:
            raise InputError(
                f"{name} is {format_value(value)}; give a number strictly between 0 and 1, or"
                " 'random'."
            )
        return float(value)


@dataclass(frozen=True)
class Points:
    """A point cloud to start from, or one of a few words that say how to make one."""

    words: tuple[str, ...] = ()

    @property
    def annotation(self) -> Any:
        return Literal[self.words] if self.words else None

    def check(self, value: Any, name: str) -> Measure | str:
        if isinstance(value, str) and self.words:
            return check_choice(value, name, self.words)
        if isinstance(value, Measure):
            return value
        if np.isscalar(value):
            raise InputError(f"{name} is {value!r}; give an array of shape (points, features).")
        return Measure(value, name=name)


def _parse_float(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def option(default: Any, kind: OptionKind, text: str) -> Any:
    """Return the dataclass field of an option: its default, the values it can have, its help."""
    return field(default=default, metadata={"kind": kind, "help": text})


@dataclass(frozen=True)
class Method:
    """Options of one method, checked when the object is made.

    `name` is the word by which users name the method, and `about` describes it in help texts. An
    option whose default is None may stay None.
    """

    name: ClassVar[str]
    about: ClassVar[str]

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is not None or spec.default is not None:
                checked = spec.metadata["kind"].check(value, spec.name)
                object.__setattr__(self, spec.name, checked)

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
        return _check_object(method, options, methods)
    names = [m.name for m in methods]
    chosen = methods[names.index(check_choice(method, "method", names))]
    for name in options:
        if name not in chosen.option_names():
            raise InputError(_unknown_option_message(name, chosen, methods))
    return chosen(**options)


def _check_object(method: Method, options: Mapping[str, Any], methods: Sequence[type[M]]) -> M:
    for allowed in methods:
        if isinstance(method, allowed):
            if options:
                raise InputError(
                    f"{next(iter(options))} came beside an option object; set it in"
                    f" {allowed.__name__}(...)."
                )
            return method
    classes = " or ".join(allowed.__name__ for allowed in methods)
    raise InputError(
        f"method is a {type(method).__name__}, which this function does not take; give {classes}."
    )


def _unknown_option_message(
    name: str, chosen: type[Method], methods: Sequence[type[Method]]
) -> str:
    others = [f"'{m.name}'" for m in methods if name in m.option_names()]
    takes = f"method '{chosen.name}' takes {', '.join(chosen.option_names())}."
    if not others:
        return f"There is no option '{name}'; {takes}"
    plural = "methods" if others[1:] else "method"
    return f"{name} is an option of {plural} {' and '.join(others)}; {takes}"
