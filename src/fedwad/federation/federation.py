"""What algorithms see of sites: names to ask, and answers."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fedwad._checks import format_value
from fedwad._words import pluralize, to_printable
from fedwad.errors import FederationError, InputError
from fedwad.messages.codec import check_reply, payload_bytes
from fedwad.messages.columns import ColumnsReply
from fedwad.messages.learning import all_label_names
from fedwad.messages.message import (
    Bundle,
    BundleReply,
    ClassStatistics,
    Failure,
    LabelName,
    Reply,
    Request,
    error_of,
)
from fedwad.tables import Schema
from fedwad.transport import Floats

#: What one message asks of a site: one request, or several in a bundle.
Question = Request | Bundle
#: What came back: a reply, one reply or failure for each request of a bundle, or a failure.
Answer = Reply | BundleReply | Failure
R = TypeVar("R", bound=Reply | BundleReply)
T = TypeVar("T")

_log = logging.getLogger("fedwad.federation")
_SILENT = Failure("silent", "no reply came; check that the site is running.")


class Federation(Protocol):
    """Sites that can be asked, in this process or through an engine.

    Algorithms know nothing else of them.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all sites."""
        ...

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Send each named site its request, all in one round; return replies or failures.

        A site that did not answer may be missing from what is returned.
        """
        ...


class Known:
    """What is known of the sites of a federation beside their names.

    `features` are the names of the features and `schema` is the schema of the sites' tables, None
    where the server does not know them. `takers` are the sites to which questions bring this
    schema, because they hold tables; `schema_bytes` is its size. `in_process` says whether all
    sites are in this process. Such sites cannot lie, so the caller made a mistake if they disagree.
    `failed` maps sites that are left out to the reason. `units` are those of block means that are
    kept of earlier sites.
    """

    features: tuple[str, ...] | None = None
    schema: Schema | None = None
    schema_bytes: int = 0
    takers: frozenset[str] = frozenset()
    in_process: bool = False
    failed: Mapping[str, str] = {}
    units: tuple[Floats, Floats] | None = None


def known_of(federation: Federation) -> dict[str, Any]:
    """What is known of the sites of a federation; one of a user's own may have `names` and `ask`
    alone."""
    names = Known.__annotations__
    return {name: getattr(federation, name, getattr(Known, name)) for name in names}


class NamedSites(Known, Federation):
    """Base class of federations, with access to a site by its name."""

    def __getitem__(self, name: str) -> Site:
        """The site of this name; FederationError if there is none."""
        if not isinstance(name, str) or name not in self.names:
            raise FederationError(
                f"There is no site {format_value(name)}; the sites are {', '.join(self.names)}.",
                "unknown-site",
            )
        return Site(self, name)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)


@dataclass(frozen=True)
class Site:
    """One site of a federation as the server sees it: a name, and no data."""

    federation: Federation
    name: str

    def __repr__(self) -> str:
        return f"Site({self.name!r})"


@dataclass(frozen=True)
class Traffic:
    """What travelled between the server and the sites.

    Only requests with a valid reply are counted, and their replies; failures are not.

    Attributes
    ----------
    up, down : bytes of payload that sites sent and received
    messages : number of replies; the replies to a bundle count as one
    """

    up: int = 0
    down: int = 0
    messages: int = 0

    def plus_round(
        self, requests: Mapping[str, Question], replies: Mapping[str, Any], schema_bytes: int = 0
    ) -> Traffic:
        """This traffic and that of one more round: `replies`, and the requests that they answer.

        `schema_bytes` is the size of the schema that goes with each request.
        """
        sent = (
            payload_bytes(one) + (schema_bytes if getattr(one, "needs_encoding", True) else 0)
            for one in (requests[name] for name in replies)
        )
        return Traffic(
            up=self.up + sum(map(payload_bytes, replies.values())),
            down=self.down + sum(sent),
            messages=self.messages + len(replies),
        )


