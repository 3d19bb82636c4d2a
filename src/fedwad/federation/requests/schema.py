"""Agreeing on a schema: each site sends the profile of its table, and takes the schema.

No site's reply depends on a choice of the server. Which column is the label, which are dropped and
which values stand for missing ones are settings of the site: a server that chose those could make
counts about single rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, is_count, require
from fedwad.tables import OTHER, Profile, Schema, check_profile, smallest_group

__all__ = ["EncodeReply", "EncodeRequest", "SchemaReply", "SchemaRequest"]

_LONGEST = 1 << 22


@dataclass(frozen=True)
class SchemaReply(Reply):
    """The profile of a site's table."""

    profile: Profile

    def check_values(self) -> None:
        check_profile(self.profile)


@dataclass(frozen=True)
class SchemaRequest(Request):
    """Ask for the profile of a site's table, from which sites agree on a schema."""

    kind: ClassVar[str] = "schema"
    needs_encoding: ClassVar[bool] = False
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = SchemaReply

    def validate(self) -> SchemaRequest:
        return SchemaRequest()

    def data_digest(self, context: ClientContext) -> str:
        return context.digest

    def check_shape(self, context: ClientContext) -> None:
        context.known_table  # noqa: B018 - PolicyError if there is none

    def execute(self, context: ClientContext) -> tuple[SchemaReply, int]:
        found = context.known_table.profile(context.policy.min_cell_size)
        return SchemaReply(found), smallest_group(found)


@dataclass(frozen=True)
class EncodeReply(Reply):
    """How many encoded columns a site has now."""

    width: int

    def check_values(self) -> None:
        require(is_count(self.width), "the number of columns is not a positive whole number.")


@dataclass(frozen=True)
class EncodeRequest(Request):
    """Hand a site the schema that was agreed on, as the text of its file.

    Whether a site takes it depends on the kinds of its columns, which its profile has said. Levels
    that too few rows of a site have become "other" there, so a schema cannot ask for a rare level.
    """

    kind: ClassVar[str] = "encode"
    needs_encoding: ClassVar[bool] = False
    reply_type: ClassVar[type[Reply]] = EncodeReply
    schema: str

    def validate(self) -> EncodeRequest:
        if type(self.schema) is not str or len(self.schema) > _LONGEST:
            raise InputError("A schema arrived that is not the text of a schema file.")
        _check_agreed(Schema.from_toml(self.schema, "The agreed schema"))
        return EncodeRequest(self.schema)

    def execute(self, context: ClientContext) -> tuple[EncodeReply, None]:
        data = context.adopt(Schema.from_toml(self.schema, "The agreed schema"))
        return EncodeReply(data.measure.dimension), None

    def check(self, reply: Any) -> None:
        width = Schema.from_toml(self.schema, "The agreed schema").width
        require(reply.width == width, "it has another number of columns.")


def _check_agreed(schema: Schema) -> None:
    """InputError if the schema could make a site say something about few rows."""
    for column in schema.used:
        if column.missing_values:
            raise InputError(
                f"The agreed schema says which values of column '{column.name}' stand for missing"
                " ones; that is a setting of each site (missing)."
            )
        if column.kind == "category" and OTHER not in column.levels:
            raise InputError(
                f"Column '{column.name}' of the agreed schema has no level '{OTHER}'; add it."
            )
