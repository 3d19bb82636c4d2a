"""Checks of the rules of a policy: each returns the value to store, or raises InputError."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, get_args

from fedwad._checks import check_choice, check_integer
from fedwad.errors import InputError
from fedwad.federation.needs import KINDS, NON_QUERY_KINDS
from fedwad.ot import CovarianceType, check_order
from fedwad.tables import label_text

__all__ = ["CHECKS", "COVARIANCE_TYPES", "KINDS_WITH_EPSILON", "LabelName"]

_MAX_LINE_CHARS = 200
# Numbers of a table are floats. From here on their text has a point or an exponent, so it would
# never equal the text of an integer.
_MAX_LABEL_NUMBER = 10**15
#: The name of a label: a string, an integer or a boolean.
LabelName = str | int | bool
#: Kinds that a policy with an epsilon may allow. The rule max_distinct_replies does not limit them.
KINDS_WITH_EPSILON = ("describe", "private")
#: Kinds that the rule max_distinct_replies can limit.
_KINDS_WITH_LIMIT = tuple(
    kind for kind in KINDS if kind not in (*KINDS_WITH_EPSILON, *NON_QUERY_KINDS)
)
#: All but "auto", from the one that reveals most to the one that reveals least.
COVARIANCE_TYPES: tuple[CovarianceType, ...] = get_args(CovarianceType)[1:]


class _FrozenCounts(dict[str, int]):
    """Numbers by kind of request, in a dict that cannot be changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[_FrozenCounts], tuple[dict[str, int]]]:
        return _FrozenCounts, (dict(self),)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "the rules of a policy cannot be changed; make a new policy with dataclasses.replace"
        )

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """A collection as a tuple. Anything else becomes (None,), which the checks below refuse."""
    return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (None,)


def _check_kinds(allow: Any, _: str) -> tuple[str, ...]:
    """The kinds in the order of KINDS, whichever collection they came in."""
    kinds = _as_tuple(allow)
    if any(kind not in KINDS for kind in kinds):
        raise InputError(f"allow is {allow!r}; give a list with some of {', '.join(KINDS)}.")
    return tuple(kind for kind in KINDS if kind in kinds)


def _check_models(models: Any, _: str) -> tuple[str, ...]:
    names = _as_tuple(models)
    if not all(type(name) is str for name in names):
        raise InputError(f"models is {models!r}; give a list of names such as 'mlp'.")
    return tuple(sorted(set(names)))


def _check_label_names(label_names: Any, _: str) -> tuple[LabelName, ...]:
    """The public names of classes.

    Two names that would be read as one label, such as "1" and "01", are refused.
    """
    names = tuple(label_names) if isinstance(label_names, list | tuple) else (None,)
    texts = [label_text(name) for name in names]
    types = {type(name) for name in names}
    small = all(type(name) is not int or abs(name) < _MAX_LABEL_NUMBER for name in names)
    if types - {str, int, bool} or len(types) > 1 or len(set(texts)) < len(texts) or not small:
        raise InputError(
            "label_names must be a list of strings, of integers of up to 15 digits, or of"
            ' booleans, all different; "1" and "01" count as the same.'
        )
    return names


def _check_orders(orders: Any, _: str) -> tuple[float, ...] | None:
    """The allowed orders p of distances, sorted; None if all are, which a file spells "any"."""
    if orders is None or orders == "any":
        return None
    if not isinstance(orders, list | tuple | set | frozenset):
        raise InputError(f'orders is {orders!r}; give a list such as [2.0], or "any".')
    return tuple(sorted({check_order(order) for order in orders}))


def _check_bool(value: Any, rule: str) -> bool:
    if type(value) is not bool:
        raise InputError(f"{rule} is {value!r}; give true or false.")
    return value


def _check_line(value: Any, rule: str) -> str:
    if type(value) is not str or len(value) > _MAX_LINE_CHARS or not value.isprintable():
        raise InputError(f"{rule} must be a line of at most {_MAX_LINE_CHARS} characters.")
    return value


def _check_limit(value: Any, rule: str, least: int = 0) -> int | None:
    """A limit of at least `least`; None for no limit, which a file spells inf."""
    return None if value is None or value == math.inf else check_integer(value, rule, least)


def _check_distinct_replies(value: Any, rule: str) -> int | Mapping[str, int] | None:
    """One limit for all kinds, limits for some kinds, or None for no limit."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return check_integer(value, rule, 0)
    if not value or not set(value) <= set(_KINDS_WITH_LIMIT):
        raise InputError(
            f"{rule} is {dict(value)!r}; give a number, or numbers for some of"
            f" {', '.join(_KINDS_WITH_LIMIT)}."
        )
    kinds = [kind for kind in _KINDS_WITH_LIMIT if kind in value]
    return _FrozenCounts({k: check_integer(value[k], f"{rule} of {k}", 0) for k in kinds})


#: The check of each rule but the privacy budget, which is epsilon and delta.
CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "allow": _check_kinds,
    "models": _check_models,
    "exact_interpolant": _check_bool,  # of FedWaD; it reveals every sample
    "uniform_support": _check_bool,
    "classes": _check_bool,
    "calibration": _check_bool,
    "keep": _check_bool,
    "name": _check_line,
    "contact": _check_line,
    "covariance_type": lambda value, rule: check_choice(value, rule, COVARIANCE_TYPES),
    "orders": _check_orders,
    "min_cell_size": check_integer,
    "min_support": check_integer,
    "max_support": lambda value, rule: _check_limit(value, rule, 1),
    "max_queries": _check_limit,
    "max_evaluations": _check_limit,  # of requests of kind "evaluate"
    "max_distinct_replies": _check_distinct_replies,
    "label_names": _check_label_names,
}
