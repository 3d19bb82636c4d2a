"""Sites agree on a schema from what they publish; every later question brings it along."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, replace

from fedwad._words import to_printable
from fedwad.errors import DataWarning, InputError
from fedwad.federation.federation import (
    Answer,
    Federation,
    MeteredFederation,
    NamedSites,
    Question,
    Traffic,
    known_of,
)
from fedwad.messages.codec import check_reply
from fedwad.messages.columns import (
    WANTED,
    ColumnsReply,
    ColumnsRequest,
    DescribeRequest,
    Description,
    schema_digest,
)
from fedwad.messages.message import Bundle, Failure
from fedwad.messages.private import PrivateSchemaReply, PrivateSchemaRequest
from fedwad.privacy import DP, check_budget, check_draft, schema_from_sums
from fedwad.tables import Schema, agree
from fedwad.tables.agreement import TOO_FEW_LEVELS


def agreed_schema(
    federation: Federation,
    names: Sequence[str] | None = None,
    failed: dict[str, str] | None = None,
    at_least: int = 2,
    asked: Collection[str] | None = None,
) -> Schema:
    """The schema that the named sites agree on, all of them by default.

    A site whose columns do not come, or cannot be used, is left out as long as `at_least` others
    remain; `failed` gets the reason. The only site, or one of two, raises its failure.

    If only some sites are `asked` a question, they decide which columns are compared: another one
    takes part if it has all columns that these have in common, of the same kinds.
    """
    names = federation.names if names is None else names
    metered = MeteredFederation(federation)
    metered.traffic, metered.failed = Traffic(), {}  # without those of an earlier agreement
    replies = metered.ask(
        dict.fromkeys(names, ColumnsRequest()),
        ColumnsReply,
        allow_failures=failed is not None,
        at_least=min(at_least, len(names)),
        blame_sites=True,
    )
    majority = not metered.in_process  # sites in this process cannot lie
    profiles = {name: reply.profile for name, reply in replies.items()}
    if asked is not None:
        kinds = {n: {(s.name, s.kind) for s in one.columns} for n, one in profiles.items()}
        own = [kinds[name] for name in kinds if name in asked]
        common = set.intersection(*own) if own else set()
        profiles = {n: p for n, p in profiles.items() if n in asked or common <= kinds[n]}
    schema = agree(profiles, majority)
    few = [conflict for conflict in schema.conflicts if conflict.problem == TOO_FEW_LEVELS]
    if failed is not None and few:  # the schema that the others would have without these sites
        metered.failed |= {one.sites[0]: to_printable(one.sentence) for one in few}
        staying = {name: own for name, own in profiles.items() if name not in metered.failed}
        schema = agree(staying, majority)
    if failed is not None:
        failed |= metered.failed
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


def with_schema_text(question: Question, text: str) -> Question:
    """The question with the text of this schema, for requests that are about encoded data and
    bring none yet."""
    takes = isinstance(question, Bundle) or type(question).needs_encoding
    return replace(question, schema=text) if takes and text and not question.schema else question


class SchemaFederation(NamedSites):
    """A federation whose questions bring a schema along.

    The sites in `takers` hold tables, which are encoded by it. Others have the same encoding
    already. `failed` maps sites that took no part in the agreement to the reason; these are not
    asked.
    """

    schema: Schema

    def __init__(
        self,
        federation: Federation,
        schema: Schema,
        takers: Iterable[str],
        failed: Mapping[str, str] | None = None,
    ) -> None:
        vars(self).update(known_of(federation))
        self._federation, self.schema, self.features = federation, schema, schema.feature_names
        self.failed = failed or {}
        self._text, self.takers = schema.to_request(), frozenset(takers)
        self.schema_bytes = len(self._text) if self.takers else 0

    @property
    def names(self) -> tuple[str, ...]:
        return self._federation.names

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        """Ask the sites, each with the schema if it takes one."""
        asked: dict[str, Question] = {}
        left_out: dict[str, Answer] = {}
        made: dict[int, Question] = {}  # a request to all sites stays one object
        for name, request in requests.items():
            if name in self.failed:
                left_out[name] = Failure("policy", self.failed[name], "left-out")
            elif name in self.takers:
                asked[name] = made.setdefault(id(request), with_schema_text(request, self._text))
            else:
                asked[name] = request
        return {**(self._federation.ask(asked) if asked else {}), **left_out}


def ensure_schema(
    federation: Federation,
    names: Sequence[str] | None = None,
    schema: Schema | None = None,
    agreed: Schema | None = None,
) -> Federation:
    """A federation whose questions bring the schema that its tables need.

    Without a given schema all sites that hold tables agree on one, named or not, so that one schema
    serves every later question: a pair, then a matrix of all, then a newcomer. `agreed` is the
    schema of an earlier agreement, which stands for a new one. Returns the same federation if none
    of the named sites holds a table and no schema is given.
    """
    names = federation.names if names is None else tuple(names)
    descriptions = _ask_descriptions(federation, names)
    takers = _schema_takers(descriptions)
    if schema is not None:
        for name, description in descriptions.items():
            if description.schema not in (WANTED, schema_digest(schema)):
                raise InputError(
                    f"{to_printable(name)} encodes its data by another schema or holds numbers, so"
                    " the given schema cannot be used; leave it out, or give the site's operator"
                    " the file.",
                    "different-schema",
                )
        return SchemaFederation(federation, schema, takers)
    if not takers:
        return federation
    for name in descriptions:
        if name not in takers:
            raise InputError(
                f"{takers[0]} takes the schema that sites agree on, and {name} has its own or holds"
                " numbers; give both the same schema file.",
                "different-schema",
            )
    failed: dict[str, str] = {}
    if agreed is None:
        others = sorted(set(federation.names) - set(names))
        more = _schema_takers(_ask_descriptions(federation, others) if others else {})
        least = min(2, len(takers))
        agreed = agreed_schema(federation, [*takers, *more], failed, least, takers)
        failed = {name: failed[name] for name in names if name in failed}
    return SchemaFederation(federation, agreed, takers, failed)


def with_schema(federation: Federation, schema: Schema, name: str) -> Federation:
    """A federation that sends this schema to one site, if its table takes one."""
    takes = _schema_takers(_ask_descriptions(federation, [name]))
    return SchemaFederation(federation, schema, takes) if takes else federation


def _schema_takers(descriptions: Mapping[str, Description]) -> list[str]:
    """The sites that hold a table, which the schema of a request encodes."""
    return [name for name, description in descriptions.items() if description.schema == WANTED]


def _ask_descriptions(federation: Federation, names: Sequence[str]) -> dict[str, Description]:
    """The descriptions of the sites that answer; the others fail in the run that follows."""
    answers = federation.ask({name: DescribeRequest() for name in names})
    return {
        name: answer
        for name, answer in answers.items()
        if isinstance(answer, Description) and check_reply(DescribeRequest(), answer) is None
    }


def warn_conflicts(schema: Schema, stacklevel: int = 3) -> None:
    """Issue a DataWarning for each conflict of the schema."""
    for conflict in schema.conflicts:
        warnings.warn(conflict.sentence, DataWarning, stacklevel=stacklevel)


def fill_clipping(federation: Federation, guarantee: DP) -> DP:
    """The guarantee with the clip norm and the centre of the sites' schema where it has none.

    InputError if that schema comes from the data without noise, because the sites agreed on it: no
    private release that builds on it keeps a guarantee.
    """
    schema: Schema | None = known_of(federation)["schema"]
    if schema is not None and not schema.public:
        raise InputError(
            "The sites agreed on a schema from their data, which is not private; give a schema file"
            " made from public knowledge (schema), or schema none for numbers of a known scale.",
            "not-public",
        )
    return guarantee.completed(schema)
