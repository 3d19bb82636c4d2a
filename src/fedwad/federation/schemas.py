"""Sites agree on a schema: each sends the profile of its table, and gets the schema."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace

from fedwad.errors import DataWarning, FedwadError, InputError
from fedwad.federation.bundle import MAX_BUNDLE, Bundle, BundleReply
from fedwad.federation.failures import Failure
from fedwad.federation.federation import (
    Answer,
    Federation,
    MeteredFederation,
    NamedSites,
    Question,
    Traffic,
)
from fedwad.federation.message import Request
from fedwad.federation.replies import check_reply, payload_bytes
from fedwad.federation.requests.describe import WANTED, DescribeRequest, Description, schema_digest
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
    "ensure_schema",
    "fill_clipping",
    "private_schema",
    "send_schema",
    "warn_conflicts",
    "with_schema",
]


def agreed_schema(federation: Federation, names: Sequence[str] | None = None) -> Schema:
    """The schema that the named sites agree on, all of them by default; no site receives it yet.

    Its traffic includes that of handing it out, which needs no message of its own, because the
    schema goes to each site together with its next request.
    """
    schema = _agree(federation, names)
    up, down, messages = schema.traffic
    count = len(federation.names if names is None else names)
    up += count * payload_bytes(AdoptSchemaReply(1))
    down += count * payload_bytes(AdoptSchemaRequest(schema.to_toml()))
    return replace(schema, traffic=(up, down, messages))


def _agree(federation: Federation, names: Sequence[str] | None = None) -> Schema:
    """The schema that the sites agree on; its traffic is that of the profiles alone."""
    names = federation.names if names is None else names
    metered = MeteredFederation(federation)
    metered.traffic = Traffic()  # without that of a schema which the federation has already
    replies = metered.ask({name: ProfileRequest() for name in names}, ProfileReply)
    schema = agree({name: reply.profile for name, reply in replies.items()})
    return replace(schema, traffic=astuple(metered.traffic))


def private_schema(
    federation: Federation,
    draft: Schema,
    epsilon: float,
    delta: float = 1e-5,
    names: Sequence[str] | None = None,
) -> Schema:
    """The schema from one private release of each named site, all of them by default.

    The sites must encode their tables by the draft. The schema may be used like a public one: the
    budget has paid for what it says about the rows.
    """
    check_draft(draft)
    check_budget(epsilon, delta)
    names = federation.names if names is None else names
    request = PrivateSchemaRequest(float(epsilon), float(delta), draft.to_toml())
    metered = MeteredFederation(federation)
    metered.traffic = Traffic()  # without that of a schema which the federation has already
    replies = metered.ask(dict.fromkeys(names, request), PrivateSchemaReply)
    releases = [replies[name] for name in names]
    schema = schema_from_sums(
        draft,
        [one.count for one in releases],
        [one.sums for one in releases],
        [one.noise for one in releases],
    )
    return replace(schema, traffic=astuple(metered.traffic))


def send_schema(federation: Federation, schema: Schema) -> None:
    """Let all sites encode their tables by this schema from now on."""
    request = AdoptSchemaRequest(schema.to_toml())
    MeteredFederation(federation).ask(dict.fromkeys(federation.names, request), AdoptSchemaReply)


class AgreedFederation(NamedSites):
    """A federation whose sites have agreed on a schema.

    The sites in `waiting` do not have it yet; each gets it with its first request.
    """

    schema: Schema

    def __init__(self, federation: Federation, schema: Schema, waiting: Iterable[str]) -> None:
        self._federation, self.schema, self.features = federation, schema, schema.feature_names
        self.in_process = bool(getattr(federation, "in_process", False))
        self._adopt, self._waiting = AdoptSchemaRequest(schema.to_toml()), set(waiting)

    @property
    def names(self) -> tuple[str, ...]:
        return self._federation.names

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Ask the sites. A waiting site gets the schema in one bundle with its request, or in a
        round before if the request is a full bundle already."""
        waiting = self._waiting & set(requests)
        full = {name for name in waiting if len(_single_requests(requests[name])) >= MAX_BUNDLE}
        failed = self._send_schema(full)
        without_schema = full & self._waiting  # they refused it, or did not answer
        sent = {name: request for name, request in requests.items() if name not in without_schema}
        for name in self._waiting & set(sent):
            sent[name] = Bundle((self._adopt, *_single_requests(sent[name])))
        answers = self._federation.ask(sent) if sent else {}
        for name in self._waiting & set(answers):
            answers[name] = self._after_schema(name, sent[name], requests[name], answers[name])
        return answers | failed

    def _send_schema(self, names: Iterable[str]) -> dict[str, Answer]:
        """Send the schema alone; return the answers of the sites that do not take it."""
        requests = dict.fromkeys(sorted(names), self._adopt)
        answers = self._federation.ask(requests) if requests else {}
        takers = {name for name in requests if isinstance(answers.get(name), AdoptSchemaReply)}
        self._waiting -= takers
        return {name: answer for name, answer in answers.items() if name not in takers}

    def _after_schema(
        self, name: str, bundle: Question, request: Question, answer: Answer
    ) -> Answer:
        """The answer to `request`, which `bundle` sent after the schema."""
        failure = check_reply(bundle, answer)
        if failure is not None or not isinstance(answer, BundleReply):
            return failure or answer
        adopted, *rest = answer.replies
        if isinstance(adopted, Failure):
            return adopted
        self._waiting.discard(name)
        return BundleReply(tuple(rest)) if isinstance(request, Bundle) else rest[0]


