"""The names of labels, without counts: sites agree on them before they train together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError, PolicyError
from fedwad.federation._policy_checks import LabelName
from fedwad.federation.context import ClientContext
from fedwad.federation.data import Dataset
from fedwad.federation.message import Reply, Request
from fedwad.federation.needs import Needs
from fedwad.ot import effective_counts, large_classes

__all__ = [
    "LabelName",
    "Labels",
    "LabelsRequest",
    "all_label_names",
    "allowed_classes",
    "check_names",
    "label_names",
]

_MAX_NAME_CHARS = 200
_MAX_NAMES = 10_000
_MAX_NUMBER = 2**63
_TYPES: dict[type, str] = {str: "strings", int: "integers", bool: "booleans"}


@dataclass(frozen=True)
class Labels(Reply):
    """The names of a client's labels, in ascending order."""

    names: tuple[LabelName, ...]

    def check_values(self) -> None:
        check_names(self.names)


@dataclass(frozen=True)
class LabelsRequest(Request):
    """Ask which labels occur. Labels with fewer samples than `min_cell_size` are left out."""

    kind: ClassVar[str] = "labels"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = Labels

    def validate(self) -> LabelsRequest:
        return LabelsRequest()

    def needs(self) -> Needs:
        return Needs(label_names=True)

    def execute(self, context: ClientContext) -> tuple[Labels, int]:
        names, codes = label_names(context.data), context.data.require_class_codes()
        allowed = allowed_classes(context)
        counts = effective_counts(codes, context.data.measure.weights)
        min_cell_size = int(counts[allowed].min() + 1e-9)
        return Labels(tuple(sorted(names[code] for code in allowed))), min_cell_size


def allowed_classes(context: ClientContext) -> NDArray[np.int64]:
    """The codes of classes with at least `min_cell_size` samples, which the policy lets the site
    name; PolicyError if there are none."""
    data, min_size = context.data, context.policy.min_cell_size
    allowed = large_classes(data.measure, data.require_class_codes(), min_size)
    if not len(allowed):
        raise PolicyError(f"No class has the {min_size} samples that this site's policy requires.")
    return allowed


def label_names(data: Dataset) -> tuple[LabelName, ...]:
    """The name of each class in the order of the class numbers; InputError if a label is not a
    string, an integer or a boolean."""
    if data.labels is None:
        raise InputError(
            data.label_error
            or "The data have no labels; give them as (X, y) or name a label column."
        )
    names = tuple(map(_as_name, data.names))
    check_names(names)
    return names


def _as_name(name: Any) -> LabelName:
    """The label as a name; a float without a fraction, as file readers make them, as an integer."""
    if type(name) in _TYPES:
        return name  # type: ignore[no-any-return]
    if isinstance(name, float | np.floating) and float(name).is_integer():
        return int(name)
    if isinstance(name, float | np.floating):
        raise InputError(
            "Labels are numbers that are not integers; name classes by strings or integers."
        )
    raise InputError(
        f"Labels are of type {type(name).__name__}; give strings, integers or booleans."
    )


def check_names(names: Any) -> None:
    """Raise InputError unless these are different names of one type, short and printable."""
    if type(names) is not tuple:
        raise InputError(
            f"The names of labels are a {type(names).__name__}; give a tuple of names."
        )
    if not 1 <= len(names) <= _MAX_NAMES:
        raise InputError(
            f"There are {len(names)} different labels; give at least one and up to {_MAX_NAMES}."
        )
    kinds = sorted({_TYPES.get(type(name), "something else") for name in names})
    if len(kinds) > 1 or kinds == ["something else"]:
        raise InputError(
            f"Labels are {' and '.join(kinds)}; give all of one type, strings or integers."
        )
    for name in names:
        _check_name(name)
    if len(set(names)) < len(names):
        raise InputError("Two labels have the same name; give each class its own.")


def _check_name(name: LabelName) -> None:
    if type(name) is str and not (name.isprintable() and len(name) <= _MAX_NAME_CHARS):
        raise InputError(
            f"A label is not a printable string of up to {_MAX_NAME_CHARS} characters; rename it."
        )
    if type(name) is int and not -_MAX_NUMBER <= name < _MAX_NUMBER:
        raise InputError("A label is a number of more than 64 bits; give smaller ones.")


def all_label_names(labels: Mapping[str, tuple[LabelName, ...]]) -> tuple[LabelName, ...]:
    """The labels that occur at any site, in ascending order; InputError if their types differ.

    >>> all_label_names({"paris": (0, 3), "oslo": (3, 7)})
    (0, 3, 7)
    """
    first, expected = next((client, _TYPES[type(names[0])]) for client, names in labels.items())
    for client, names in labels.items():
        kind = _TYPES[type(names[0])]
        if kind != expected:
            raise InputError(
                f"The labels of {first} are {expected} and those of {client} are {kind}; make all"
                " of one type."
            )
    return tuple(sorted(set().union(*labels.values())))
