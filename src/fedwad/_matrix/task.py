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
    """How far a computation is: its stage, and how many of the stage's `total` steps are done."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class MatrixTask:
    """The checked options of one matrix that do not depend on the method.

    `names` are the sites to ask. `report` is called with each step of progress.
    """

    names: tuple[str, ...]
    seed: int
    p: float
    class_statistics: ClassStatistics
    n_jobs: int
    report: Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class MatrixEstimates:
    """Bounds and estimates for all pairs, and what they were computed from.

    Attributes
    ----------
    sites : names of the sites that answered, in the order of rows and columns
    value, lower, upper : arrays (N, N) of estimates and their bounds
    summaries : one for each site first, then further ones that sites sent
    covariance_types : what each site sent of the covariance within cells
    history : the rounds of methods that have some
    fedwad : array (N, N) of the paper's estimates, for method "pairs"
    calibrations : one for each site, None for a site that withheld it; empty for releases
    contributions : by pair, what each feature contributes to the squared distance
    privacy_noise : for releases, the variances of the noise that each site added to its means and
        to its variances
    sampling_noise : for releases, array (N, N) of the distances that chance alone gives
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
    contributions: Mapping[Pair, Floats] = field(default_factory=dict)
    privacy_noise: Sequence[tuple[Floats, Floats]] = ()
    sampling_noise: Floats | None = None

    @property
    def site_summaries(self) -> Sequence[Summary | LabelledSummary]:
        """One summary for each site."""
        return self.summaries[: len(self.sites)]


def ask_moments(
    metered: MeteredFederation,
    names: Sequence[str],
    class_statistics: ClassStatistics,
    at_least: int = 2,
) -> dict[str, Moments]:
    """Return the moments of the sites that answer and have as many features as most sites."""
    requests = dict.fromkeys(names, MomentsRequest(class_statistics))
    replies = metered.ask(requests, Moments, allow_failures=True, at_least=at_least)
    dimensions = {name: len(reply.mean) for name, reply in replies.items()}
    return metered.keep_most_frequent_dimension(replies, dimensions, class_statistics)


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
