"""What algorithms see of an engine: sites to ask, and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fedwad._checks import format_value
from fedwad._words import to_printable
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

Question = Request | Bundle
Answer = Reply | BundleReply | Failure
R = TypeVar("R", bound=Reply | BundleReply)
T = TypeVar("T")

_SILENT = Failure("silent", "no reply came; check that the site is running.")


class Federation(Protocol):
    """Sites that can be asked. Algorithms know nothing else of an engine."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all sites."""
        ...

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Send each named site its request, all in one round; return replies or failures."""
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
    """Bytes of payload that sites sent (`up`) and received (`down`), and the number of replies."""

    up: int = 0
    down: int = 0
    messages: int = 0

    def plus_round(self, requests: Mapping[str, Question], replies: Mapping[str, Any]) -> Traffic:
        """This traffic and that of one more round: the replies, and the requests to their sites."""
        return Traffic(
            up=self.up + sum(map(payload_bytes, replies.values())),
            down=self.down + sum(payload_bytes(requests[name]) for name in replies),
            messages=self.messages + len(replies),
        )


class MeteredFederation:
    """A federation that counts what travels and checks what comes back.

    `traffic` begins with the messages by which the sites agreed on a schema. `failed` holds the
    sites that were left out, and why. `on_reply(site, request, reply)` is called after the check of
    each reply.
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
        #: Whether all sites are in this process. They cannot lie, so what they disagree on is a
        #: mistake of the caller.
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
        """Ask one round and return the replies, which must be of the type `expected`.

        The first failure is raised. With `allow_failures` the round goes on without the sites that
        failed, as long as `at_least` sites replied; `record_failures` adds the others to `failed`.

        A failure with code "input" says that the request is wrong, so it is raised even with
        `allow_failures`. With `blame_sites` it counts as a fault of the site, like any other
        failure, unless all sites are in this process.
        """
        answers = self._federation.ask(requests)
        replies: dict[str, R] = {}
        failures: dict[str, Failure] = {}
        for name, request in requests.items():
            answer = _check_type(request, answers.get(name, _SILENT), expected)
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

    def keep_majority(
        self,
        replies: Mapping[str, T],
        dimensions: Mapping[str, int],
        class_statistics: ClassStatistics = "ignored",
    ) -> dict[str, T]:
        """The replies of the sites with as many features as most have; the others go to `failed`.

        InputError if two numbers tie for the most frequent one, and at any disagreement of sites
        that are all in this process.
        """
        outvoted = () if self._in_process else _outvoted(dimensions)
        if not outvoted:
            check_same_features(dimensions, class_statistics)
        for name in outvoted:
            self.failed[name] = "it has a different number of features than most sites."
        return {name: reply for name, reply in replies.items() if name not in outvoted}

    def keep_majority_labels(
        self, replies: Mapping[str, T], names: Mapping[str, tuple[LabelName, ...]]
    ) -> tuple[dict[str, T], tuple[LabelName, ...]]:
        """The replies of the sites whose labels are of the type that most have; the others go to
        `failed`. Also the names of all labels of the sites that stay.

        InputError as in `keep_majority`.
        """
        types = {name: type(labels[0]).__name__ for name, labels in names.items()}
        outvoted = () if self._in_process else _outvoted(types)
        for name in outvoted:
            self.failed[name] = "its labels are of a different type than those of most sites."
        staying = {name: reply for name, reply in replies.items() if name not in outvoted}
        return staying, all_label_names({name: names[name] for name in staying})

    def leave_out(self, name: str, problem: InputError) -> None:
        """Add a site to `failed`, because its reply is well formed but cannot be used.

        The problem is raised where all sites are in this process, because there it is a mistake
        of the caller.
        """
        if self._in_process:
            raise problem
        self.failed[name] = to_printable(str(problem))


def _outvoted(values: Mapping[str, Hashable]) -> tuple[str, ...]:
    """The sites whose value differs from the most frequent one; none if two values tie for it."""
    (majority, votes), *others = Counter(values.values()).most_common()
    if not others or others[0][1] == votes:
        return ()
    return tuple(name for name, value in values.items() if value != majority)


def _check_type(request: Question, answer: Answer, expected: type[R]) -> R | Failure:
    """The answer if it is a valid reply of the type `expected`, or a failure; otherwise a failure
    that says why it cannot be used."""
    failure = check_reply(request, answer)
    if failure is not None:
        return failure
    if isinstance(answer, Failure | expected):
        return answer
    return Failure(
        "invalid_reply",
        f"a {type(answer).__name__} came where a {expected.__name__} was expected; its version may"
        " differ from this one.",
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
        came = f"{len(names)} site{'' if len(names) == 1 else 's'} came"
        raise InputError(f"{came}; {what} needs at least {('one', 'two')[least - 1]}.")
    return names
