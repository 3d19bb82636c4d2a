"""Which labels occur, by name and without counts: what parties need to agree on before they learn
together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedwad.errors import InputError, PolicyError
from fedwad.federation.message import Reply, Request
from fedwad.ot import effective_counts, large_classes

if TYPE_CHECKING:
    from fedwad.federation.context import ClientContext
    from fedwad.federation.data import Dataset
    from fedwad.federation.policy import Policy

__all__ = [
    "LabelName",
    "Labels",
    "LabelsRequest",
    "agreed_names",
    "check_names",
    "label_names",
    "may_tell_names",
]

#: What a label can be called: a word, a whole number, or true and false.
LabelName = str | int | bool

_LONGEST_NAME = 200
_MOST_NAMES = 10_000
_LARGEST_NUMBER = 2**63
_KINDS: dict[type, str] = {str: "words", int: "whole numbers", bool: "true and false"}


@dataclass(frozen=True)
class Labels(Reply):
    """The names of a client's labels, in ascending order."""

    names: tuple[LabelName, ...]

    def check_alone(self) -> None:
        check_names(self.names)


@dataclass(frozen=True)
class LabelsRequest(Request):
    """Which labels occur? Those of fewer samples than the policy's smallest cell are not told."""

    kind: ClassVar[str] = "labels"
    lasting: ClassVar[bool] = True
    answer: ClassVar[type[Reply]] = Labels

    def validate(self) -> LabelsRequest:
        return LabelsRequest()

    def admit(self, policy: Policy) -> None:
        may_tell_names(policy)

    def execute(self, context: ClientContext) -> tuple[Labels, int]:
        names, measure, codes = (
            label_names(context.data),
            context.data.measure,
            context.data.known_labels(),
        )
        told = large_classes(measure, codes, context.policy.min_cell_size)
        if not len(told):
            raise too_few(context.policy)
        min_cell_size = int(effective_counts(codes, measure.weights)[told].min() + 1e-9)
        return Labels(tuple(sorted(names[code] for code in told))), min_cell_size


def may_tell_names(policy: Policy) -> None:
    """PolicyError unless this policy lets the labels' names leave."""
    if not policy.classes:
        raise PolicyError("The names of labels are not told by this client's policy.")


def too_few(policy: Policy) -> PolicyError:
    return PolicyError(
        f"No class has the {policy.min_cell_size} samples that this client's policy asks for."
    )


def label_names(data: Dataset) -> tuple[LabelName, ...]:
    """The name of each class of a client's data, in the order of their numbers; InputError if it
    has no plain one."""
    if data.labels is None:
        raise InputError(
            data.wrong_labels
            or "The data have no labels; give them as (X, y) or name a label column."
        )
    names = tuple(map(_plain, data.names))
    check_names(names)
    return names


def _plain(name: Any) -> LabelName:
    """A number of the data as the whole number it is, which reading from a file may have made a
    float."""
    if type(name) in _KINDS:
        return name  # type: ignore[no-any-return]
    if isinstance(name, float | np.floating) and float(name).is_integer():
        return int(name)
    if isinstance(name, float | np.floating):
        raise InputError(
            "Labels are numbers with fractions; give classes by words or whole numbers."
        )
    raise InputError(
        f"Labels are of type {type(name).__name__}; give words, whole numbers, or true and false."
    )


def check_names(names: Any) -> None:
    """InputError unless these are a few different names of one type, short and printable."""
    if type(names) is not tuple or not 1 <= len(names) <= _MOST_NAMES:
        raise InputError(
            f"There are {len(names)} different labels; classes are at least one and up to {_MOST_NAMES}."
        )
    kinds = sorted({_KINDS.get(type(name), "something else") for name in names})
    if len(kinds) > 1 or kinds == ["something else"]:
        raise InputError(
            f"Labels are {' and '.join(kinds)}; give all of one type, words or whole numbers."
        )
    for name in names:
        if type(name) is str and not (name.isprintable() and len(name) <= _LONGEST_NAME):
            raise InputError(
                f"A label is no printable word of up to {_LONGEST_NAME} letters; rename it."
            )
        if type(name) is int and not -_LARGEST_NUMBER <= name < _LARGEST_NUMBER:
            raise InputError("A label is a number of more than 64 bits; give smaller ones.")
    if len(set(names)) < len(names):
        raise InputError("Two labels have the same name; give each class its own.")


def agreed_names(told: Mapping[str, tuple[LabelName, ...]]) -> tuple[LabelName, ...]:
    """All names that clients told, in ascending order; InputError if they call their labels by
    different types.

    >>> agreed_names({"paris": (0, 3), "oslo": (3, 7)})
    (0, 3, 7)
    """
    first, expected = next((client, _KINDS[type(names[0])]) for client, names in told.items())
    for client, names in told.items():
        kind = _KINDS[type(names[0])]
        if kind != expected:
            raise InputError(
                f"The labels of {first} are {expected} and those of {client} are {kind}; make all of one type."
            )
    return tuple(sorted(set().union(*told.values())))
