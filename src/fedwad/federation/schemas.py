"""Sites agree on a schema: one message from each, and the schema to each."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedwad.errors import DataWarning, FedwadError, InputError
from fedwad.federation.bundle import MAX_BUNDLE, Bundle, BundleReply
from fedwad.federation.failures import Failure
from fedwad.federation.federation import Answer, Federation, MeteredFederation, NamedSites, Question
from fedwad.federation.replies import check_reply, payload_bytes
from fedwad.federation.requests.describe import WANTED, DescribeRequest, Description, digest_of
from fedwad.federation.requests.private_schema import PrivateSchemaReply, PrivateSchemaRequest
from fedwad.federation.requests.schema import (
    AdoptSchemaReply,
    AdoptSchemaRequest,
    ProfileReply,
    ProfileRequest,
)
from fedwad.privacy import DP, check_budget, check_draft, schema_from_sums
from fedwad.tables import Schema, agree

__all__ = [
    "AgreedFederation",
    "agreed_schema",
    "completed_guarantee",
    "hand_out",
    "prepare",
    "private_schema",
    "warn_conflicts",
    "with_schema",
]


def agreed_schema(federation: Federation, names: Sequence[str] | None = None) -> Schema:
    """The schema that the named sites agree on, all of them by default; no site receives it yet."""
    schema = _agree(federation, names)
    # The schema goes to each site together with its next request.
    up, down = (
        payload_bytes(AdoptSchemaReply(1)),
        payload_bytes(AdoptSchemaRequest(schema.to_toml())),
    )
    used_up, used_down, messages = schema.traffic
    count = len(federation.names if names is None else names)
    return replace(schema, traffic=(used_up + count * up, used_down + count * down, messages))


def _agree(federation: Federation, names: Sequence[str] | None = None) -> Schema:
    """The schema that the sites agree on; its traffic is that of the profiles alone."""
    asked = federation.names if names is None else tuple(names)
    metered = MeteredFederation(federation)
    replies = metered.ask({name: ProfileRequest() for name in asked}, ProfileReply)
    schema = agree({name: reply.profile for name, reply in replies.items()})
    used = metered.traffic
    return replace(schema, traffic=(used.up, used.down, used.messages))


def private_schema(
    federation: Federation,
    draft: Schema,
    epsilon: float,
    delta: float = 1e-5,
    names: Sequence[str] | None = None,
) -> Schema:
    """The schema from one private release of each named site, which encodes its table by the draft.

    It may be used like a public one: what it says about the rows is paid for.
    """
    check_draft(draft)
    check_budget(epsilon, delta)
    asked = federation.names if names is None else tuple(names)
    request = PrivateSchemaRequest(float(epsilon), float(delta), draft.to_toml())
    metered = MeteredFederation(federation)
    replies = metered.ask(dict.fromkeys(asked, request), PrivateSchemaReply)
    releases, used = [replies[name] for name in asked], metered.traffic
    schema = schema_from_sums(
        draft,
        [one.count for one in releases],
        [one.sums for one in releases],
        [one.noise for one in releases],
    )
    return replace(schema, traffic=(used.up, used.down, used.messages))


def hand_out(federation: Federation, names: Sequence[str], schema: Schema) -> None:
    """Each of these sites encodes its table by this schema from now on."""
    request = AdoptSchemaRequest(schema.to_toml())
    MeteredFederation(federation).ask(dict.fromkeys(names, request), AdoptSchemaReply)


class AgreedFederation(NamedSites):
    """A federation whose sites have agreed on a schema, which each gets with its first request."""

    schema: Schema

    def __init__(self, federation: Federation, schema: Schema, waiting: Iterable[str]) -> None:
        self._federation, self.schema, self.features = federation, schema, schema.feature_names
        self._request, self._waiting = AdoptSchemaRequest(schema.to_toml()), set(waiting)

    @property
    def names(self) -> tuple[str, ...]:
        return self._federation.names

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Ask the sites; those that have not got the schema yet take it first, in one bundle with
        the request unless that is full already."""
        full = {n for n in self._waiting & set(requests) if _length(requests[n]) >= MAX_BUNDLE}
        failed = self._hand_over(full)
        wanted = {name: r for name, r in requests.items() if name not in failed}
        asked = {n: self._with_schema(r) if n in self._waiting else r for n, r in wanted.items()}
        answers = self._federation.ask(asked) if asked else {}
        first = {n: a for n, a in answers.items() if n in self._waiting}
        return (
            answers
            | failed
            | {n: self._after_schema(n, asked[n], requests[n], first[n]) for n in first}
        )

    def _hand_over(self, names: Iterable[str]) -> dict[str, Answer]:
        """Send the schema alone; return the answers of the sites that do not take it."""
        asked = dict.fromkeys(sorted(names), self._request)
        answers = self._federation.ask(asked) if asked else {}
        taken = {n for n in asked if isinstance(answers.get(n), AdoptSchemaReply)}
        self._waiting -= taken
        return {name: answer for name, answer in answers.items() if name not in taken}

    def _with_schema(self, request: Question) -> Bundle:
        rest = request.requests if isinstance(request, Bundle) else (request,)
        return Bundle((self._request, *rest))

    def _after_schema(
        self, name: str, asked: Question, request: Question, answer: Answer
    ) -> Answer:
        """The answer to the request in a bundle that began with the schema."""
        wrong = check_reply(asked, answer)
        if wrong is not None or not isinstance(answer, BundleReply):
            return wrong or answer
        taken, *rest = answer.replies
        if isinstance(taken, Failure):
            return taken
        self._waiting.discard(name)
        return BundleReply(tuple(rest)) if isinstance(request, Bundle) else rest[0]


