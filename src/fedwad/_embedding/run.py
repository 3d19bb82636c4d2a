"""The messages of an embedding: some sites shape a support, all sites transport to it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedwad._matrix.result import MatrixRound
from fedwad._matrix.shaping import ShapedSupport, cell_means, shape_support
from fedwad._matrix.task import Progress
from fedwad.errors import FederationError, InputError
from fedwad.federation import CellsRequest, ClassStatistics, MeteredFederation, SummaryReply
from fedwad.ot import CovarianceType, Measure

__all__ = ["EmbeddingTask", "SentCells", "ask_cells"]

_BATCH = 500  # sites in one round of the final messages
_MAX_FULL_FEATURES = 64  # with more features, "auto" asks for the diagonal only


@dataclass(frozen=True)
class EmbeddingTask:
    """The checked options of one embedding.

    `names` are the sites to ask. `report` is called with each step of progress.
    """

    names: tuple[str, ...]
    seed: int
    class_statistics: ClassStatistics
    support: int
    rounds: int
    clients_per_round: int
    covariance_type: CovarianceType
    report: Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class SentCells:
    """The shared support, the replies of all sites that transported to it, and the rounds."""

    support: Measure
    replies: dict[str, SummaryReply]
    history: tuple[MatrixRound, ...]


def ask_cells(metered: MeteredFederation, task: EmbeddingTask) -> SentCells:
    """Shape the support with some random sites, then ask each site for its cells once.

    The messages are those of the method "hub": moments, and cells of a transport to a support. A
    site that does not shape the support sends only one message.
    """
    shaped = shape_support(
        metered,
        _shaping_sites(task),
        task.class_statistics,
        size=task.support,
        seed=task.seed,
        rounds=task.rounds,
        report=lambda done: task.report(Progress("shaping the support", done, task.rounds)),
        at_least=1,
    )
    return SentCells(shaped.support, _ask_final_cells(metered, task, shaped), shaped.history)


def _shaping_sites(task: EmbeddingTask) -> list[str]:
    order = np.random.default_rng([task.seed, 1]).permutation(len(task.names))
    return [task.names[index] for index in sorted(order[: task.clients_per_round].tolist())]


def _ask_final_cells(
    metered: MeteredFederation, task: EmbeddingTask, shaped: ShapedSupport
) -> dict[str, SummaryReply]:
    """Return the cells of all sites that answer; at most `_BATCH` sites are asked at a time."""
    support, covariance_type = shaped.support, task.covariance_type
    if covariance_type == "auto":
        covariance_type = "full" if support.dimension <= _MAX_FULL_FEATURES else "diag"
    request = CellsRequest(shaped.run, support, 2.0, covariance_type, task.class_statistics)
    names = [name for name in task.names if name not in metered.failed]
    replies: dict[str, SummaryReply] = {}
    for start in range(0, len(names), _BATCH):
        task.report(Progress("asking sites", start, len(names)))
        batch = names[start : start + _BATCH]
        batch_replies = metered.ask(
            dict.fromkeys(batch, request),
            SummaryReply,
            allow_failures=True,
            at_least=0,
            blame_sites=True,
        )
        for name, reply in batch_replies.items():
            try:
                cell_means(reply, support)
            except InputError as problem:
                metered.leave_out(name, problem)
            else:
                replies[name] = reply
    task.report(Progress("asking sites", len(names), len(names)))
    if len(replies) < 2:
        reason = next(iter(metered.failed.values()), "no site answered.")
        raise FederationError(f"An embedding needs two sites that answer; the first said: {reason}")
    return replies
