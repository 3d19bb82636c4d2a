"""Checks of the rules of a policy, each on one value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from fedwad._checks import check_integer
from fedwad.errors import InputError
from fedwad.federation.needs import KINDS
from fedwad.ot import check_order
from fedwad.tables import label_text

__all__ = [
    "UNLIMITED",
    "LabelName",
    "check_line",
    "check_switch",
    "checked_distinct",
    "checked_kinds",
    "checked_labels",
    "checked_limit",
    "checked_models",
    "checked_orders",
]

_LONGEST_LINE = 200
_LARGEST_NAME = 10**15
#: The name of a label: a string, an integer or a boolean.
LabelName = str | int | bool
#: Kinds whose replies average no samples: who a client is, and noise that has its own budget.
UNLIMITED = ("describe", "private")
_LIMITED = tuple(kind for kind in KINDS if kind not in UNLIMITED)


class _Table(dict[str, int]):
    """Numbers by kind, which nobody can change."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[_Table], tuple[dict[str, int]]]:
        return _Table, (dict(self),)

    def _closed(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "the rules of a policy cannot be changed; make a new policy with dataclasses.replace"
        )

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _closed


def _strings(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (None,)


def checked_kinds(allow: Any) -> tuple[str, ...]:
    """The kinds in the order of KINDS, whichever collection they came in."""
    found = _strings(allow)
    if any(kind not in KINDS for kind in found):
        raise InputError(f"allow is {allow!r}; give a list with some of {', '.join(KINDS)}.")
    return tuple(kind for kind in KINDS if kind in found)


def checked_models(models: Any) -> tuple[str, ...]:
    found = _strings(models)
    if not all(type(word) is str for word in found):
        raise InputError(f"models is {models!r}; give a list of names such as 'mlp'.")
    return tuple(sorted(set(found)))


def checked_labels(names: Any) -> tuple[LabelName, ...]:
    """The public names of classes; two names that would be read as one label are refused."""
    found = tuple(names) if isinstance(names, list | tuple) else (None,)
    texts = [label_text(name) for name in found]
    kinds = {type(name) for name in found}
    whole = all(type(name) is not int or abs(name) < _LARGEST_NAME for name in found)
    if kinds - {str, int, bool} or len(kinds) > 1 or len(set(texts)) < len(texts) or not whole:
        raise InputError(
            "label_names must be a list of different strings, or of different integers."
        )
    return found


def checked_orders(orders: Any) -> tuple[float, ...] | None:
    """Orders of distances in ascending order; None for any, which a file spells "any"."""
    if orders is None or orders == "any":
        return None
    if not isinstance(orders, list | tuple | set | frozenset):
        raise InputError(f'orders is {orders!r}; give a list such as [2.0], or "any".')
    return tuple(sorted({check_order(order) for order in orders}))


def check_switch(value: Any, option: str) -> None:
    if type(value) is not bool:
        raise InputError(f"{option} is {value!r}; give true or false.")


def check_line(value: Any, option: str) -> None:
    if type(value) is not str or len(value) > _LONGEST_LINE or not value.isprintable():
        raise InputError(f"{option} must be a line of at most {_LONGEST_LINE} characters.")


def checked_limit(value: Any, option: str, least: int) -> int | None:
    """An integer, or None for no limit, which a file spells inf."""
    return None if value is None or value == math.inf else check_integer(value, option, least)


def checked_distinct(rule: Any) -> int | Mapping[str, int] | None:
    if rule is None:
        return None
    if not isinstance(rule, Mapping):
        return check_integer(rule, "max_distinct_replies", 0)
    if not rule or not set(rule) <= set(_LIMITED):
        raise InputError(
            f"max_distinct_replies is {dict(rule)!r}; give a number, or numbers for some of"
            f" {', '.join(_LIMITED)}."
        )
    kinds = [kind for kind in _LIMITED if kind in rule]
    return _Table({k: check_integer(rule[k], f"max_distinct_replies of {k}", 0) for k in kinds})
