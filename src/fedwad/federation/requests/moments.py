"""The number of samples, their mean and their standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from fedwad.federation.context import ClientContext
from fedwad.federation.message import (
    Reply,
    Request,
    is_count,
    is_finite,
    plain_word,
    require,
)
from fedwad.federation.needs import Classes, Needs
from fedwad.ot import Floats, LabelledMeasure

__all__ = ["Moments", "MomentsRequest"]


@dataclass(frozen=True, eq=False)
class Moments(Reply):
    """Number of samples, mean, and standard deviation of each feature."""

    count: int
    mean: Floats
    scale: Floats

    def check_values(self) -> None:
        require(is_count(self.count), "the number of samples is not a positive whole number.")
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
    classes: Classes = "ignored"

    def validate(self) -> MomentsRequest:
        return MomentsRequest(plain_word(self.classes, "classes", get_args(Classes)))

    def needs(self) -> Needs:
        return Needs(classes=self.classes)

    def execute(self, context: ClientContext) -> tuple[Moments, int]:
        measure = context.view(self.classes)
        if isinstance(measure, LabelledMeasure):
            scale = np.sqrt(measure.variances)
        else:
            scale = np.sqrt(measure.weights @ (measure.points - measure.mean) ** 2)
        return Moments(len(measure), measure.mean, scale), context.smallest_class(self.classes)
