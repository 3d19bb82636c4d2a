"""Rounds in which sites shape the support that all of them transport their data to."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedwad._matrix.saved import MatrixRound
from fedwad.errors import InputError
from fedwad.federation import CellsRequest, ClassStatistics, MeteredFederation, SummaryReply
from fedwad.ot import Floats, Measure, Summary

__all__ = ["ShapedSupport", "cell_means", "shape_support"]


@dataclass(frozen=True, eq=False)
class ShapedSupport:
    """The support after the last round, the sites that answered every round, and the rounds.

    Requests for cells of this support carry `run`.
    """

    run: str
    support: Measure
    names: tuple[str, ...]
    history: tuple[MatrixRound, ...]


def shape_support(
    metered: MeteredFederation,
    names: Sequence[str],
    support: Measure,
    class_statistics: ClassStatistics,
    rounds: int,
    report: Callable[[int], None],
    at_least: int,
) -> ShapedSupport:
    """Move the support to the mean of the sites' cell means in each round, z_s <- mean_c x_s^c.

    `report` is called with the number of rounds done before each round. Sites that fail are left
    out, as long as `at_least` so many remain.
    """
    run, names, history = os.urandom(8).hex(), tuple(names), list[MatrixRound]()
    for number in range(1, rounds + 1):
        report(number - 1)
        since = time.perf_counter()
        request = CellsRequest(run, support, 2.0, "spherical", class_statistics)
        replies = metered.ask(
            dict.fromkeys(names, request), SummaryReply, allow_failures=True, at_least=at_least
        )
        names = tuple(replies)
        means = [cell_means(reply, support) for reply in replies.values()]
        moved = Measure(np.mean(means, axis=0), support.weights)
        shift = support.weights @ ((moved.points - support.points) ** 2).sum(axis=1)
        history.append(MatrixRound(number, time.perf_counter() - since, math.sqrt(float(shift))))
        support = moved
    return ShapedSupport(run, support, names, tuple(history))


def cell_means(reply: SummaryReply, support: Measure) -> Floats:
    """Return the cell means of a reply, one for each point of the support."""
    summary = reply.summary
    if not isinstance(summary, Summary) or summary.means.shape != support.points.shape:
        raise InputError(
            "A site has too few samples to reach all points of the support; take a smaller one."
        )
    return summary.means
