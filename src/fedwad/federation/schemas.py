"""Sites agree on a schema: one message from each, and the schema to each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from fedwad.errors import DataWarning, InputError
from fedwad.federation.federation import Federation, MeteredFederation
from fedwad.federation.replies import check_reply
from fedwad.federation.requests.describe import WANTED, DescribeRequest, Description
from fedwad.federation.requests.private_schema import PrivateSchemaReply, PrivateSchemaRequest
from fedwad.federation.requests.schema import (
    EncodeReply,
    EncodeRequest,
    SchemaReply,
    SchemaRequest,
)
from fedwad.privacy import check_budget, check_draft, schema_from_sums
from fedwad.tables import Schema, agree

__all__ = [
    "agreed_schema",
    "check_public",
    "hand_out",
    "prepare",
    "private_schema",
    "warn_conflicts",
]


def agreed_schema(federation: Federation, names: Sequence[str] | None = None) -> Schema:
    """The schema that the named sites agree on, all of them by default; it is handed to nobody."""
    asked = federation.names if names is None else tuple(names)
    metered = MeteredFederation(federation)
    replies = metered.ask({name: SchemaRequest() for name in asked}, SchemaReply)
    return agree({name: reply.profile for name, reply in replies.items()}).schema


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
    replies = MeteredFederation(federation).ask(dict.fromkeys(asked, request), PrivateSchemaReply)
    found = [replies[name] for name in asked]
    return schema_from_sums(
        draft, [one.count for one in found], [one.sums for one in found], [o.noise for o in found]
    )


def hand_out(federation: Federation, names: Sequence[str], schema: Schema) -> None:
    """Each of these sites encodes its table by this schema from now on."""
    request = EncodeRequest(schema.to_toml())
    MeteredFederation(federation).ask(dict.fromkeys(names, request), EncodeReply)


def prepare(federation: Federation, names: Sequence[str] | None = None) -> Schema | None:
    """Let sites agree on a schema if some of the named ones hold a table and have none yet.

    All sites of the federation whose data are not encoded for good take part, so that the next
    run, with other sites, finds the schema that it needs. None if there was nothing to agree on.
    """
    asked = federation.names if names is None else tuple(names)
    found = _described(federation, asked)
    if not _disagree(found):
        return None
    fixed = [name for name, description in found.items() if not description.schema]
    if fixed:
        waiting = next(name for name, description in found.items() if description.schema)
        raise InputError(
            f"{waiting} waits for a schema that all sites agree on, and {fixed[0]} has its own or"
            " holds numbers; give both the same schema file."
        )
    if len(asked) < len(federation.names):
        found = _described(federation, federation.names)
    taking = [name for name, description in found.items() if description.schema]
    schema = agreed_schema(federation, taking)
    hand_out(federation, taking, schema)
    return schema


def _described(federation: Federation, names: Sequence[str]) -> dict[str, Description]:
    """What the sites that answer this say; the others, an algorithm finds out about."""
    answers = federation.ask({name: DescribeRequest() for name in names})
    return {
        name: answer
        for name, answer in answers.items()
        if isinstance(answer, Description) and check_reply(DescribeRequest(), answer) is None
    }


def _disagree(found: dict[str, Description]) -> bool:
    """Whether a table waits for a schema, or sites have taken different ones."""
    schemas = {description.schema for description in found.values()} - {""}
    return WANTED in schemas or len(schemas) > 1


def warn_conflicts(schema: Schema, stacklevel: int = 3) -> None:
    """A warning for each conflict."""
    for conflict in schema.conflicts:
        warnings.warn(conflict.sentence, DataWarning, stacklevel=stacklevel)


def check_public(federation: Federation) -> None:
    """InputError if the sites' tables are encoded by a schema that the sites agreed on.

    Its means and levels come from the data and have no noise, so no private release that builds on
    them keeps a guarantee.
    """
    schema: Schema | None = getattr(federation, "schema", None)
    if schema is not None and not schema.public:
        raise InputError(
            "The sites agreed on a schema from their data, which is not private; give a schema file"
            " made from public knowledge (schema), or schema none for numbers of a known scale."
        )
