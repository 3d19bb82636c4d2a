"""A schema under differential privacy: noisy sums of a table that a public draft has encoded.

The draft is the site's own schema file, and the request must repeat it. A refusal because they
differ says nothing about the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, is_count, is_finite, plain_schema, require
from fedwad.federation.needs import Needs
from fedwad.ot import Floats
from fedwad.privacy import check_budget, check_draft, count_schema_sums, mu_of, release_schema
from fedwad.tables import Schema

__all__ = ["PrivateSchemaReply", "PrivateSchemaRequest"]


@dataclass(frozen=True, eq=False)
class PrivateSchemaReply(Reply):
    """The number of rows, noisy sums over them, and the standard deviation of the noise."""

    count: int
    sums: Floats
    noise: float

    def check_values(self) -> None:
        require(is_count(self.count), "rows are not counted by a positive integer.")
        require(is_finite(self.sums, 1), "sums are not finite.")
        require(type(self.noise) is float and 0 < self.noise < 1e150, "the noise is not given.")


@dataclass(frozen=True)
class PrivateSchemaRequest(Request):
    """Ask for the noisy sums from which a schema follows; `draft` is the text of its file."""

    kind: ClassVar[str] = "private"
    uses_budget: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = PrivateSchemaReply
    epsilon: float
    delta: float
    draft: str

    def validate(self) -> PrivateSchemaRequest:
        if type(self.epsilon) is not float or type(self.delta) is not float:
            raise InputError("epsilon and delta must be numbers.")
        plain_schema(self.draft, "draft")
        check_budget(self.epsilon, self.delta)
        check_draft(_read(self.draft))
        return PrivateSchemaRequest(self.epsilon, self.delta, self.draft)

    def needs(self) -> Needs:
        return Needs(mu=mu_of(self.epsilon, self.delta))

    def check_shape(self, context: ClientContext) -> None:
        own = context.data.schema
        if own is None or own.to_toml() != self.draft:
            raise InputError(
                "This site encodes its table by a different schema than the draft, or holds none;"
                " start it with the draft as its schema file."
            )

    def execute(self, context: ClientContext) -> tuple[PrivateSchemaReply, None]:
        points, mu = context.data.measure.points, mu_of(self.epsilon, self.delta)
        context.accountant.spend(mu)  # on disk before the noise is drawn
        sums, noise = release_schema(points, _read(self.draft), mu)
        return PrivateSchemaReply(len(points), sums, noise), None

    def check(self, reply: PrivateSchemaReply) -> None:
        size = count_schema_sums(_read(self.draft))
        require(len(reply.sums) == size, "it has a different number of sums.")


def _read(draft: str) -> Schema:
    return Schema.from_toml(draft, "The draft", public=True)
