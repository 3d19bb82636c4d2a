"""The number of samples, their mean and their standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, is_count, is_finite, plain_choice, require
from fedwad.federation.needs import ClassStatistics, Needs
from fedwad.ot import Floats, LabelledMeasure

__all__ = ["Moments", "MomentsRequest"]


@dataclass(frozen=True, eq=False)
class Moments(Reply):
    """Number of samples, mean, and standard deviation of each feature."""

    count: int
    mean: Floats
    scale: Floats

    def check_values(self) -> None:
        require(is_count(self.count), "the number of samples is not a positive integer.")
        require(
            is_finite(self.mean, 1) and is_finite(self.scale, 1), "mean or scale are not finite."
        )
        require(
            self.mean.shape == self.scale.shape and bool((self.scale >= 0).all()),
            "the scale is wrong.",
        )


@dataclass(frozen=True)
class MomentsRequest(Request):
    """Ask for the number of samples, their mean and their standard deviations."""

    kind: ClassVar[str] = "moments"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = Moments
    class_statistics: ClassStatistics = "ignored"

    def validate(self) -> MomentsRequest:
        return MomentsRequest(
            plain_choice(self.class_statistics, "class_statistics", get_args(ClassStatistics))
        )

    def needs(self) -> Needs:
        return Needs(class_statistics=self.class_statistics)

    def execute(self, context: ClientContext) -> tuple[Moments, int]:
        measure = context.view(self.class_statistics)
        if isinstance(measure, LabelledMeasure):
            scale = np.sqrt(measure.variances)
        else:
            scale = np.sqrt(measure.weights @ (measure.points - measure.mean) ** 2)
        reply = Moments(len(measure), measure.mean, scale)
        return reply, context.min_class_size(self.class_statistics)
