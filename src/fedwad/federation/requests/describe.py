"""Who are you, and what do you answer?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedwad.federation.message import Reply, Request, check_words, is_count, require

if TYPE_CHECKING:
    from fedwad.federation.context import ClientContext

__all__ = ["DescribeRequest", "Description"]


@dataclass(frozen=True)
class Description(Reply):
    """Who a client is, which requests it answers, how many features its samples have, and whether
    they are labelled."""

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
    """Who are you, and what do you answer?"""

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
