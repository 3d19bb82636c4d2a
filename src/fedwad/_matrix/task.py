"""What the methods of a matrix share: their options, their results, and progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fedwad._matrix.saved import MatrixRound
from fedwad.federation import ClassStatistics, MeteredFederation, Moments, MomentsRequest
from fedwad.ot import Calibration, Floats, LabelledSummary, Summary

__all__ = [
    "MatrixEstimates",
    "MatrixTask",
    "Pair",
    "Progress",
    "all_pairs",
    "ask_moments",
    "step_counter",
]

Pair = tuple[int, int]


@dataclass(frozen=True)
class Progress:
    """How far a computation is: its stage, and the steps done of all steps of that stage."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class MatrixTask:
    """The checked options of one matrix that do not depend on the method."""

    names: tuple[str, ...]
    seed: int
    p: float
    class_statistics: ClassStatistics
    n_jobs: int
    report: Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class MatrixEstimates:
    """Bounds and estimates for all pairs, and the summaries behind them.

    If there are calibrations, they belong to `sites` one by one, and so do the first summaries.
    `columns` are the contributions of features to the squared distances of pairs. `noises` are
    variances of the noise that was added for privacy, in means and in variances. `chance` is the
    sampling noise of all pairs if there are no calibrations.
    """

    sites: tuple[str, ...]
    value: Floats
    lower: Floats
    upper: Floats
    summaries: Sequence[Summary | LabelledSummary]
    covariance_types: tuple[str, ...]
    history: tuple[MatrixRound, ...] = ()
    fedwad: Floats | None = None
    calibrations: Sequence[Calibration | None] = ()
    columns: Mapping[Pair, Floats] = field(default_factory=dict)
    noises: Sequence[tuple[Floats, Floats]] = ()
    chance: Floats | None = None

    @property
    def site_summaries(self) -> Sequence[Summary | LabelledSummary]:
        """One summary for each site."""
        return self.summaries[: len(self.sites)]


def ask_moments(metered: MeteredFederation, task: MatrixTask) -> dict[str, Moments]:
    """Return the moments of the sites that answer and agree on dimension and classes."""
    requests = dict.fromkeys(task.names, MomentsRequest(task.class_statistics))
    replies = metered.ask(requests, Moments, allow_failures=True, at_least=2)
    dimensions = {name: len(reply.mean) for name, reply in replies.items()}
    return metered.keep_majority(replies, dimensions, task.class_statistics)


def all_pairs(count: int) -> list[Pair]:
    """Return all pairs (i, j) with i < j."""
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def step_counter(stage: str, total: int, task: MatrixTask) -> Callable[[], None]:
    """Return a function to call after each of `total` steps of a stage."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        task.report(Progress(stage, done, total))

    return count
