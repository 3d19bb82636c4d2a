"""Who a client is, and what it answers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, check_words, is_count, require
from fedwad.tables import Schema

__all__ = ["WANTED", "DescribeRequest", "Description", "digest_of"]

#: `Description.schema` of a table that has none yet.
WANTED = "wanted"
_MOST_FEATURES = 10**7


@dataclass(frozen=True)
class Description(Reply):
    """Who a client is, which requests it answers, how many features its samples have, and whether
    they have labels.

    `schema` is empty for data that have an encoding of their own, "wanted" for a table that waits
    for the sites to agree on a schema, and a digest of the one that it took. A table without a
    schema has no features yet, 0.
    """

    name: str
    contact: str
    allow: tuple[str, ...]
    features: int
    labelled: bool
    schema: str = ""

    def check_values(self) -> None:
        check_words(self.name, self.contact, self.schema, *self.allow)
        require(
            self.name.isprintable() and self.contact.isprintable(),
            "its name or contact holds control characters.",
        )
        counted = is_count(self.features) or (self.features == 0 and self.schema == WANTED)
        require(self.features <= _MOST_FEATURES, "it has too many features.")
        require(counted and type(self.labelled) is bool, "features are not counted.")


@dataclass(frozen=True)
class DescribeRequest(Request):
    """Ask who a client is and what it answers. This is no query of the data."""

    kind: ClassVar[str] = "describe"
    needs_encoding: ClassVar[bool] = False
    reply_type: ClassVar[type[Reply]] = Description

    def validate(self) -> DescribeRequest:
        return DescribeRequest()

    def execute(self, context: ClientContext) -> tuple[Description, None]:
        policy, table = context.policy, context.table
        who = policy.name, policy.contact, tuple(sorted(policy.allow))
        if not context.has_data:
            labelled = table is not None and (table.label or table.labels) is not None
            return Description(*who, 0, labelled, WANTED), None
        data = context.data
        schema = "" if table is None or data.schema is None else digest_of(data.schema)
        private = policy.is_private
        labelled = bool(policy.label_names) if private else data.labels is not None
        return Description(*who, data.measure.dimension, labelled, schema), None


def digest_of(schema: Schema) -> str:
    """A digest of the text of a schema."""
    return hashlib.sha256(schema.to_toml().encode()).hexdigest()[:16]
