"""Who a client is, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, check_words, is_count, require

__all__ = ["DescribeRequest", "Description"]


@dataclass(frozen=True)
class Description(Reply):
    """Who a client is, which requests it answers, how many features its samples have, and whether
    they have labels."""

    name: str
    contact: str
    allow: tuple[str, ...]
    features: int
    labelled: bool

    def check_alone(self) -> None:
        check_words(self.name, self.contact, *self.allow)
        require(
            is_count(self.features) and type(self.labelled) is bool, "features are not counted."
        )


@dataclass(frozen=True)
class DescribeRequest(Request):
    """Ask who a client is and what it answers. This is no query of the data."""

    kind: ClassVar[str] = "describe"
    answer: ClassVar[type[Reply]] = Description

    def validate(self) -> DescribeRequest:
        return DescribeRequest()

    def execute(self, context: ClientContext) -> tuple[Description, None]:
        policy, data = context.policy, context.data
        allow = tuple(sorted(policy.allow))
        labelled = data.labels is not None
        return Description(
            policy.name, policy.contact, allow, data.measure.dimension, labelled
        ), None
