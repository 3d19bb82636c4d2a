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
from fedwad.federation.requests.labels import LabelName, agreed_names
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
    """Clients that can be asked. Algorithms know nothing else of an engine."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all clients."""
        ...

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Send each named client its request, all in one round; return replies or failures."""
        ...


class NamedSites:
    """What federations share: sites by name and, where they are known, features and the schema.

    `features` are the names of the features, and `schema` is what encoded the sites' tables.
    """

    features: tuple[str, ...] | None = None
    schema: Schema | None = None

    @property
    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Site:
        return site(self, name)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Site:
    """One client of a federation as seen from outside: a name, and no data."""

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


class MeteredFederation:
    """A federation that counts what travels and checks what comes back.

    The messages by which the sites agreed on a schema count. `failed` holds each site that was left
    out of a round because it failed, and why. `on_reply` is called with each reply that was
    checked: the site, the request and the reply.
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
        #: Clients of this process cannot lie, so what they disagree on is a mistake of the caller.
        self._trusted = bool(getattr(federation, "in_process", False))
        self.failed: dict[str, str] = {}

    def ask(
        self,
        requests: Mapping[str, Question],
        expected: type[R],
        *,
        allow_failures: bool = False,
        at_least: int = 1,
        record: bool = True,
        blame_sites: bool = False,
    ) -> dict[str, R]:
        """Ask one round and return the `expected` replies.

        The first failure is raised. With `allow_failures` the round goes on without the sites that
        failed, as long as `at_least` have replied; `record` lists those sites in `failed`. A
        failure with code "input" is raised in any case, because then the request itself is wrong;
        with `blame_sites` only where all sites are in this process, because the request suits the
        other sites.
        """
        answers = self._federation.ask(requests)
        replies: dict[str, R] = {}
        failures: dict[str, Failure] = {}
        for name, request in requests.items():
            answer = _expected(request, answers.get(name, _SILENT), expected)
            if isinstance(answer, Failure):
                failures[name] = answer
            else:
                replies[name] = answer
                if self._on_reply is not None:
                    self._on_reply(name, request, answer)
        self.traffic = Traffic(
            up=self.traffic.up + sum(map(payload_bytes, replies.values())),
            down=self.traffic.down + sum(payload_bytes(requests[name]) for name in replies),
            messages=self.traffic.messages + len(replies),
        )
        fatal = self._trusted or not blame_sites
        for name, failure in failures.items():
            wrong = failure.code == "input" and fatal
            if not allow_failures or wrong or len(replies) < at_least:
                raise error_of(failure, name)
            if record:
                self.failed[name] = to_printable(failure.sentence)
        return replies

    def agreeing(
        self,
        replies: Mapping[str, T],
        dimensions: Mapping[str, int],
        class_statistics: ClassStatistics = "ignored",
    ) -> dict[str, T]:
        """The replies of the sites with as many features as most have; the others have failed.

        InputError if no two sites agree, if as many sites have one number as another, and in any
        case of disagreement where all sites are in this process.
        """
        outvoted = () if self._trusted else _outvoted(dimensions)
        if not outvoted:
            check_same_features(dimensions, class_statistics)
        for name in outvoted:
            self.failed[name] = "it has a different number of features than most sites."
        return {name: reply for name, reply in replies.items() if name not in outvoted}

    def label_names(
        self, replies: Mapping[str, T], names: Mapping[str, tuple[LabelName, ...]]
    ) -> tuple[dict[str, T], tuple[LabelName, ...]]:
        """The replies of the sites whose labels are of the type that most have, and all names.

        InputError as in `agreeing`.
        """
        kinds = {name: type(labels[0]).__name__ for name, labels in names.items()}
        outvoted = () if self._trusted else _outvoted(kinds)
        for name in outvoted:
            self.failed[name] = "its labels are of a different type than those of most sites."
        kept = {name: reply for name, reply in replies.items() if name not in outvoted}
        return kept, agreed_names({name: names[name] for name in kept})

    def leave_out(self, name: str, problem: InputError) -> None:
        """Go on without a site whose reply cannot be used, although it is well formed.

        The problem is raised where all sites are in this process, because there it is a mistake
        of the caller.
        """
        if self._trusted:
            raise problem
        self.failed[name] = to_printable(str(problem))


def _outvoted(values: Mapping[str, Hashable]) -> tuple[str, ...]:
    """The sites whose value differs from the one that most have; none if no value leads."""
    (majority, votes), *others = Counter(values.values()).most_common()
    if not others or votes < 2 or others[0][1] == votes:
        return ()
    return tuple(name for name, value in values.items() if value != majority)


def _expected(request: Question, answer: Answer, expected: type[R]) -> R | Failure:
    """The answer if it is an `expected` reply to this request; otherwise a failure that says why
    not."""
    wrong = check_reply(request, answer)
    if wrong is not None:
        return wrong
    if isinstance(answer, Failure | expected):
        return answer
    came = f"a {type(answer).__name__} came where a {expected.__name__} was expected"
    return Failure("invalid_reply", f"{came}; its version may differ from this one.")


def site(federation: Federation, name: str) -> Site:
    """The client of this name; FederationError if there is none."""
    if not isinstance(name, str) or name not in federation.names:
        raise FederationError(
            f"There is no site {format_value(name)}; the sites are {', '.join(federation.names)}."
        )
    return Site(federation, name)


def _listed(clients: Any) -> tuple[str, ...]:
    single = isinstance(clients, str) or not isinstance(clients, Iterable)
    names: tuple[str, ...] = (clients,) if single else tuple(clients)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"The sites are {format_value(clients)}; give a list of their names.")
    return names


def choose_sites(
    federation: Federation, clients: Sequence[str] | None, what: str, least: int = 1
) -> tuple[str, ...]:
    """The names of the sites to ask: all, or those in `clients`.

    InputError if a name is unknown or given twice, or if `what` needs more sites.
    """
    names = federation.names if clients is None else _listed(clients)
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
