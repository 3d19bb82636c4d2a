"""Rounds that move a shared support, to which sites transport their data, towards these data."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedwad._distance.run import draw_support
from fedwad._matrix.saved import MatrixRound
from fedwad._matrix.task import ask_moments
from fedwad.errors import InputError
from fedwad.federation import CellsRequest, ClassStatistics, MeteredFederation, SummaryReply
from fedwad.ot import Floats, Measure, Summary

__all__ = ["ShapedSupport", "cell_means", "shape_support"]


@dataclass(frozen=True, eq=False)
class ShapedSupport:
    """The support after the last round, the sites that answered every round, and the rounds.

    `run` is a random name, which all requests for cells of the support carry.
    """

    run: str
    support: Measure
    names: tuple[str, ...]
    history: tuple[MatrixRound, ...]


def shape_support(
    metered: MeteredFederation,
    names: Sequence[str],
    class_statistics: ClassStatistics,
    size: int,
    seed: int,
    rounds: int,
    report: Callable[[int], None],
    at_least: int,
) -> ShapedSupport:
    """Draw a support of `size` points around the sites' pooled mean, and move it in rounds.

    Each round replaces each point by the mean over sites of the means of its cells. Before each
    round, `report` is called with the number of rounds done. Sites that fail are left out, as long
    as at least `at_least` sites remain.
    """
    moments = ask_moments(metered, names, class_statistics, at_least)
    support = draw_support(list(moments.values()), size, np.random.default_rng(seed))
    run, names, history = os.urandom(8).hex(), tuple(moments), list[MatrixRound]()
    for number in range(1, rounds + 1):
        report(number - 1)
        started = time.perf_counter()
        request = CellsRequest(run, support, 2.0, "spherical", class_statistics)
        replies = metered.ask(
            dict.fromkeys(names, request), SummaryReply, allow_failures=True, at_least=at_least
        )
        names = tuple(replies)
        means = [cell_means(reply, support) for reply in replies.values()]
        new_support = Measure(np.mean(means, axis=0), support.weights)
        squared_shift = support.weights @ ((new_support.points - support.points) ** 2).sum(axis=1)
        seconds = time.perf_counter() - started
        history.append(MatrixRound(number, seconds, math.sqrt(float(squared_shift))))
        support = new_support
    return ShapedSupport(run, support, names, tuple(history))


def cell_means(reply: SummaryReply, support: Measure) -> Floats:
    """Return the cell means of a reply, one for each point of the support."""
    summary = reply.summary
    if not isinstance(summary, Summary) or summary.means.shape != support.points.shape:
        raise InputError(
            "A site has too few samples to give each point of the support a cell; take a smaller"
            " support."
        )
    return summary.means