def _length(request: Question) -> int:
    return len(request.requests) if isinstance(request, Bundle) else 1


def prepare(federation: Federation, names: Sequence[str] | None = None) -> Federation:
    """Let sites agree on a schema if some of the named ones hold a table and have none yet.

    All sites of the federation that have no encoding of their own take part, so that the next run,
    with different sites, finds the schema that it needs. Returns the same federation if there was
    nothing to agree on, otherwise one that knows the schema and hands it out where it is missing.
    """
    asked = federation.names if names is None else tuple(names)
    descriptions = _described(federation, asked)
    if not _disagree(descriptions):
        return _with_taken_schema(federation, descriptions)
    taking = _that_take(descriptions)
    for name in descriptions:
        if name not in taking:
            raise InputError(
                f"{taking[0]} waits for a schema that all sites agree on, and {name} has its own or"
                " holds numbers; give both the same schema file."
            )
    others = [name for name in federation.names if name not in asked]
    taking += _that_take(_described(federation, others) if others else {})
    return AgreedFederation(federation, agreed_schema(federation, taking), taking)


def with_schema(federation: Federation, schema: Schema, name: str) -> Federation:
    """A federation that hands out a schema to one site, if its table waits for one."""
    descriptions = _described(federation, [name])
    waits = name in descriptions and descriptions[name].schema
    return AgreedFederation(federation, schema, [name]) if waits else federation


def _with_taken_schema(federation: Federation, descriptions: dict[str, Description]) -> Federation:
    """A federation that knows the schema which all these sites took in an earlier run.

    They send the profiles that led to it again, which counts as a repeat. Returns the same
    federation if they have encodings of their own, or if other sites led to that schema.
    """
    taken = {description.schema for description in descriptions.values()}
    if len(taken) != 1 or "" in taken:
        return federation
    try:
        schema = _agree(federation)
    except FedwadError:
        return federation
    return AgreedFederation(federation, schema, ()) if digest_of(schema) in taken else federation


def _that_take(descriptions: Mapping[str, Description]) -> list[str]:
    """The sites whose table is encoded by a schema that sites agree on."""
    return [name for name, description in descriptions.items() if description.schema]


def _described(federation: Federation, names: Sequence[str]) -> dict[str, Description]:
    """The descriptions of the sites that answer; the others fail in the run that follows."""
    answers = federation.ask({name: DescribeRequest() for name in names})
    return {
        name: answer
        for name, answer in answers.items()
        if isinstance(answer, Description) and check_reply(DescribeRequest(), answer) is None
    }


def _disagree(descriptions: dict[str, Description]) -> bool:
    """Whether a table waits for a schema, or sites have taken different ones."""
    schemas = {description.schema for description in descriptions.values()} - {""}
    return WANTED in schemas or len(schemas) > 1


def warn_conflicts(schema: Schema, stacklevel: int = 3) -> None:
    """A warning for each conflict."""
    for conflict in schema.conflicts:
        warnings.warn(conflict.sentence, DataWarning, stacklevel=stacklevel)


def completed_guarantee(federation: Federation, guarantee: DP) -> DP:
    """The guarantee with the clip norm and the centre of the sites' schema where it has none.

    InputError if the sites agreed on that schema: its means and levels come from the data and have
    no noise, so no private release that builds on them keeps a guarantee.
    """
    schema: Schema | None = getattr(federation, "schema", None)
    if schema is not None and not schema.public:
        raise InputError(
            "The sites agreed on a schema from their data, which is not private; give a schema file"
            " made from public knowledge (schema), or schema none for numbers of a known scale."
        )
    return guarantee.completed(schema)
