"""Who a client is, and what it answers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, check_strings, is_count, require
from fedwad.tables import Schema

__all__ = ["WANTED", "DescribeRequest", "Description", "schema_digest"]

#: `Description.schema` of a table that has none yet.
WANTED = "wanted"
_MAX_FEATURES = 10**7


@dataclass(frozen=True)
class Description(Reply):
    """Who a client is, which requests it answers, how many features its samples have, and whether
    they have labels.

    `schema` is empty for data that take no agreed schema, "wanted" for a table that waits for one,
    and a digest of the schema for a table that has taken one. `features` is 0 while it is "wanted".
    """

    name: str
    contact: str
    allow: tuple[str, ...]
    features: int
    labelled: bool
    schema: str = ""

    def check_values(self) -> None:
        check_strings(self.name, self.contact, self.schema, *self.allow)
        require(
            self.name.isprintable() and self.contact.isprintable(),
            "its name or contact holds control characters.",
        )
        is_valid = is_count(self.features) or (self.features == 0 and self.schema == WANTED)
        require(self.features <= _MAX_FEATURES, "it has too many features.")
        require(is_valid and type(self.labelled) is bool, "features or labels are not stated.")


@dataclass(frozen=True)
class DescribeRequest(Request):
    """Ask who a client is and what it answers. This is no query."""

    kind: ClassVar[str] = "describe"
    needs_encoding: ClassVar[bool] = False
    reply_type: ClassVar[type[Reply]] = Description

    def validate(self) -> DescribeRequest:
        return DescribeRequest()

    def execute(self, context: ClientContext) -> tuple[Description, None]:
        policy, table = context.policy, context.table
        who = policy.name, policy.contact, tuple(sorted(policy.allow))
        if not context.is_encoded:
            labelled = table is not None and (table.label or table.labels) is not None
            return Description(*who, 0, labelled, WANTED), None
        data = context.data
        schema = "" if table is None or data.schema is None else schema_digest(data.schema)
        labelled = bool(policy.label_names) if policy.is_private else data.labels is not None
        return Description(*who, data.measure.dimension, labelled, schema), None


def schema_digest(schema: Schema) -> str:
    """A digest of the text of a schema."""
    return hashlib.sha256(schema.to_toml().encode()).hexdigest()[:16]
