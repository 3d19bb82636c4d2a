"""What a client is willing to answer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from fedwad._files import to_toml, write_atomically
from fedwad.errors import InputError, PolicyError
from fedwad.federation._policy_checks import CHECKS, COVARIANCE_TYPES, KINDS_WITH_EPSILON, LabelName
from fedwad.federation.needs import KINDS, NON_QUERY_KINDS, Needs
from fedwad.ot import CovarianceType
from fedwad.privacy import check_budget

__all__ = ["Policy"]


@dataclass(frozen=True)
class Policy:
    """Rules that a client applies to each request before it answers. By default nothing is allowed.

    A policy is a precaution, not a privacy guarantee. It limits how many queries a server may make,
    and how few samples a number may average.

    Parameters
    ----------
    allow : kinds of requests that are answered, out of "describe", "schema" (the
        profile of a table), "encode" (take the schema that sites agree on), "moments", "summary",
        "blocks", "transport", "cells", "atoms", "labels", "prototypes", "private", "train",
        "evaluate"
    min_cell_size : smallest number of samples that a cell mean may average
    max_support : largest number of points of a support, cells of a summary or atoms of a coreset;
        None, or inf in a file, for no limit
    max_queries : largest number of queries over the client's life; None, or inf in a file, for no
        limit. A request counts once, whether its reply was sent or withheld: if it comes again, it
        gets the same reply or the same refusal
    max_evaluations : largest number of queries of kind "evaluate" over the client's life, besides
        `max_queries`; None, or inf in a file, for no limit. Each counts the records that a network
        of the server's choice classifies correctly; some thirty such counts show where a record
        lies along a direction
    max_distinct_replies : how many replies of one kind may differ from each other, over the
        client's life: a number for every kind but "describe", "encode" and "private", or a table
        with numbers for some kinds, {"summary": 1}. A reply that was sent before is sent again; a
        new one beyond the limit is withheld, because two different summaries can differ by a single
        record. For "blocks" the limit is 1 unless a number is given or `exact_interpolant` is set:
        from means over different blocks of the same rows a server could compute the rows
    min_support : smallest number of points of a support. Set it equal to `max_support` to leave one
        size: replies to supports of two sizes can differ by single records
    exact_interpolant : whether the exact interpolating measure, which reveals every sample, may be
        sent
    uniform_support : whether the points of a support must all have the same weight
    orders : orders p of distances that are answered; None, or "any" in a file, for all. With p = 2
        a distance is a function of cell means and of the mean squared norm. Any other order is one
        more average, over a function that the server chooses and that no `min_cell_size` covers
    classes : whether replies may hold the statistics of each class of labelled data, and the names
        of labels where "labels" or "prototypes" are allowed
    covariance_type : the most detailed covariance that is shared: "full", "lowrank", "diag" or
        "spherical". If a request asks for more, the client shares this one, and the result says so
    calibration : whether a summary or cells may come with the numbers that the client measures on
        splits of its own rows, from which a server learns the sampling noise
    keep : whether summaries and block means may be kept in a file after the run: a matrix that
        newcomers join, or a reference for drift. The site says so in its replies; it cannot check
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
    """

    allow: Collection[str] = ()
    min_cell_size: int = 10
    max_support: int | None = 1000
    max_queries: int | None = None
    max_evaluations: int | None = None
    max_distinct_replies: int | Mapping[str, int] | None = None
    min_support: int = 1
    exact_interpolant: bool = False
    uniform_support: bool = True
    orders: Collection[float] | None = (2.0,)
    classes: bool = False
    covariance_type: Literal["full", "lowrank", "diag", "spherical"] = "full"
    calibration: bool = True
    keep: bool = False
    epsilon: float | None = None
    delta: float = 1e-5
    label_names: Collection[LabelName] = ()
    models: Collection[str] = ("mlp", "cnn")
    name: str = ""
    contact: str = ""

    def __post_init__(self) -> None:
        for rule, check in CHECKS.items():
            object.__setattr__(self, rule, check(getattr(self, rule), rule))
        self._check_budget()

    def _check_budget(self) -> None:
        if self.epsilon is None or self.epsilon == math.inf:  # no budget, or no guarantee
            if self.label_names:
                raise InputError("label_names belong to a policy with an epsilon; remove them.")
            return
        check_budget(self.epsilon, self.delta)
        others = [kind for kind in self.allow if kind not in KINDS_WITH_EPSILON]
        if others:
            raise InputError(
                "A policy with an epsilon guarantees it for everything that leaves, so it can"
                f" allow 'describe' and 'private' but not '{others[0]}'; use two clients for the"
                " two purposes, and never the same data."
            )

    @classmethod
    def open(cls, name: str = "") -> Policy:
        """A policy that answers everything: for data that are on this machine anyway."""
        return cls(
            KINDS,
            min_cell_size=1,
            max_support=None,
            exact_interpolant=True,
            uniform_support=False,
            orders=None,
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
            raise InputError(f"There is no readable policy at {path}; check the path.") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} is not a TOML file ({error}); correct that line.") from None
        keys = [field.name for field in fields(cls)]
        unknown = [key for key in content if key not in keys]
        if unknown:
            raise InputError(f"{path} has the key '{unknown[0]}'; a policy has {', '.join(keys)}.")
        if "name" not in content or "allow" not in content:
            raise InputError(
                f'{path} needs at least a name and what it allows: name = "paris", allow = [...].'
            )
        try:
            return cls(**content)
        except InputError as error:
            raise InputError(f"In {path}: {error}") from None

    def to_toml(self) -> str:
        """The policy as the TOML that `load` reads."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["max_support"] = math.inf if self.max_support is None else self.max_support
        content["orders"] = "any" if self.orders is None else self.orders
        return to_toml({key: value for key, value in content.items() if value is not None})

    def save(self, path: str | Path) -> None:
        """Write the policy to a TOML file."""
        write_atomically(path, self.to_toml())

    def digest(self) -> str:
        """SHA-256 of every rule that can change a reply."""
        left_out = ("max_queries", "max_evaluations", "name", "contact")
        names = [field.name for field in fields(self) if field.name not in left_out]
        return hashlib.sha256(repr([getattr(self, name) for name in names]).encode()).hexdigest()

    def allowed_covariance_type(self, covariance_type: CovarianceType) -> CovarianceType:
        """The covariance type that this client shares when it is asked for `covariance_type`."""
        if covariance_type == "auto":
            return "auto" if self.covariance_type == "full" else self.covariance_type
        requested, allowed = map(COVARIANCE_TYPES.index, (covariance_type, self.covariance_type))
        return COVARIANCE_TYPES[max(requested, allowed)]

    def admit(self, kind: str, needs: Needs, queries: int) -> None:
        """Raise PolicyError unless a request of this kind and these needs may be executed after
        `queries` earlier queries."""
        if kind not in self.allow:
            raise PolicyError(f"Requests of kind '{kind}' are not allowed by this site's policy.")
        if kind not in NON_QUERY_KINDS:
            self.check_queries(queries)
        self._check_classes(needs)
        self._check_order(needs.order)
        if needs.exact_interpolant and not self.exact_interpolant:
            raise PolicyError(
                "The exact interpolating measure reveals every sample and is not sent."
            )
        self._check_support(needs)
        if needs.model and needs.model not in self.models and "*" not in self.models:
            raise PolicyError(
                f"The model '{needs.model}' is not among those that this site's policy lets it"
                " build."
            )

    def check_evaluations(self, evaluations: int) -> None:
        """Raise PolicyError unless an evaluation may follow `evaluations` earlier ones."""
        if self.max_evaluations is not None and evaluations >= self.max_evaluations:
            raise PolicyError(
                f"This site has tested all {self.max_evaluations} networks that its policy allows."
            )

    def check_queries(self, queries: int) -> None:
        """Raise PolicyError unless a query may follow `queries` earlier ones."""
        if self.max_queries is not None and queries >= self.max_queries:
            raise PolicyError(
                f"This site has answered all {self.max_queries} queries that its policy allows."
            )

    def _check_order(self, p: float | None) -> None:
        if p is not None and self.orders is not None and p not in self.orders:
            answered = " or ".join(f"{order:g}" for order in self.orders) or "no order"
            raise PolicyError(
                f"Order p = {p:g} was asked for; this site answers p = {answered} only."
            )

    def _check_classes(self, needs: Needs) -> None:
        if needs.class_statistics != "ignored" and not self.classes:
            raise PolicyError("This site's policy does not share the statistics of classes.")
        if needs.label_names and not self.classes:
            raise PolicyError("This site's policy does not share the names of labels.")
        sufficient = ("full",) if needs.class_statistics == "full" else ("full", "lowrank", "diag")
        if needs.class_covariance and self.covariance_type not in sufficient:
            raise PolicyError(
                "This site's policy does not share the covariances by which classes are compared."
            )

    def _check_support(self, needs: Needs) -> None:
        if needs.support == "weighted" and self.uniform_support:
            raise PolicyError("This site transports only to supports of equal weights.")
        if needs.size is None:
            return
        if needs.support != "none" and needs.size < self.min_support:
            raise PolicyError(
                f"A support of {needs.size} points was asked for; this site answers from"
                f" {self.min_support}."
            )
        self.check_size(needs.size)

    def check_size(self, size: int) -> None:
        """Raise PolicyError if a support or a reply of this many points is too large."""
        if self.max_support is not None and size > self.max_support:
            raise PolicyError(
                f"{size} points or cells were asked for; this site answers up to"
                f" {self.max_support}."
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

    def distinct_replies(self, kind: str) -> int | None:
        """How many replies of this kind may differ from each other; None for any number."""
        rule = self.max_distinct_replies
        allowed = rule.get(kind) if isinstance(rule, Mapping) else rule
        if allowed is None and kind == "blocks" and not self.exact_interpolant:
            return 1
        return allowed

    def check_distinct(self, kind: str, digest: str, sent_digests: Collection[str]) -> None:
        """Raise PolicyError unless a reply of this kind and digest may follow those sent before."""
        allowed = self.distinct_replies(kind)
        if allowed is not None and digest not in sent_digests and len(sent_digests) >= allowed:
            raise PolicyError(
                f"This site has sent the {allowed} different replies of this kind that its policy"
                " allows; ask for one of those again."
            )

    def check_cell_size(self, min_cell_size: int) -> None:
        """Raise PolicyError if the smallest cell of a reply, with `min_cell_size` samples, is too
        small."""
        if min_cell_size < self.min_cell_size:
            raise PolicyError(
                f"A cell of this reply holds fewer than the {self.min_cell_size} samples that this"
                " site's policy requires; ask for fewer cells, if the request has a number of them."
            )
