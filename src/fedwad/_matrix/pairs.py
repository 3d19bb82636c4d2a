"""Pair by pair, as in the paper: FedWaD between each two clients."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from fedwad._distance.api import conclude, pooled_start
from fedwad._distance.rounds import FedWaD
from fedwad._matrix.options import Found, MatrixOptions, Progress, pairs_of, same_features
from fedwad._matrix.result import MatrixRound
from fedwad.errors import FederationError
from fedwad.federation import (
    Bundle,
    BundleReply,
    CellsRequest,
    Failure,
    MeteredFederation,
    Moments,
    MomentsRequest,
    SummaryReply,
    TransportReply,
    error_of,
)
from fedwad.ot import (
    LabelledSummary,
    Measure,
    Summary,
    solve,
)

__all__ = ["by_pairs"]

R = TypeVar("R", TransportReply, SummaryReply)


def by_pairs(line: MeteredFederation, options: MatrixOptions) -> Found:
    """The paper's protocol: a FedWaD of its own for each pair, all of a round in one message to
    each client."""
    replies = line.ask(
        dict.fromkeys(options.names, MomentsRequest(options.classes)),
        Moments,
        tolerate=True,
        at_least=2,
    )
    same_features({name: len(reply.mean) for name, reply in replies.items()}, options.classes)
    names, history = tuple(replies), list[MatrixRound]()
    loops = {}
    for i, j in pairs_of(len(names)):
        rng = np.random.default_rng([options.seed, i, j])
        start = pooled_start([replies[names[i]], replies[names[j]]], options.support, rng)
        loops[names[i], names[j]] = FedWaD(start, rng=rng, classes=options.classes)
    for number in range(1, options.rounds + 1):
        options.tell(Progress("rounds", number - 1, options.rounds))
        since = time.perf_counter()
        before = {pair: loop.support for pair, loop in loops.items()}
        asked = {pair: loop.request() for pair, loop in loops.items()}
        told, names = _ask_pairs(line, names, asked, TransportReply)
        loops = {pair: loop for pair, loop in loops.items() if set(pair) <= set(names)}
        shifts = []
        for pair, loop in loops.items():
            loop.advance(told[pair, 0], told[pair, 1])
            shifts.append(_shift(before[pair], loop.support))
        history.append(
            MatrixRound(
                number, time.perf_counter() - since, float(np.sqrt(np.mean(np.square(shifts))))
            )
        )
    options.tell(Progress("rounds", options.rounds, options.rounds))
    closing = {
        pair: CellsRequest(loop.run, loop.support, 2.0, options.covariance_type, options.classes)
        for pair, loop in loops.items()
    }
    cells, names = _ask_pairs(line, names, closing, SummaryReply)
    value, lower, upper, fedwad = (np.zeros((len(names), len(names))) for _ in range(4))
    summaries: list[Summary | LabelledSummary] = []
    chosen = [pair for pair in loops if set(pair) <= set(names)]
    for done, pair in enumerate(chosen, 1):
        found, paper = conclude(
            cells[pair, 0], cells[pair, 1], 2.0, options.seed, among=len(chosen)
        )
        i, j = names.index(pair[0]), names.index(pair[1])
        for table, number_found in (
            (value, found.value),
            (lower, found.lower),
            (upper, found.upper),
            (fedwad, paper),
        ):
            table[i, j] = table[j, i] = number_found
        summaries += [cells[pair, 0].summary, cells[pair, 1].summary]
        options.tell(Progress("estimating distances", done, len(chosen)))
    return Found(names, value, lower, upper, summaries, tuple(history), fedwad)


def _ask_pairs(
    line: MeteredFederation,
    names: tuple[str, ...],
    asked: Mapping[tuple[str, str], Any],
    expected: type[R],
) -> tuple[dict[tuple[tuple[str, str], int], R], tuple[str, ...]]:
    """Ask both clients of each pair, in one bundle for each client; the replies by pair and side,
    and who is left.

    A client that refuses one of its requests is lost as if it had refused all.
    """
    mine = {name: [pair for pair in asked if name in pair] for name in names}
    bundles = {name: Bundle(tuple(asked[pair] for pair in pairs)) for name, pairs in mine.items()}
    replies = line.ask(bundles, BundleReply, tolerate=True, at_least=2)
    found: dict[tuple[tuple[str, str], int], R] = {}
    left = []
    for name, bundle in replies.items():
        failures = [reply for reply in bundle.replies if not isinstance(reply, expected)]
        if failures:
            _lose(line, name, failures[0])
            continue
        left.append(name)
        for pair, reply in zip(mine[name], bundle.replies, strict=True):
            if isinstance(reply, expected):
                found[pair, pair.index(name)] = reply
    if len(left) < 2:
        raise FederationError(
            f"Fewer than two clients are left: {'; '.join(f'{k}: {v}' for k, v in line.failed.items())}"
        )
    return found, tuple(left)


def _lose(line: MeteredFederation, name: str, reply: Any) -> None:
    failure = (
        reply
        if isinstance(reply, Failure)
        else Failure("garbage", f"a {type(reply).__name__} came.")
    )
    if failure.code == "input":
        raise error_of(failure, name)
    line.failed[name] = failure.sentence


def _shift(before: Measure, after: Measure) -> float:
    if before.points.shape != after.points.shape:
        return solve(before, after).distance
    return math.sqrt(float(after.weights @ ((after.points - before.points) ** 2).sum(axis=1)))
