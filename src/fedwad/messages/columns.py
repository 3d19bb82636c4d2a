"""What a site publishes about its columns, from which sites agree on a schema.

A profile depends on no choice of the server. Which column is the label, which columns are dropped
and which values stand for missing ones are settings of the site. A server that chose them could
obtain counts of single rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from fedwad.messages.message import MAX_ABS, Reply, Request, Text, require
from fedwad.tables import Profile, Schema, check_profile

#: `Description.schema` of a table that is encoded by the schema of a request.
WANTED = "wanted"


@dataclass(frozen=True)
class Description(Reply):
    """Who a client is, which requests it answers, how many features its samples have, and whether
    they have labels.

    `schema` is "wanted" for a table, which is encoded by the schema that a request brings, a digest
    of the site's own schema for a table that is encoded by it, and empty for numbers. `features` is
    0 while it is "wanted".
    """

    name: Text
    contact: Text
    allow: tuple[Text, ...]
    features: Annotated[int, Meta(ge=0, le=10**7)]
    labelled: bool
    schema: Text = ""

    def check_values(self) -> None:
        printable = all(map(str.isprintable, (self.name, self.contact, *self.allow)))
        require(printable, "its description holds control characters.")
        require(self.features > 0 or self.schema == WANTED, "features are not stated.")


@dataclass(frozen=True)
class DescribeRequest(Request):
    """Ask who a client is and what it answers. This is no query."""

    kind: ClassVar[str] = "describe"
    repeatable: ClassVar[bool] = True  # so that repeats, however many, fill no ledger
    needs_encoding: ClassVar[bool] = False
    reply_type: ClassVar[type[Reply]] = Description


def schema_digest(schema: Schema) -> str:
    """A digest of how a schema encodes tables."""
    return hashlib.sha256(repr(schema.compared_columns).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ColumnsReply(Reply):
    """The profile of a site's columns, and whether the site allows it to be kept in a file."""

    profile: Profile
    keep: bool = False

    def check_values(self) -> None:
        check_profile(self.profile)
        require(len(self.profile.columns) > 0, "it has no columns.")
        moments = ((abs(s.mean), s.std) for s in self.profile.columns if s.moments)
        require(all(max(pair) <= MAX_ABS for pair in moments), "a moment is too large.")


@dataclass(frozen=True)
class ColumnsRequest(Request):
    """Ask what a site publishes about its columns: kinds, counts, moments and frequent levels."""

    kind: ClassVar[str] = "columns"
    needs_encoding: ClassVar[bool] = False
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = ColumnsReply
