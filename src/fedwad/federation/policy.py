"""What a client is willing to answer."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, NoReturn, get_args

from fedwad._checks import check_choice, check_whole
from fedwad.errors import InputError, PolicyError
from fedwad.federation.message import Classes, Request
from fedwad.federation.requests import KINDS
from fedwad.ot import CovarianceType, Measure, check_order
from fedwad.privacy import check_budget

__all__ = ["Policy"]

_LONGEST_WORD = 200
_UNLIMITED = (
    "describe",
    "private",
)  # average no samples: who a client is, and noise that has a budget of its own
_FORMS: tuple[CovarianceType, ...] = get_args(CovarianceType)[1:]  # from most to least


class _Table(dict[str, int]):
    """Numbers by kind, which nobody can change."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[_Table], tuple[dict[str, int]]]:
        return _Table, (dict(self),)

    def _closed(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "the rules of a policy cannot be changed; make another policy with dataclasses.replace"
        )

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _closed


@dataclass(frozen=True)
class Policy:
    """Rules that a client applies to each request before it answers. By default nothing is allowed.

    A policy is hygiene, not a privacy guarantee: it limits how many looks a server gets at the data
    and how many samples each number averages.

    Parameters
    ----------
    allow : kinds of requests that are answered, out of "describe", "moments", "summary",
        "transport", "cells", "atoms", "labels", "prototypes", "private", "train", "evaluate"
    min_cell_size : least number of samples that a cell mean may average
    max_support : most points that a support or a summary may have
    min_support : fewest points of a support; equal to the largest it leaves one size, since answers
        to supports of two sizes differ by single records
    max_queries : most looks at the data over the client's life; None for no limit. A question
        counts once, whether its reply left or was withheld: asked again, it gets the same reply, or
        the same refusal, which tells nothing new
    max_distinct_replies : most replies of each kind (but "describe" and "private") over the
        client's life that differ from each other, or a table with a number for some kinds,
        {"summary": 1}; asked again for one of those it repeats it, and anything new is withheld:
        two different summaries can differ by a single record
    exact_interpolant : whether the exact interpolating measure, which gives every sample away, is
        sent
    uniform_support : whether the points of a support must all weigh the same
    max_p : highest order of a distance; high orders tell the farthest sample instead of a mean over
        many
    classes : whether answers may tell the statistics of each class of labelled data, and the names
        of labels where "labels" or "prototypes" are allowed
    covariance_type : most that is told of a covariance: "full", "lowrank", "diagonal" or
        "isotropic"; asked for more, the client tells this much, and the result says so
    epsilon, delta : the budget of differential privacy for all releases of kind "private" over the
        client's life; no epsilon, no private release. With one, nothing else about the data may be
        allowed: the promise is about all that leaves
    models : networks that "train" and "evaluate" may build: built-in words, or places
        "package.module:function" of the client's own installation, whose code the client thereby
        agrees to run; "*" for any. No code ever arrives.
    name, contact : who the client is, for "describe"
    """

    allow: Collection[str] = ()
    min_cell_size: int = 10
    max_support: int | None = 1000
    max_queries: int | None = None
    max_distinct_replies: int | Mapping[str, int] | None = None
    min_support: int = 1
    exact_interpolant: bool = False
    uniform_support: bool = True
    max_p: float = 4.0
    classes: bool = False
    covariance_type: Literal["full", "lowrank", "diag", "spherical"] = "full"
    epsilon: float | None = None
    delta: float = 1e-5
    models: Collection[str] = ("mlp", "cnn")
    name: str = ""
    contact: str = ""

    def __post_init__(self) -> None:
        known = tuple(KINDS.values())
        allow = (
            tuple(self.allow) if isinstance(self.allow, list | tuple | set | frozenset) else (None,)
        )
        if any(kind not in known for kind in allow):
            raise InputError(
                f"allow is {self.allow!r}; give a list with some of {', '.join(known)}."
            )
        allow = tuple(
            kind for kind in known if kind in allow
        )  # in one order, whichever set it came from
        object.__setattr__(self, "allow", allow)  # a copy, which nobody can add to
        models = (
            tuple(self.models)
            if isinstance(self.models, list | tuple | set | frozenset)
            else (None,)
        )
        if not all(type(word) is str for word in models):
            raise InputError(f"models is {self.models!r}; give a list of words such as 'mlp'.")
        object.__setattr__(self, "models", tuple(sorted(set(models))))
        for option in ("exact_interpolant", "uniform_support", "classes"):
            if type(getattr(self, option)) is not bool:
                raise InputError(f"{option} is {getattr(self, option)!r}; give true or false.")
        for option in ("name", "contact"):
            word = getattr(self, option)
            if type(word) is not str or len(word) > _LONGEST_WORD or not word.isprintable():
                raise InputError(f"{option} must be a line of at most {_LONGEST_WORD} letters.")
        check_choice(self.covariance_type, "covariance_type", _FORMS)
        check_order(self.max_p)
        check_whole(self.min_cell_size, "min_cell_size")
        check_whole(self.min_support, "min_support")
        self._check_different(known)
        if self.max_support is not None:
            check_whole(self.max_support, "max_support")
        if self.max_queries is not None:
            check_whole(self.max_queries, "max_queries", 0)
        self._check_budget()

    def _check_different(self, known: Collection[str]) -> None:
        rule = self.max_distinct_replies
        if isinstance(rule, Mapping):
            limited = [kind for kind in known if kind not in _UNLIMITED]
            if not rule or any(kind not in limited for kind in rule):
                told = ", ".join(limited)
                raise InputError(
                    f"different_replies is {dict(rule)!r}; give a number, or numbers for some of {told}."
                )
            words = {kind: f"different_replies of {kind}" for kind in limited if kind in rule}
            table = _Table({kind: check_whole(rule[kind], word, 0) for kind, word in words.items()})
            object.__setattr__(self, "max_distinct_replies", table)
        elif rule is not None:
            check_whole(rule, "max_distinct_replies", 0)

    def _check_budget(self) -> None:
        if (
            self.epsilon is None or self.epsilon == math.inf
        ):  # nothing is granted, or nothing is promised
            return
        check_budget(self.epsilon, self.delta)
        others = [kind for kind in self.allow if kind not in ("describe", "private")]
        if others:
            raise InputError(
                f"A policy with an epsilon promises it for all that leaves, so it can allow 'describe' and 'private'"
                f" but not '{others[0]}'; give the two purposes clients of their own, and never the same data."
            )

    @classmethod
    def open(cls) -> Policy:
        """A policy that answers everything: for data that is on this machine anyway."""
        everything = tuple(KINDS.values())
        return cls(
            everything,
            min_cell_size=1,
            max_support=None,
            exact_interpolant=True,
            uniform_support=False,
            max_p=100,
            classes=True,
            epsilon=math.inf,
            models=("*",),
        )

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy from a TOML file whose keys are the parameters; what it leaves out stays at
        its default."""
        import tomllib

        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise InputError(f"There is no readable policy at {path}; check the path.") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} is not a TOML file ({error}); mend that line.") from None
        known = [field.name for field in fields(cls)]
        unknown = [key for key in content if key not in known]
        if unknown:
            raise InputError(f"{path} has the key '{unknown[0]}'; a policy has {', '.join(known)}.")
        if "name" not in content or "allow" not in content:
            raise InputError(
                f'{path} needs at least a name and what it allows: name = "paris", allow = [...].'
            )
        try:
            return cls(**content)
        except InputError as error:
            raise InputError(f"In {path}: {error}") from None

    def allowed_covariance_type(self, covariance_type: CovarianceType) -> CovarianceType:
        """The form in which this client tells a covariance when it is asked for
        `covariance_type`."""
        if covariance_type == "auto":
            return "auto" if self.covariance_type == "full" else self.covariance_type
        return _FORMS[max(_FORMS.index(covariance_type), _FORMS.index(self.covariance_type))]

    def admit(self, request: Request, queries: int) -> None:
        """Raise PolicyError unless `request` may be worked on, after so many earlier looks at the
        data."""
        kind = type(request).kind
        if kind not in self.allow:
            raise PolicyError(f"Requests of kind '{kind}' are not allowed by this client's policy.")
        if kind != "describe":
            self.check_queries(queries)
        type(request).admit(request, self)

    def check_queries(self, queries: int) -> None:
        """Raise PolicyError unless the data may be looked at once more, after so many looks."""
        if self.max_queries is not None and queries >= self.max_queries:
            raise PolicyError(
                f"This client has given all {self.max_queries} answers that its policy allows."
            )

    def check_classes(self, classes: Classes) -> None:
        if classes != "ignored" and not self.classes:
            raise PolicyError("The statistics of classes are not told by this client's policy.")

    def check_order(self, p: float) -> None:
        if p > self.max_p:
            raise PolicyError(
                f"Order p = {p:g} was asked for; this client answers up to {self.max_p:g}."
            )

    def check_support(self, support: Measure) -> None:
        if self.uniform_support and not support.is_uniform:
            raise PolicyError("This client transports only to supports of equal weights.")
        if len(support) < self.min_support:
            raise PolicyError(
                f"A support of {len(support)} points was asked for; this client answers from {self.min_support}."
            )
        self.check_size(len(support))

    def check_size(self, size: int) -> None:
        if self.max_support is not None and size > self.max_support:
            raise PolicyError(
                f"A support of {size} points was asked for; this client answers up to {self.max_support}."
            )

    def most_different(self, kind: str) -> int | None:
        """How many replies of this kind may differ from each other; None for any number."""
        rule = self.max_distinct_replies
        return rule.get(kind) if isinstance(rule, Mapping) else rule

    def check_new(self, kind: str, digest: str, told: Collection[str]) -> None:
        """Raise PolicyError unless a reply of this kind and digest may follow those that were
        `told`."""
        most = self.most_different(kind)
        if most is not None and digest not in told and len(told) >= most:
            raise PolicyError(
                f"This client has told the {most} different replies of this kind that its policy"
                " allows; ask again for one of those."
            )

    def release(self, min_cell_size: int) -> None:
        """Raise PolicyError unless a reply whose smallest cell holds `min_cell_size` samples may
        leave."""
        if min_cell_size < self.min_cell_size:
            raise PolicyError(
                f"A cell of this reply holds fewer than the {self.min_cell_size} samples that this client's"
                " policy asks for; ask for a smaller support."
            )
