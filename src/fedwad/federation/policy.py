"""What a client is willing to answer."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, NoReturn, get_args

from fedwad._checks import check_choice, check_whole
from fedwad.errors import InputError, PolicyError
from fedwad.federation.kinds import KINDS
from fedwad.federation.message import Classes, Request
from fedwad.ot import Form, Measure, check_order
from fedwad.privacy import check_promise

__all__ = ["Policy"]

_LONGEST_WORD = 200
_UNLIMITED = ("describe", "private")  # average no samples: who a client is, and noise that has a budget of its own
_FORMS: tuple[Form, ...] = get_args(Form)[1:]  # from most to least


class _Table(dict[str, int]):
    """Numbers by kind, which nobody can change."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[_Table], tuple[dict[str, int]]]:
        return _Table, (dict(self),)

    def _closed(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the rules of a policy cannot be changed; make another policy with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _closed


@dataclass(frozen=True)
class Policy:
    """Rules that a client applies to each request before it answers. By default nothing is allowed.

    A policy is hygiene, not a privacy guarantee: it limits how many looks a server gets at the data and how
    many samples each number averages.

    Parameters
    ----------
    allow : kinds of requests that are answered, out of "describe", "moments", "summary", "transport", "cells", "atoms",
        "labels", "prototypes", "private", "train", "evaluate"
    smallest_cell : least number of samples that a cell mean may average
    largest_support : most points that a support or a summary may have
    smallest_support : fewest points of a support; equal to the largest it leaves one size, since answers to supports of
        two sizes differ by single records
    answers : most looks at the data over the client's life; None for no limit. A question counts once, whether its
        reply left or was withheld: asked again, it gets the same reply, or the same refusal, which tells nothing new
    different_replies : most replies of each kind (but "describe" and "private") over the client's life that differ from
        each other, or a table with a number for some kinds, {"summary": 1}; asked again for one of those it repeats it,
        and anything new is withheld: two different summaries can differ by a single record
    exact_interpolant : whether the exact interpolating measure, which gives every sample away, is sent
    uniform_support : whether the points of a support must all weigh the same
    largest_p : highest order of a distance; high orders tell the farthest sample instead of a mean over many
    classes : whether answers may tell the statistics of each class of labelled data, and the names of labels where
        "labels" or "prototypes" are allowed
    form : most that is told of a covariance: "full", "lowrank", "diagonal" or "isotropic"; asked for more, the
        client tells this much, and the result says so
    epsilon, delta : the budget of differential privacy for all releases of kind "private" over the client's life; no
        epsilon, no private release. With one, nothing else about the data may be allowed: the promise is about all
        that leaves
    models : networks that "train" and "evaluate" may build: built-in words, or places "package.module:function" of the
        client's own installation, whose code the client thereby agrees to run; "*" for any. No code ever arrives.
    name, contact : who the client is, for "describe"
    """

    allow: Collection[str] = ()
    smallest_cell: int = 10
    largest_support: int | None = 1000
    answers: int | None = None
    different_replies: int | Mapping[str, int] | None = None
    smallest_support: int = 1
    exact_interpolant: bool = False
    uniform_support: bool = True
    largest_p: float = 4.0
    classes: bool = False
    form: Literal["full", "lowrank", "diagonal", "isotropic"] = "full"
    epsilon: float | None = None
    delta: float = 1e-5
    models: Collection[str] = ("mlp", "cnn")
    name: str = ""
    contact: str = ""

    def __post_init__(self) -> None:
        known = tuple(KINDS.values())
        allow = tuple(self.allow) if isinstance(self.allow, list | tuple | set | frozenset) else (None,)
        if any(kind not in known for kind in allow):
            raise InputError(f"allow is {self.allow!r}; give a list with some of {', '.join(known)}.")
        allow = tuple(kind for kind in known if kind in allow)  # in one order, whichever set it came from
        object.__setattr__(self, "allow", allow)  # a copy, which nobody can add to
        models = tuple(self.models) if isinstance(self.models, list | tuple | set | frozenset) else (None,)
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
        check_choice(self.form, "form", _FORMS)
        check_order(self.largest_p)
        check_whole(self.smallest_cell, "smallest_cell")
        check_whole(self.smallest_support, "smallest_support")
        self._check_different(known)
        if self.largest_support is not None:
            check_whole(self.largest_support, "largest_support")
        if self.answers is not None:
            check_whole(self.answers, "answers", 0)
        self._check_budget()

    def _check_different(self, known: Collection[str]) -> None:
        rule = self.different_replies
        if isinstance(rule, Mapping):
            limited = [kind for kind in known if kind not in _UNLIMITED]
            if not rule or any(kind not in limited for kind in rule):
                told = ", ".join(limited)
                raise InputError(f"different_replies is {dict(rule)!r}; give a number, or numbers for some of {told}.")
            words = {kind: f"different_replies of {kind}" for kind in limited if kind in rule}
            table = _Table({kind: check_whole(rule[kind], word, 0) for kind, word in words.items()})
            object.__setattr__(self, "different_replies", table)
        elif rule is not None:
            check_whole(rule, "different_replies", 0)

    def _check_budget(self) -> None:
        if self.epsilon is None or self.epsilon == math.inf:  # nothing is granted, or nothing is promised
            return
        check_promise(self.epsilon, self.delta)
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
            smallest_cell=1,
            largest_support=None,
            exact_interpolant=True,
            uniform_support=False,
            largest_p=100,
            classes=True,
            epsilon=math.inf,
            models=("*",),
        )

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy from a TOML file whose keys are the parameters; what it leaves out stays at its default."""
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
            raise InputError(f'{path} needs at least a name and what it allows: name = "paris", allow = [...].')
        try:
            return cls(**content)
        except InputError as error:
            raise InputError(f"In {path}: {error}") from None

    def told(self, form: Form) -> Form:
        """The form in which this client tells a covariance when it is asked for `form`."""
        if form == "auto":
            return "auto" if self.form == "full" else self.form
        return _FORMS[max(_FORMS.index(form), _FORMS.index(self.form))]

    def admit(self, request: Request, looks: int) -> None:
        """Raise PolicyError unless `request` may be worked on, after so many earlier looks at the data."""
        kind = type(request).kind
        if kind not in self.allow:
            raise PolicyError(f"Requests of kind '{kind}' are not allowed by this client's policy.")
        if kind != "describe":
            self.check_looks(looks)
        type(request).admit(request, self)

    def check_looks(self, looks: int) -> None:
        """Raise PolicyError unless the data may be looked at once more, after so many looks."""
        if self.answers is not None and looks >= self.answers:
            raise PolicyError(f"This client has given all {self.answers} answers that its policy allows.")

    def check_classes(self, classes: Classes) -> None:
        if classes != "ignored" and not self.classes:
            raise PolicyError("The statistics of classes are not told by this client's policy.")

    def check_order(self, p: float) -> None:
        if p > self.largest_p:
            raise PolicyError(f"Order p = {p:g} was asked for; this client answers up to {self.largest_p:g}.")

    def check_support(self, support: Measure) -> None:
        if self.uniform_support and not support.is_uniform:
            raise PolicyError("This client transports only to supports of equal weights.")
        if len(support) < self.smallest_support:
            raise PolicyError(
                f"A support of {len(support)} points was asked for; this client answers from {self.smallest_support}."
            )
        self.check_size(len(support))

    def check_size(self, size: int) -> None:
        if self.largest_support is not None and size > self.largest_support:
            raise PolicyError(
                f"A support of {size} points was asked for; this client answers up to {self.largest_support}."
            )

    def most_different(self, kind: str) -> int | None:
        """How many replies of this kind may differ from each other; None for any number."""
        rule = self.different_replies
        return rule.get(kind) if isinstance(rule, Mapping) else rule

    def check_new(self, kind: str, digest: str, told: Collection[str]) -> None:
        """Raise PolicyError unless a reply of this kind and digest may follow those that were `told`."""
        most = self.most_different(kind)
        if most is not None and digest not in told and len(told) >= most:
            raise PolicyError(
                f"This client has told the {most} different replies of this kind that its policy"
                " allows; ask again for one of those."
            )

    def release(self, smallest: int) -> None:
        """Raise PolicyError unless a reply whose smallest cell holds `smallest` samples may leave."""
        if smallest < self.smallest_cell:
            raise PolicyError(
                f"A cell of this reply holds fewer than the {self.smallest_cell} samples that this client's"
                " policy asks for; ask for a smaller support."
            )
