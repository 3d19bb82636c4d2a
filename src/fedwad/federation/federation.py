"""What algorithms see of sites: names to ask, and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fedwad._checks import format_value
from fedwad._words import pluralize, to_printable
from fedwad.errors import FederationError, InputError
from fedwad.federation.agreement import check_same_features
from fedwad.federation.bundle import Bundle, BundleReply
from fedwad.federation.failures import Failure, error_of
from fedwad.federation.message import Reply, Request
from fedwad.federation.needs import ClassStatistics
from fedwad.federation.replies import check_reply, payload_bytes
from fedwad.federation.requests.labels import LabelName, all_label_names
from fedwad.tables import Schema

__all__ = [
    "Answer",
    "Federation",
    "MeteredFederation",
    "Question",
    "Site",
    "Traffic",
    "choose_sites",
]

#: What one message asks of a site: one request, or several in a bundle.
Question = Request | Bundle
#: What came back: a reply, one reply or failure for each request of a bundle, or a failure.
Answer = Reply | BundleReply | Failure
R = TypeVar("R", bound=Reply | BundleReply)
T = TypeVar("T")

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


class NamedSites:
    """Base class of federations, with access to a site by its name.

    `features` are the names of the features and `schema` is the schema of the sites' tables, None
    where the server does not know them.
    """

    features: tuple[str, ...] | None = None
    schema: Schema | None = None

    @property
    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Site:
        """The site of this name; FederationError if there is none."""
        if not isinstance(name, str) or name not in self.names:
            raise FederationError(
                f"There is no site {format_value(name)}; the sites are {', '.join(self.names)}."
            )
        return Site(self, name)

    def __len__(self) -> int:
        return len(self.names)


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

    def plus_round(self, requests: Mapping[str, Question], replies: Mapping[str, Any]) -> Traffic:
        """This traffic and that of one more round: `replies`, and the requests that they answer."""
        return Traffic(
            up=self.up + sum(map(payload_bytes, replies.values())),
            down=self.down + sum(payload_bytes(requests[name]) for name in replies),
            messages=self.messages + len(replies),
        )


class MeteredFederation:
    """Asks a federation, counts what travels and checks what comes back.

    It is not a Federation itself: its `ask` raises failures or leaves sites out. `traffic` begins
    with the messages by which the sites agreed on a schema. `failed` maps each site that was left
    out to the reason. `on_reply(site, request, reply)` is called for each reply that is valid.
    """

    def __init__(
        self,
        federation: Federation,
        on_reply: Callable[[str, Question, Answer], None] | None = None,
    ) -> None:
        self._federation = federation
        self._on_reply = on_reply
        self.features: tuple[str, ...] | None = getattr(federation, "features", None)
        self.schema: Schema | None = getattr(federation, "schema", None)
        self.traffic = Traffic() if self.schema is None else Traffic(*self.schema.traffic)
        #: Whether all sites are in this process. Such sites cannot lie, so the caller made a
        #: mistake if they disagree.
        self._in_process = bool(getattr(federation, "in_process", False))
        self.failed: dict[str, str] = {}

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
        answers = self._federation.ask(requests)
        replies: dict[str, R] = {}
        failures: dict[str, Failure] = {}
        for name, request in requests.items():
            answer = _check_answer(request, answers.get(name, _SILENT), expected)
            if isinstance(answer, Failure):
                failures[name] = answer
            else:
                replies[name] = answer
                if self._on_reply is not None:
                    self._on_reply(name, request, answer)
        self.traffic = self.traffic.plus_round(requests, replies)
        blame_request = self._in_process or not blame_sites
        for name, failure in failures.items():
            wrong_request = failure.code == "input" and blame_request
            if not allow_failures or wrong_request or len(replies) < at_least:
                raise error_of(failure, name)
            if record_failures:
                self.failed[name] = to_printable(failure.sentence)
        return replies

    def keep_most_frequent_dimension(
        self,
        replies: Mapping[str, T],
        dimensions: Mapping[str, int],
        class_statistics: ClassStatistics = "ignored",
    ) -> dict[str, T]:
        """The replies of the sites that have the most frequent of `dimensions`.

        The other sites go to `failed`. InputError if two dimensions tie for the most frequent one,
        or if sites disagree that are all in this process. `dimensions` are those of samples with
        these `class_statistics` appended, which the error does not count as features.
        """
        deviating = () if self._in_process else _deviating_sites(dimensions)
        if not deviating:
            check_same_features(dimensions, class_statistics)
        for name in deviating:
            self.failed[name] = "its number of features is not the most frequent one."
        return {name: reply for name, reply in replies.items() if name not in deviating}

    def keep_most_frequent_label_type(
        self, replies: Mapping[str, T], names: Mapping[str, tuple[LabelName, ...]]
    ) -> tuple[dict[str, T], tuple[LabelName, ...]]:
        """The replies of the sites whose labels have the most frequent type, and all their labels.

        `names` has the names of the labels of each site. The other sites go to `failed`. InputError
        as in `keep_most_frequent_dimension`.
        """
        types = {name: type(labels[0]).__name__ for name, labels in names.items()}
        deviating = () if self._in_process else _deviating_sites(types)
        for name in deviating:
            self.failed[name] = "the type of its labels is not the most frequent one."
        staying = {name: reply for name, reply in replies.items() if name not in deviating}
        return staying, all_label_names({name: names[name] for name in staying})

    def leave_out(self, name: str, problem: InputError) -> None:
        """Add a site to `failed`, because its reply is well formed but cannot be used.

        The problem is raised where all sites are in this process, because there it is a mistake
        of the caller.
        """
        if self._in_process:
            raise problem
        self.failed[name] = to_printable(str(problem))


def _deviating_sites(values: Mapping[str, Hashable]) -> tuple[str, ...]:
    """The sites whose value differs from the most frequent one; none if two values tie for it."""
    (most_frequent, count), *others = Counter(values.values()).most_common()
    if not others or others[0][1] == count:
        return ()
    return tuple(name for name, value in values.items() if value != most_frequent)


def _check_answer(request: Question, answer: Answer, expected: type[R]) -> R | Failure:
    """The answer if it is a failure, or a reply of the type `expected` with valid values.

    For any other answer, a failure that says why it cannot be used.
    """
    failure = check_reply(request, answer)
    if failure is not None:
        return failure
    if isinstance(answer, Failure | expected):
        return answer
    return Failure(
        "invalid_reply",
        f"a {type(answer).__name__} came where a {expected.__name__} was expected; the site may run"
        " another version of fedwad.",
    )


def _as_names(clients: Any) -> tuple[str, ...]:
    single = isinstance(clients, str) or not isinstance(clients, Iterable)
    names: tuple[str, ...] = (clients,) if single else tuple(clients)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"The sites are {format_value(clients)}; give a list of their names.")
    return names


def choose_sites(
    federation: Federation, clients: Sequence[str] | None, what: str, least: int = 1
) -> tuple[str, ...]:
    """The names of the sites to ask: all, or those in `clients`.

    InputError if a name is unknown or given twice, or if there are fewer than `least` sites (1 or
    2). The message says `what` the sites are for, such as "a matrix".
    """
    names = federation.names if clients is None else _as_names(clients)
    unknown = [name for name in names if name not in federation.names]
    if unknown:
        raise InputError(
            f"There is no site '{unknown[0]}'; the sites are {', '.join(federation.names)}."
        )
    if len(set(names)) < len(names):
        raise InputError("A site is named twice; name each once.")
    if len(names) < least:
        minimum = "one" if least == 1 else "two"
        raise InputError(f"{pluralize(len(names), 'site')} given; {what} needs at least {minimum}.")
    return names
