"""Agreeing on a schema: each site sends the profile of its table, and takes the schema.

A profile depends on no choice of the server. Which column is the label, which columns are dropped
and which values stand for missing ones are settings of the site. A server that chose them could
obtain counts of single rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, is_count, plain_schema, require
from fedwad.tables import OTHER, Profile, Schema, check_profile, smallest_group

__all__ = ["AdoptSchemaReply", "AdoptSchemaRequest", "ProfileReply", "ProfileRequest"]


@dataclass(frozen=True)
class ProfileReply(Reply):
    """The profile of a site's table."""

    profile: Profile

    def check_values(self) -> None:
        check_profile(self.profile)


@dataclass(frozen=True)
class ProfileRequest(Request):
    """Ask for the profile of a site's table, from which sites agree on a schema."""

    kind: ClassVar[str] = "schema"
    needs_encoding: ClassVar[bool] = False
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = ProfileReply

    def validate(self) -> ProfileRequest:
        return ProfileRequest()

    def data_digest(self, context: ClientContext) -> str:
        return context.digest

    def check_shape(self, context: ClientContext) -> None:
        context.require_table()  # PolicyError if there is none

    def execute(self, context: ClientContext) -> tuple[ProfileReply, int]:
        profile = context.require_table().profile(context.policy.min_cell_size)
        return ProfileReply(profile), smallest_group(profile)


@dataclass(frozen=True)
class AdoptSchemaReply(Reply):
    """How many encoded columns a site has now."""

    width: int

    def check_values(self) -> None:
        require(is_count(self.width), "the number of columns is not a positive integer.")


@dataclass(frozen=True)
class AdoptSchemaRequest(Request):
    """Hand a site the schema that was agreed on, as the text of its file.

    A site accepts it if it can encode the site's table. A level with fewer than the
    policy's `min_level_size` rows at a site is encoded there as "other", so a schema cannot single
    out rare levels.
    """

    kind: ClassVar[str] = "encode"
    needs_encoding: ClassVar[bool] = False
    reply_type: ClassVar[type[Reply]] = AdoptSchemaReply
    schema: str

    def validate(self) -> AdoptSchemaRequest:
        plain_schema(self.schema, "schema")
        _check_agreed(self._parsed)
        return AdoptSchemaRequest(self.schema)

    @property
    def _parsed(self) -> Schema:
        return Schema.from_toml(self.schema, "The agreed schema")

    def execute(self, context: ClientContext) -> tuple[AdoptSchemaReply, None]:
        data = context.adopt(self._parsed)
        return AdoptSchemaReply(data.measure.dimension), None

    def check(self, reply: Any) -> None:
        require(reply.width == self._parsed.width, "it has a different number of columns.")


def _check_agreed(schema: Schema) -> None:
    """Raise InputError if the schema could make a site say something about few rows."""
    for column in schema.compared_columns:
        if column.missing_values:
            raise InputError(
                f"The agreed schema says which values of column '{column.name}' stand for missing"
                " ones; that is a setting of each site (missing)."
            )
        if column.kind == "category" and OTHER not in column.levels:
            raise InputError(
                f"Column '{column.name}' of the agreed schema has no level '{OTHER}'; add it."
            )
