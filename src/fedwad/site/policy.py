"""What a client is willing to answer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from fedwad._checks import check_choice, check_integer, check_number
from fedwad._files import to_toml, write_atomically
from fedwad.errors import InputError, PolicyError
from fedwad.messages.message import KINDS, NON_QUERY_KINDS, LabelName, Needs
from fedwad.privacy import check_budget
from fedwad.statistics import CovarianceType
from fedwad.tables import label_text

# Kinds that a policy with an epsilon may allow. The rule max_distinct_replies does not limit them.
_KINDS_WITH_EPSILON = ("describe", "private")
# Kinds that the rule max_distinct_replies can limit.
_KINDS_WITH_LIMIT = tuple(
    kind for kind in KINDS if kind not in (*_KINDS_WITH_EPSILON, *NON_QUERY_KINDS)
)
# All but "auto", from the one that reveals most to the one that reveals least.
_COVARIANCE_TYPES: tuple[CovarianceType, ...] = get_args(CovarianceType)[1:]


def _refusal(rule: str, value: Any, form: str) -> InputError:
    return InputError(f"{rule} is {value!r}; give {form}.", "bad-policy")


def _typed(kind: Any, form: str) -> Callable[[Any, str], Any]:
    """A check that a value is of this type, which its error words as `form`."""

    def check(value: Any, rule: str) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise _refusal(rule, value, form) from None

    return check


_FLAG = _typed(bool, "true or false")
_DAY = _typed(date | None, "a date such as 2027-12-31")
_NAMES = _typed(frozenset[str], "a list of names such as 'mlp'")
_KINDS = _typed(
    frozenset[Literal[KINDS]],  # type: ignore[valid-type]  # which are one list, in message.py
    f"a list with some of {', '.join(KINDS)}",
)


def _check_label_names(label_names: Any, _: str) -> tuple[LabelName, ...]:
    """The public names of classes.

    Two names that would be read as one label, such as "1" and "01", are refused.
    """
    names = tuple(label_names) if isinstance(label_names, list | tuple) else (None,)
    texts = [label_text(name) for name in names]
    types = {type(name) for name in names}
    # Numbers of a table are floats. From 10^15 on their text has a point or an exponent, so it
    # would never equal the text of an integer.
    small = all(type(name) is not int or abs(name) < 10**15 for name in names)
    if types - {str, int, bool} or len(types) > 1 or len(set(texts)) < len(texts) or not small:
        raise InputError(
            "label_names must be a list of strings, of integers of up to 15 digits, or of"
            ' booleans, all different; "1" and "01" count as the same.',
            "bad-policy",
        )
    return names


def _check_line(value: Any, rule: str) -> str:
    if type(value) is not str or len(value) > 200 or not value.isprintable():
        raise _refusal(rule, value, "a line of at most 200 characters")
    return value


def _check_limit(value: Any, rule: str, least: int = 0) -> int | None:
    """A limit of at least `least`; None for no limit, which a file spells inf."""
    return None if value is None or value == math.inf else check_integer(value, rule, least)


def _check_distinct_replies(value: Any, rule: str) -> int | tuple[tuple[str, int], ...] | None:
    """One limit for all kinds, pairs of a kind and its limit, or None for no limit."""
    if value is None or not isinstance(value, Mapping | tuple):
        return None if value is None else check_integer(value, rule, 0)
    limits = dict(value)
    if not limits or not set(limits) <= set(_KINDS_WITH_LIMIT):
        kinds = ", ".join(_KINDS_WITH_LIMIT)
        raise _refusal(rule, limits, f"a number, or numbers for some of {kinds}")
    return tuple(
        (kind, check_integer(limits[kind], f"{rule} of {kind}", 0))
        for kind in _KINDS_WITH_LIMIT
        if kind in limits
    )


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "allow": lambda value, rule: tuple(sorted(_KINDS(value, rule), key=KINDS.index)),
    "models": lambda value, rule: tuple(sorted(_NAMES(value, rule))),
    "rounding": check_number,
    "supports": lambda value, rule: check_choice(value, rule, ("one-size", "equal", "any")),
    "splits": lambda value, rule: check_choice(value, rule, ("none", "noise", "blocks")),
    "classes": _FLAG,
    "keep": _FLAG,
    "name": _check_line,
    "contact": _check_line,
    "covariance_type": lambda value, rule: check_choice(value, rule, _COVARIANCE_TYPES),
    "min_cell_size": check_integer,
    "max_support": lambda value, rule: _check_limit(value, rule, 1),
    "max_queries": _check_limit,
    "max_schemas": _check_limit,
    "max_distinct_replies": _check_distinct_replies,
    "label_names": _check_label_names,
    "expires": lambda value, rule: None if value is None else str(_DAY(value, rule)),
}


@dataclass(frozen=True)
class Policy:
    """Rules that a client applies to each request before it answers. By default nothing is allowed.

    A policy is a precaution, not a privacy guarantee. It limits how many queries a server may make,
    and how few samples a number may average.

    Parameters
    ----------
    allow : kinds of requests that are answered, out of "describe", "columns" (kinds, counts and
        moments of the columns, from which sites agree on a schema), "summary", "transport",
        "cells", "atoms", "labels", "prototypes", "private", "train", "evaluate"
    min_cell_size : smallest number of samples that a cell mean may average
    max_support : largest number of points of a support, cells of a summary or atoms of a coreset;
        None, or inf in a file, for no limit
    max_queries : largest number of queries in the client's ledger, across restarts and versions of
        the data; None, or inf in a file, for no limit. A new ledger starts all counts
        anew. A request counts once, whether its reply was sent or withheld: if it comes again, it
        gets the same reply or the same refusal
    max_distinct_replies : how many replies of one kind may differ from each other, in the whole
        ledger: a number for every kind but "describe" and "private", or a table with numbers for
        some kinds, {"summary": 1}. A reply that was sent before is sent again; a new one beyond the
        limit is withheld, because two different summaries can differ by a single record. Of
        "evaluate" every query counts: each counts the records that a network of the server's choice
        classifies correctly, and some thirty such counts show where a record lies along a direction
    max_schemas : in how many different encodings a table is asked about, and in how many different
        units numbers, for each version of the data; None, or inf in a file, for any number. From
        encodings of its choice a server could compute rows. Sites agree on one schema for all of
        them, which serves every later question
    supports : which supports a server may choose ("transport", "cells"): "equal" for points of
        equal weights and distances of order p = 2, which are functions of cell means and of the
        mean squared norm; "one-size" for those with exactly `max_support` points, since replies to
        supports of two sizes can differ by single records; "any" also for unequal weights and other
        orders, which are averages over functions that the server chooses and that no
        `min_cell_size` covers, and for the exact interpolating measure, which reveals every sample
    rounding : how much the cells of a support that a server chose are moved at random before
        anything about them leaves ("transport", "cells", "atoms"): the sum over a cell changes by
        this many standard deviations of one record. Otherwise two supports whose cells differ by
        one record would reveal it. The same cell is always moved alike. 0 for exact sums; 3 is the
        smallest of 0, 1/2, 1, 2, 3 with which a swap gets no more values of made tables right than
        guessing; of real ones it gets a few flags more (`python -m benchmarks swap`)
    classes : whether replies may hold the statistics of each class of labelled data, and the names
        of labels where "labels" or "prototypes" are allowed
    covariance_type : the most detailed covariance that is shared: "full", "lowrank", "diag" or
        "spherical". If a request asks for more, the client shares this one, and the result says so
    splits : what a summary or final cells come with beyond cells, from random splits of the rows:
        "blocks" for the noise of sampling, means over blocks of rows and expected order statistics,
        without which no difference between sites is tested; "noise" for the noise alone; "none".
        Replies to "columns" have order statistics in any case
    keep : whether summaries, with their block means, may be kept in a file after the run: a matrix
        that newcomers join, or a reference for drift. The site says so in its replies; it cannot
        check
    label_names : names of the classes that private releases may have as cells, from public
        knowledge: strings or integers. All other labels, and missing ones, form one more class,
        which is never shared. Only for a policy with an epsilon
    epsilon, delta : the budget of differential privacy for all releases of kind "private" over the
        client's life; without epsilon there is no private release. A policy with an epsilon allows
        no other replies about the data, because the guarantee covers everything that leaves
    models : networks that "train" and "evaluate" may build: built-in names, or
        "package.module:function" in the client's own installation, whose code the client thereby
        agrees to run; "*" for any. Requests hold names of networks, never code
    name, contact : who the client is, for "describe"
    expires : last day on which anything is answered, in UTC: a date such as 2027-12-31; None for no
        end
    """

    allow: Collection[str] = ()
    min_cell_size: int = 10
    max_support: int | None = 1000
    max_queries: int | None = None
    max_distinct_replies: int | Mapping[str, int] | tuple[tuple[str, int], ...] | None = None
    max_schemas: int | None = 1
    supports: Literal["one-size", "equal", "any"] = "equal"
    rounding: float = 3.0
    classes: bool = False
    covariance_type: Literal["full", "lowrank", "diag", "spherical"] = "full"
    splits: Literal["none", "noise", "blocks"] = "blocks"
    keep: bool = False
    epsilon: float | None = None
    delta: float = 1e-5
    label_names: Collection[LabelName] = ()
    models: Collection[str] = ("mlp", "cnn")
    name: str = ""
    contact: str = ""
    expires: str | None = None

    def __post_init__(self) -> None:
        for rule, check in _CHECKS.items():
            object.__setattr__(self, rule, check(getattr(self, rule), rule))
        if self.supports == "one-size" and self.max_support is None:
            raise _refusal("max_support", math.inf, 'the size for supports = "one-size"')
        if self.epsilon is None or self.epsilon == math.inf:  # no budget, or no guarantee
            if self.label_names:
                raise InputError(
                    "label_names belong to a policy with an epsilon; remove them.", "bad-policy"
                )
            return
        check_budget(self.epsilon, self.delta)
        others = [kind for kind in self.allow if kind not in _KINDS_WITH_EPSILON]
        if others:
            raise InputError(
                "A policy with an epsilon guarantees it for everything that leaves, so it can"
                f" allow 'describe' and 'private' but not '{others[0]}'; use two clients for the"
                " two purposes, and never the same data.",
                "bad-policy",
            )

    @classmethod
    def open(cls, name: str = "") -> Policy:
        """A policy that answers everything: for data that are on this machine anyway."""
        return cls(
            KINDS,
            min_cell_size=1,
            max_support=None,
            max_schemas=None,
            rounding=0.0,
            supports="any",
            classes=True,
            keep=True,
            epsilon=math.inf,
            models=("*",),
            name=name,
        )

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy from a TOML file whose keys are the parameters.

        A key that is left out has its default.
        """
        import tomllib

        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise InputError(
                f"There is no readable policy at {path}; check the path.", "no-such-file"
            ) from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(
                f"{path} is not a TOML file ({error}); correct that line.", "bad-toml"
            ) from None
        keys = [field.name for field in fields(cls)]
        unknown = [key for key in content if key not in keys]
        if unknown:
            raise InputError(
                f"{path} has the key '{unknown[0]}'; a policy has {', '.join(keys)}.", "unknown-key"
            )
        if "name" not in content or "allow" not in content:
            raise InputError(
                f'{path} needs at least a name and what it allows: name = "paris", allow = [...].',
                "bad-policy",
            )
        try:
            return cls(**content)
        except InputError as error:
            raise InputError(f"In {path}: {error}", error.code) from None

    def to_toml(self) -> str:
        """The policy as the TOML that `load` reads."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        for limit in ("max_support", "max_schemas"):  # whose default is a number
            content[limit] = math.inf if content[limit] is None else content[limit]
        if isinstance(self.max_distinct_replies, tuple):
            content["max_distinct_replies"] = dict(self.max_distinct_replies)
        return to_toml({key: value for key, value in content.items() if value is not None})

    def save(self, path: str | Path) -> None:
        """Write the policy to a TOML file."""
        write_atomically(path, self.to_toml())

    def digest(self) -> str:
        """SHA-256 of every rule that can change a reply."""
        left_out = ("max_queries", "max_schemas", "name", "contact", "expires")
        names = [field.name for field in fields(self) if field.name not in left_out]
        return hashlib.sha256(repr([getattr(self, name) for name in names]).encode()).hexdigest()

    def allowed_covariance_type(self, covariance_type: CovarianceType) -> CovarianceType:
        """The covariance type that this client shares when it is asked for `covariance_type`."""
        if covariance_type == "auto":
            return "auto" if self.covariance_type == "full" else self.covariance_type
        requested, allowed = map(_COVARIANCE_TYPES.index, (covariance_type, self.covariance_type))
        return _COVARIANCE_TYPES[max(requested, allowed)]

    def admit(self, kind: str, needs: Needs, queries: int) -> None:
        """Raise PolicyError unless a request of this kind and these needs may be executed after
        `queries` earlier queries."""
        refusal = next(self._refusals(kind, needs, queries), None)
        if refusal is not None:
            raise refusal

    def check_date(self) -> None:
        """Raise PolicyError if the policy expired."""
        if self.expires is not None and datetime.now(UTC).date().isoformat() > self.expires:
            raise PolicyError(
                f"The policy of this site expired after {self.expires}; nothing is answered.",
                "expired",
            )

    def _refusals(self, kind: str, needs: Needs, queries: int) -> Iterator[PolicyError]:
        """What each rule that refuses such a request says."""
        self.check_date()
        if kind not in self.allow:
            yield PolicyError(
                f"Requests of kind '{kind}' are not allowed by this site's policy.",
                "kind-refused",
            )
        if kind not in NON_QUERY_KINDS:
            self.check_queries(queries)
        if not self.classes and (needs.class_statistics != "ignored" or needs.label_names):
            yield PolicyError(
                "This site's policy does not share statistics of classes or names of labels.",
                "withheld",
            )
        sufficient = ("full",) if needs.class_statistics == "full" else ("full", "lowrank", "diag")
        if needs.class_covariance and self.covariance_type not in sufficient:
            yield PolicyError(
                "This site's policy withholds the covariances by which classes are compared.",
                "withheld",
            )
        if self.supports != "any":
            if needs.order not in (None, 2.0):
                yield PolicyError(
                    f"Order p = {needs.order:g} was asked for; this site answers p = 2 only.",
                    "order-refused",
                )
            if needs.exact_interpolant:
                yield PolicyError(
                    "The exact interpolating measure reveals every sample and is not sent.",
                    "withheld",
                )
            if needs.subset:  # draws differ by single rows, and average the rounding away
                yield PolicyError(
                    "Replies about random subsets of rows tell single rows; this site answers about"
                    " all of its rows.",
                    "withheld",
                )
            if needs.support == "weighted":
                yield PolicyError(
                    "This site transports only to supports of equal weights.",
                    "support-refused",
                )
        if needs.size is not None:
            least = self.min_support
            if needs.support != "none" and needs.size < least:
                yield PolicyError(
                    f"{needs.size} support points were asked for; this site needs {least}.",
                    "support-refused",
                )
            self.check_size(needs.size)
        if needs.model and needs.model not in self.models and "*" not in self.models:
            yield PolicyError(
                f"This site's policy does not let it build the model '{needs.model}'.",
                "model-refused",
            )

    def check_schemas(self, schemas: int) -> None:
        """Raise PolicyError unless a new schema may follow `schemas` others."""
        if self.max_schemas is not None and schemas >= self.max_schemas:
            raise PolicyError(
                f"This site has been asked about its data in the {self.max_schemas} encodings that"
                " its policy allows; give the schema of the earlier run again (schema), or ask the"
                " same sites as then.",
                "too-many-schemas",
            )

    def check_queries(self, queries: int) -> None:
        """Raise PolicyError unless a query may follow `queries` earlier ones."""
        if self.max_queries is not None and queries >= self.max_queries:
            raise PolicyError(
                f"This site has answered all {self.max_queries} queries that its policy allows.",
                "too-many-queries",
            )

    @property
    def min_support(self) -> int:
        """Smallest number of points of a support."""
        return (self.max_support or 1) if self.supports == "one-size" else 1

    def check_size(self, size: int) -> None:
        """Raise PolicyError if a support or a reply of this many points is too large."""
        if self.max_support is not None and size > self.max_support:
            raise PolicyError(
                f"{size} points or cells were asked for; this site answers up to"
                f" {self.max_support}.",
                "support-refused",
            )

    @property
    def is_private(self) -> bool:
        """Whether the policy guarantees differential privacy for everything that leaves."""
        return self.epsilon is not None and math.isfinite(self.epsilon)

    @property
    def min_level_size(self) -> int:
        """Smallest number of rows with which a level of a category is encoded under its own name.

        It is 1 under an epsilon, where noise hides single rows and an encoding that depends on the
        data would undo the guarantee.
        """
        return 1 if self.is_private else self.min_cell_size

    def check_distinct(self, kind: str, sent: int) -> None:
        """Raise PolicyError unless a new reply of this kind may follow `sent` different ones."""
        rule = self.max_distinct_replies
        allowed = rule if rule is None or isinstance(rule, int) else dict(rule).get(kind)
        if allowed is not None and sent >= allowed:
            raise PolicyError(
                f"This site has sent the {allowed} different replies of this kind that its policy"
                " allows; ask for one of those again.",
                "too-many-queries",
            )

    def check_cell_size(self, min_cell_size: int) -> None:
        """Raise PolicyError if the smallest cell of a reply, with `min_cell_size` samples, is too
        small."""
        if min_cell_size < self.min_cell_size:
            raise PolicyError(
                f"A cell of this reply holds fewer than the {self.min_cell_size} samples that this"
                " site's policy requires; ask for fewer cells, if the request has a number of"
                " them.",
                "small-cells",
            )