class MeteredFederation(Known):
    """Asks a federation, counts what travels and checks what comes back.

    It is not a Federation itself: its `ask` raises failures or leaves sites out. `traffic` begins
    with the messages by which the sites agreed on a schema. `on_reply(site, request, reply)` is
    called for each reply that is valid.
    """

    def __init__(
        self,
        federation: Federation,
        on_reply: Callable[[str, Question, Answer], None] | None = None,
    ) -> None:
        self._federation = federation
        self._on_reply = on_reply
        vars(self).update(known_of(federation))
        self.failed: dict[str, str] = dict(self.failed)
        self.traffic = Traffic() if self.schema is None else Traffic(*self.schema.traffic)
        self.names = federation.names
        #: What sites sent about their columns in this run.
        self.columns: dict[str, ColumnsReply] = {}

    def schema_of(self, name: str) -> Schema | None:
        """The schema that questions bring to this site; None if its data are encoded already."""
        return self.schema if name in self.takers else None

    def ask(
        self,
        requests: Mapping[str, Question],
        expected: type[R],
        *,
        allow_failures: bool = False,
        at_least: int = 1,
        record_failures: bool = True,
        blame_sites: bool = False,
    ) -> dict[str, R]:
        """Ask the sites in one round and return the replies, which must be of the type `expected`.

        The first failure is raised. With `allow_failures` the sites that failed are left out, as
        long as `at_least` sites replied; `record_failures` adds those that failed to `failed`.

        A failure with code "input" says that the request is wrong, so it is raised even with
        `allow_failures`. With `blame_sites` it counts as a fault of the site, like any other
        failure, unless all sites are in this process.
        """
        _log.info("asking %d sites for a %s", len(requests), expected.__name__)
        answers = self._federation.ask(requests)
        replies: dict[str, R] = {}
        failures: dict[str, Failure] = {}
        for name, request in requests.items():
            answer = answers.get(name, _SILENT)
            failure = check_reply(request, answer)
            if failure is None and isinstance(answer, expected):
                replies[name] = answer
                if self._on_reply is not None:
                    self._on_reply(name, request, answer)
            elif isinstance(answer, Failure):
                failures[name] = failure or answer
            else:
                failures[name] = failure or Failure(
                    "invalid_reply",
                    f"a {type(answer).__name__} came where a {expected.__name__} was expected; the"
                    " site may run another version of fedwad.",
                )
        self.traffic = self.traffic.plus_round(requests, replies, self.schema_bytes)
        blame_request = self.in_process or not blame_sites
        for name, failure in failures.items():
            wrong_request = failure.code == "input" and blame_request
            if not allow_failures or wrong_request or len(replies) < at_least:
                raise error_of(failure, name)
            if record_failures:
                self.failed[name] = to_printable(failure.sentence)
        return replies

    def keep_most_frequent_dimension(
        self, replies: Mapping[str, T], dimensions: Mapping[str, int]
    ) -> dict[str, T]:
        """The replies of the sites that have the most frequent of `dimensions`.

        The other sites go to `failed`. InputError if two dimensions tie for the most frequent one,
        or if sites disagree that are all in this process.
        """
        deviating = self._leave_out_deviating(dimensions, "its number of features")
        if not deviating:
            check_same_features(dimensions)
        return {name: reply for name, reply in replies.items() if name not in deviating}

    def keep_most_frequent_label_type(
        self, replies: Mapping[str, T], names: Mapping[str, tuple[LabelName, ...]]
    ) -> tuple[dict[str, T], tuple[LabelName, ...]]:
        """The replies of the sites whose labels have the most frequent type, and all their labels.

        `names` has the names of the labels of each site. The other sites go to `failed`. InputError
        as in `keep_most_frequent_dimension`.
        """
        types = {name: type(labels[0]).__name__ for name, labels in names.items()}
        deviating = self._leave_out_deviating(types, "the type of its labels")
        staying = {name: reply for name, reply in replies.items() if name not in deviating}
        return staying, all_label_names({name: names[name] for name in staying})

    def _leave_out_deviating(self, values: Mapping[str, Hashable], what: str) -> Sequence[str]:
        """Add the sites whose value differs from the most frequent one to `failed`, and return
        them; none if two values tie for it, or if sites in this process disagree."""
        (most_frequent, count), *others = Counter(values.values()).most_common()
        if self.in_process or not others or others[0][1] == count:
            return ()
        deviating = [name for name, value in values.items() if value != most_frequent]
        self.failed |= dict.fromkeys(deviating, f"{what} is not the most frequent one.")
        return deviating

    def leave_out(self, name: str, problem: InputError) -> None:
        """Add a site to `failed`, because its reply is well formed but cannot be used.

        The problem is raised where all sites are in this process, because there it is a mistake
        of the caller.
        """
        if self.in_process:
            raise problem
        self.failed[name] = to_printable(str(problem))


def choose_sites(
    federation: Federation, clients: Sequence[str] | None, what: str, least: int = 1
) -> tuple[str, ...]:
    """The names of the sites to ask: all, or those in `clients`.

    InputError if a name is unknown or given twice, or if there are fewer than `least` sites (1 or
    2). The message says `what` the sites are for, such as "a matrix".
    """
    given: Any = federation.names if clients is None else clients
    single = isinstance(given, str) or not isinstance(given, Iterable)
    names: tuple[str, ...] = (given,) if single else tuple(given)
    if not all(isinstance(name, str) for name in names):
        raise InputError(
            f"The sites are {format_value(given)}; give a list of their names.", "bad-option"
        )
    unknown = [name for name in names if name not in federation.names]
    if unknown:
        raise InputError(
            f"There is no site '{unknown[0]}'; the sites are {', '.join(federation.names)}.",
            "unknown-site",
        )
    if len(set(names)) < len(names):
        raise InputError("A site is named twice; name each once.", "repeated-site")
    if len(names) < least:
        minimum = "one" if least == 1 else "two"
        raise InputError(
            f"{pluralize(len(names), 'site')} given; {what} needs at least {minimum}.",
            "too-few-sites",
        )
    return names


def check_same_features(dimensions: Mapping[str, int]) -> int:
    """Return the number of features of all sites' samples; InputError if sites differ."""
    first, expected = next(iter(dimensions.items()))
    for name, dimension in dimensions.items():
        if dimension != expected:
            raise InputError(
                f"{first} has {expected} features and {name} has {dimension}; all sites need the"
                " same features.",
                "different-columns",
            )
    return expected


def feature_count(dimension: int, class_statistics: ClassStatistics) -> int:
    """Return the number of features d of samples with `dimension` coordinates.

    There are d coordinates if class statistics are "ignored", 3 d with "diag" and 2 d + d^2 with
    "full".
    """
    if class_statistics == "ignored":
        return dimension
    return dimension // 3 if class_statistics == "diag" else math.isqrt(dimension + 1) - 1
