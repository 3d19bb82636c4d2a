"""What the ways to a matrix share: checked options, what they find, and small help."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedwad._distance.api import features_of
from fedwad._matrix.result import MatrixRound
from fedwad.errors import InputError
from fedwad.federation import (
    Classes,
)
from fedwad.ot import (
    CovarianceType,
    Floats,
    LabelledSummary,
    Summary,
)

__all__ = [
    "Found",
    "MatrixOptions",
    "Pair",
    "Progress",
    "counted",
    "keys_of",
    "pairs_of",
    "same_features",
]

Pair = tuple[int, int]


@dataclass(frozen=True)
class Progress:
    """How far a matrix is: what is being done, and how much of it."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class MatrixOptions:
    """The options of one matrix, checked."""

    names: tuple[str, ...]
    support: int
    rounds: int
    seed: int
    p: float
    classes: Classes
    covariance_type: CovarianceType
    n_jobs: int
    tell: Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Found:
    sites: tuple[str, ...]
    value: Floats
    lower: Floats
    upper: Floats
    summaries: Sequence[Summary | LabelledSummary]
    history: tuple[MatrixRound, ...] = ()
    fedwad: Floats | None = None


def same_features(dimensions: Mapping[str, int], classes: Classes = "ignored") -> None:
    first, expected = next(iter(dimensions.items()))
    for name, dimension in dimensions.items():
        if dimension != expected:
            raise InputError(
                f"{first} has {features_of(expected, classes)} features and {name} has"
                f" {features_of(dimension, classes)}; distances need the same features at all clients."
            )


def pairs_of(count: int) -> list[Pair]:
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def counted(stage: str, total: int, options: MatrixOptions) -> Callable[[], None]:
    """What to call after each of `total` steps of a stage."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        options.tell(Progress(stage, done, total))

    return count


def keys_of(sites: Sequence[str]) -> list[int]:
    return [
        int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "little")
        for name in sites
    ]
