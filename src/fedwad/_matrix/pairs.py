"""A matrix pair by pair, as in the paper: FedWaD between each two sites."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fedwad._distance.rounds import FedWaDLoop
from fedwad._distance.run import draw_support, estimate_from_cells
from fedwad._matrix.saved import MatrixRound
from fedwad._matrix.task import MatrixEstimates, MatrixTask, Progress, all_pairs, ask_moments
from fedwad._words import to_printable
from fedwad.errors import FederationError
from fedwad.federation import (
    MAX_BUNDLE,
    Bundle,
    BundleReply,
    CellsRequest,
    Failure,
    MeteredFederation,
    Moments,
    Reply,
    SummaryReply,
    TransportReply,
    error_of,
)
from fedwad.methods import Pairs
from fedwad.ot import Floats, LabelledSummary, Measure, Summary, solve

__all__ = ["estimate_by_pairs"]

R = TypeVar("R", TransportReply, SummaryReply)
NamedPair = tuple[str, str]
Loops = dict[NamedPair, FedWaDLoop]
Cells = dict[tuple[NamedPair, int], SummaryReply]


def estimate_by_pairs(
    metered: MeteredFederation, task: MatrixTask, method: Pairs
) -> MatrixEstimates:
    """Run one FedWaD for each pair, with all requests of a round in one message to each site."""
    replies = ask_moments(metered, task)
    names, loops = tuple(replies), _loops(replies, task, method)
    history = []
    for number in range(1, method.rounds + 1):
        task.report(Progress("rounds", number - 1, method.rounds))
        since = time.perf_counter()
        names, loops, shift = _round(metered, names, loops)
        history.append(MatrixRound(number, time.perf_counter() - since, shift))
    task.report(Progress("rounds", method.rounds, method.rounds))
    final_requests = {
        pair: CellsRequest(
            loop.run, loop.support, 2.0, method.covariance_type, task.class_statistics, True
        )
        for pair, loop in loops.items()
    }
    cells, names = _ask_pairs(metered, names, final_requests, SummaryReply)
    pairs = [pair for pair in loops if set(pair) <= set(names)]
    return _estimates(cells, pairs, names, task, tuple(history))


def _loops(replies: Mapping[str, Moments], task: MatrixTask, method: Pairs) -> Loops:
    names, loops = tuple(replies), {}
    for i, j in all_pairs(len(names)):
        rng = np.random.default_rng([task.seed, i, j])
        start = draw_support([replies[names[i]], replies[names[j]]], method.support, rng)
        loops[names[i], names[j]] = FedWaDLoop(
            start, rng=rng, class_statistics=task.class_statistics
        )
    return loops


def _round(
    metered: MeteredFederation, names: tuple[str, ...], loops: Loops
) -> tuple[tuple[str, ...], Loops, float]:
    """Move all supports by one round; return the remaining sites and pairs, and the mean shift."""
    before = {pair: loop.support for pair, loop in loops.items()}
    requests = {pair: loop.request() for pair, loop in loops.items()}
    replies, names = _ask_pairs(metered, names, requests, TransportReply)
    loops = {pair: loop for pair, loop in loops.items() if set(pair) <= set(names)}
    shifts = []
    for pair, loop in loops.items():
        loop.advance(replies[pair, 0], replies[pair, 1])
        shifts.append(_shift(before[pair], loop.support))
    return names, loops, float(np.sqrt(np.mean(np.square(shifts))))


def _estimates(
    cells: Cells,
    pairs: list[NamedPair],
    names: tuple[str, ...],
    task: MatrixTask,
    history: tuple[MatrixRound, ...],
) -> MatrixEstimates:
    tables = np.zeros((4, len(names), len(names)))
    summaries: list[Summary | LabelledSummary] = []
    first: dict[str, SummaryReply] = {}
    types: dict[str, str] = {}
    columns: dict[tuple[int, int], Floats] = {}
    for done, pair in enumerate(pairs, 1):
        mu, nu = cells[pair, 0], cells[pair, 1]
        found, paper = estimate_from_cells(mu, nu, 2.0, task.seed, total_pairs=len(pairs))
        i, j = names.index(pair[0]), names.index(pair[1])
        tables[:, i, j] = tables[:, j, i] = found.value, found.lower, found.upper, paper
        if found.columns is not None:
            columns[i, j] = found.columns
        summaries += [mu.summary, nu.summary]
        first = {pair[0]: mu, pair[1]: nu} | first
        types |= {pair[0]: mu.summary.covariance_type, pair[1]: nu.summary.covariance_type}
        task.report(Progress("estimating distances", done, len(pairs)))
    value, lower, upper, fedwad = tables
    sent = tuple(types[name] for name in names)
    chosen = [first[name] for name in names]
    summaries = [reply.summary for reply in chosen] + summaries
    found_splits = [reply.calibration for reply in chosen]
    return MatrixEstimates(
        names, value, lower, upper, summaries, sent, history, fedwad, found_splits, columns
    )


def _ask_pairs(
    metered: MeteredFederation,
    names: tuple[str, ...],
    asked: Mapping[NamedPair, Any],
    expected: type[R],
) -> tuple[dict[tuple[NamedPair, int], R], tuple[str, ...]]:
    """Ask both sites of each pair, with all requests to a site in one message, or in a few.

    Return the replies by pair and side, and the sites that answered. A site that refuses one of
    its requests counts as failed.
    """
    mine = {name: [pair for pair in asked if name in pair] for name in names}
    replies = _bundled(metered, mine, asked)
    found: dict[tuple[NamedPair, int], R] = {}
    left = []
    for name, came in replies.items():
        expected_ones = [reply for reply in came if isinstance(reply, expected)]
        if len(expected_ones) < len(came):
            _fail(metered, name, came, expected)
            continue
        left.append(name)
        for pair, reply in zip(mine[name], expected_ones, strict=True):
            found[pair, pair.index(name)] = reply
    _check_enough(metered, left)
    return found, tuple(left)


def _bundled(
    metered: MeteredFederation,
    mine: Mapping[str, Sequence[NamedPair]],
    asked: Mapping[NamedPair, Any],
) -> dict[str, list[Reply | Failure]]:
    """Replies of the sites that answered all of their bundles of requests."""
    came: dict[str, list[Reply | Failure]] = {name: [] for name in mine}
    for start in range(0, max(map(len, mine.values())), MAX_BUNDLE):
        parts = {name: mine[name][start : start + MAX_BUNDLE] for name in came}
        bundles = {
            name: Bundle(tuple(asked[pair] for pair in part))
            for name, part in parts.items()
            if part
        }
        replies = metered.ask(
            bundles, BundleReply, allow_failures=True, at_least=min(2, len(bundles))
        )
        for name in bundles:
            if name in replies:
                came[name] += replies[name].replies
            else:
                del came[name]
    return came


def _check_enough(metered: MeteredFederation, left: list[str]) -> None:
    if len(left) < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in metered.failed.items())
        raise FederationError(f"Fewer than two sites are left: {reasons}")


def _fail(
    metered: MeteredFederation, name: str, replies: Sequence[Any], expected: type[Any]
) -> None:
    reply = next(one for one in replies if not isinstance(one, expected))
    failure = (
        reply
        if isinstance(reply, Failure)
        else Failure("invalid_reply", f"a {type(reply).__name__} came.")
    )
    if failure.code == "input":
        raise error_of(failure, name)
    metered.failed[name] = to_printable(failure.sentence)


def _shift(before: Measure, after: Measure) -> float:
    if before.points.shape != after.points.shape:
        return solve(before, after).distance
    return math.sqrt(float(after.weights @ ((after.points - before.points) ** 2).sum(axis=1)))