def _single_requests(request: Question) -> tuple[Request, ...]:
    return request.requests if isinstance(request, Bundle) else (request,)


def ensure_schema(federation: Federation, names: Sequence[str] | None = None) -> Federation:
    """Let sites agree on a schema if one of the named sites holds a table without one, or if they
    have different ones.

    All sites of the federation that take an agreed schema take part, named or not, so that the next
    run, with different sites, finds the schema that it needs. Returns a federation that knows the
    schema and sends it to the sites, or the same federation if no site takes an agreed schema.
    """
    names = federation.names if names is None else tuple(names)
    descriptions = _ask_descriptions(federation, names)
    if not _must_agree(descriptions):
        return _with_taken_schema(federation, descriptions)
    takers = _schema_takers(descriptions)
    for name in descriptions:
        if name not in takers:
            raise InputError(
                f"{takers[0]} takes the schema that sites agree on, and {name} has its own or holds"
                " numbers; give both the same schema file."
            )
    others = [name for name in federation.names if name not in names]
    takers += _schema_takers(_ask_descriptions(federation, others) if others else {})
    return AgreedFederation(federation, agreed_schema(federation, takers), takers)


def with_schema(federation: Federation, schema: Schema, name: str) -> Federation:
    """A federation that sends this schema to one site, if its table takes an agreed schema."""
    takes = _schema_takers(_ask_descriptions(federation, [name]))
    return AgreedFederation(federation, schema, takes) if takes else federation


def _with_taken_schema(federation: Federation, descriptions: dict[str, Description]) -> Federation:
    """A federation that knows the schema which all these sites took in an earlier run.

    All sites of the federation send their profiles again, which is no query if they are unchanged.
    Returns the same federation if the described sites have encodings of their own, or if the
    profiles lead to a different schema.
    """
    digests = {description.schema for description in descriptions.values()}
    if len(digests) != 1 or "" in digests:
        return federation
    try:
        schema = _agree(federation)
    except FedwadError:
        return federation
    same = schema_digest(schema) in digests
    return AgreedFederation(federation, schema, ()) if same else federation


def _schema_takers(descriptions: Mapping[str, Description]) -> list[str]:
    """The sites whose table is, or will be, encoded by a schema that sites agree on."""
    return [name for name, description in descriptions.items() if description.schema]


def _ask_descriptions(federation: Federation, names: Sequence[str]) -> dict[str, Description]:
    """The descriptions of the sites that answer; the others fail in the run that follows."""
    answers = federation.ask({name: DescribeRequest() for name in names})
    return {
        name: answer
        for name, answer in answers.items()
        if isinstance(answer, Description) and check_reply(DescribeRequest(), answer) is None
    }


def _must_agree(descriptions: dict[str, Description]) -> bool:
    """Whether a table waits for a schema, or sites have taken different ones."""
    schemas = {description.schema for description in descriptions.values()} - {""}
    return WANTED in schemas or len(schemas) > 1


def warn_conflicts(schema: Schema, stacklevel: int = 3) -> None:
    """Issue a DataWarning for each conflict of the schema."""
    for conflict in schema.conflicts:
        warnings.warn(conflict.sentence, DataWarning, stacklevel=stacklevel)


def fill_clipping(federation: Federation, guarantee: DP) -> DP:
    """The guarantee with the clip norm and the centre of the sites' schema where it has none.

    InputError if that schema comes from the data without noise, because the sites agreed on it: no
    private release that builds on it keeps a guarantee.
    """
    schema: Schema | None = getattr(federation, "schema", None)
    if schema is not None and not schema.public:
        raise InputError(
            "The sites agreed on a schema from their data, which is not private; give a schema file"
            " made from public knowledge (schema), or schema none for numbers of a known scale."
        )
    return guarantee.completed(schema)
