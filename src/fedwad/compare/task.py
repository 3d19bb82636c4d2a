"""What the methods of a matrix share: their options, their results, and progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from fedwad._checks import format_value
from fedwad.errors import InputError
from fedwad.federation import ClassStatistics, Site, SummaryReply, local
from fedwad.privacy import PrivateDistances
from fedwad.statistics import LabelledSummary, Summary
from fedwad.tables import Schema, files_by_site
from fedwad.transport import Floats

if TYPE_CHECKING:
    from fedwad.compare.rounds import FedWaDLoop

Pair = tuple[int, int]
#: Names of the features, and the schema by which tables were encoded; None if unknown.
ColumnNames = tuple[tuple[str, ...] | None, Schema | None]
TableName = Literal[
    "value", "lower", "upper", "fedwad", "noise", "population", "pvalue", "smallest", "square"
]
#: The tables of a matrix. The first three always exist, the others may be None.
TABLES: tuple[str, ...] = get_args(TableName)


@dataclass(frozen=True)
class Progress:
    """How far a computation is: its stage, and how many of the stage's `total` steps are done."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class MatrixRound:
    """One round of "hub" or "pairs", and the root mean square `shift` of its supports."""

    number: int
    seconds: float
    shift: float


@dataclass(frozen=True)
class MatrixTask:
    """The checked options of one matrix that do not depend on the method.

    `names` are the sites to ask. `report` is called with each step of progress.
    """

    names: tuple[str, ...]
    seed: int
    p: float
    class_statistics: ClassStatistics
    n_jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    report: Callable[[Progress], None] = lambda _: None


@dataclass(frozen=True, eq=False)
class MatrixEstimates:
    """Bounds and estimates for all pairs, and what they were computed from.

    The content of messages decides the order of sites and seeds their random numbers. So neither
    the names of sites nor the order in which users list them changes a bit of any number.

    Attributes
    ----------
    sites : names of the sites that answered, in the order of rows and columns
    value, lower, upper : arrays (N, N) of estimates and their bounds
    replies : the last one of each site, for "pairs" that of its first pair; empty for releases, and
        where sites send distances alone
    min_cell_size : number of samples in the smallest cell of all last replies
    history : the rounds of methods that have some
    fedwad : array (N, N) of the paper's estimates, for FedWaD and "pairs"
    loops : the FedWaD of each pair, for FedWaD and "pairs"
    contributions : by pair, what each feature contributes to the squared distance
    private : for releases, the distances by columns
    """

    sites: tuple[str, ...]
    value: Floats
    lower: Floats
    upper: Floats
    replies: Sequence[SummaryReply] = ()
    min_cell_size: int | None = None
    history: tuple[MatrixRound, ...] = ()
    fedwad: Floats | None = None
    loops: Mapping[Pair, FedWaDLoop] = field(default_factory=dict)
    contributions: Mapping[Pair, Floats] = field(default_factory=dict)
    private: PrivateDistances | None = None

    @property
    def summaries(self) -> list[Summary | LabelledSummary]:
        """The summary of each site."""
        return [reply.summary for reply in self.replies]


def step_counter(stage: str, total: int, task: MatrixTask) -> Callable[[], None]:
    """Return a function to call after each of `total` steps of a stage."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        task.report(Progress(stage, done, total))

    return count


def index_of(sites: Sequence[str], name: Any, what: str) -> int:
    """The place of a site in a result; InputError, which names a few of its sites, without it."""
    if isinstance(name, str) and name in sites:
        return sites.index(name)
    some = ", ".join(sites[:5]) + (", ..." if len(sites) > 5 else "")
    raise InputError(
        f"There is no site {format_value(name)} in this {what}; it has {some}.", "unknown-site"
    )


def as_sites(a: Any, b: Any) -> tuple[Site, Site]:
    """Return `a` and `b` if they are sites of one federation; data become sites of a local one,
    files by their names and others as a and b."""
    if isinstance(a, Site) and isinstance(b, Site):
        if a.federation is not b.federation:
            raise InputError(
                "The two sites belong to different federations; take both from one.", "mixed-sites"
            )
        return a, b
    if isinstance(a, Site) or isinstance(b, Site):
        raise InputError(
            "A site and plain data cannot be mixed; put the data into the same federation.",
            "mixed-sites",
        )
    first, second = "a", "a" if a is b else "b"
    if a is not b and all(isinstance(one, str | Path) and Path(one).is_file() for one in (a, b)):
        named = tuple(files_by_site([Path(a), Path(b)]))  # one name if both are the same file
        first, second = named if len(named) == 2 else (first, second)
    fed = local({first: a, second: b})
    return fed[first], fed[second]
