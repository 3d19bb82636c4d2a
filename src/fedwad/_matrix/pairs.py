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
from fedwad._matrix.task import MatrixEstimates, MatrixTask, Pair, Progress, all_pairs, ask_moments
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
PairSide = tuple[NamedPair, int]  # a pair, and which of its two sites is meant, 0 or 1
Loops = dict[NamedPair, FedWaDLoop]


def estimate_by_pairs(
    metered: MeteredFederation, task: MatrixTask, method: Pairs
) -> MatrixEstimates:
    """Run one FedWaD for each pair, with all requests of a round in one message to each site."""
    moments = ask_moments(metered, task.names, task.class_statistics)
    names, loops = tuple(moments), _start_loops(moments, task, method)
    history = []
    for number in range(1, method.rounds + 1):
        task.report(Progress("rounds", number - 1, method.rounds))
        started = time.perf_counter()
        names, loops, shift = _advance_loops(metered, names, loops)
        history.append(MatrixRound(number, time.perf_counter() - started, shift))
    task.report(Progress("rounds", method.rounds, method.rounds))
    final_requests = {
        pair: CellsRequest(
            loop.run,
            loop.support,
            2.0,
            method.covariance_type,
            task.class_statistics,
            calibration=True,
        )
        for pair, loop in loops.items()
    }
    final_replies, names = _ask_pairs(metered, names, final_requests, SummaryReply)
    pairs = [pair for pair in loops if set(pair) <= set(names)]
    return _estimates(final_replies, pairs, names, task, tuple(history))


def _start_loops(moments: Mapping[str, Moments], task: MatrixTask, method: Pairs) -> Loops:
    names, loops = tuple(moments), {}
    for i, j in all_pairs(len(names)):
        rng = np.random.default_rng([task.seed, i, j])
        start = draw_support([moments[names[i]], moments[names[j]]], method.support, rng)
        loops[names[i], names[j]] = FedWaDLoop(
            start, rng=rng, class_statistics=task.class_statistics
        )
    return loops


def _advance_loops(
    metered: MeteredFederation, names: tuple[str, ...], loops: Loops
) -> tuple[tuple[str, ...], Loops, float]:
    """Move all supports by one round; return the remaining sites, their loops, and the root mean
    square shift of the supports."""
    before = {pair: loop.support for pair, loop in loops.items()}
    requests = {pair: loop.request() for pair, loop in loops.items()}
    replies, names = _ask_pairs(metered, names, requests, TransportReply)
    loops = {pair: loop for pair, loop in loops.items() if set(pair) <= set(names)}
    shifts = []
    for pair, loop in loops.items():
        loop.advance(replies[pair, 0], replies[pair, 1])
        shifts.append(_support_shift(before[pair], loop.support))
    return names, loops, float(np.sqrt(np.mean(np.square(shifts))))


def _estimates(
    replies: Mapping[PairSide, SummaryReply],
    pairs: list[NamedPair],
    names: tuple[str, ...],
    task: MatrixTask,
    history: tuple[MatrixRound, ...],
) -> MatrixEstimates:
    """Return bounds and estimates for all pairs from the final replies."""
    tables = np.zeros((4, len(names), len(names)))
    summaries: list[Summary | LabelledSummary] = []
    first_replies: dict[str, SummaryReply] = {}
    types: dict[str, str] = {}
    contributions: dict[Pair, Floats] = {}
    for done, pair in enumerate(pairs, 1):
        mu, nu = replies[pair, 0], replies[pair, 1]
        own, paper_value = estimate_from_cells(mu, nu, 2.0, task.seed, len(pairs))
        i, j = names.index(pair[0]), names.index(pair[1])
        tables[:, i, j] = tables[:, j, i] = own.value, own.lower, own.upper, paper_value
        if own.columns is not None:
            contributions[i, j] = own.columns
        summaries += [mu.summary, nu.summary]
        first_replies = {pair[0]: mu, pair[1]: nu} | first_replies
        types |= {pair[0]: mu.summary.covariance_type, pair[1]: nu.summary.covariance_type}
        task.report(Progress("estimating distances", done, len(pairs)))
    value, lower, upper, fedwad = tables
    site_replies = [first_replies[name] for name in names]
    return MatrixEstimates(
        sites=names,
        value=value,
        lower=lower,
        upper=upper,
        summaries=[reply.summary for reply in site_replies] + summaries,
        covariance_types=tuple(types[name] for name in names),
        history=history,
        fedwad=fedwad,
        calibrations=[reply.calibration for reply in site_replies],
        contributions=contributions,
    )


def _ask_pairs(
    metered: MeteredFederation,
    names: tuple[str, ...],
    requests: Mapping[NamedPair, Any],
    expected: type[R],
) -> tuple[dict[PairSide, R], tuple[str, ...]]:
    """Ask both sites of each pair, with all requests to a site in one message, or in a few.

    Return the replies by pair and side, and the sites that answered. A site that refuses one of
    its requests counts as failed.
    """
    pairs_by_site = {name: [pair for pair in requests if name in pair] for name in names}
    answers_by_site = _ask_in_bundles(metered, pairs_by_site, requests)
    replies: dict[PairSide, R] = {}
    remaining = []
    for name, answers in answers_by_site.items():
        valid = [answer for answer in answers if isinstance(answer, expected)]
        if len(valid) < len(answers):
            _record_failure(metered, name, answers, expected)
            continue
        remaining.append(name)
        for pair, reply in zip(pairs_by_site[name], valid, strict=True):
            replies[pair, pair.index(name)] = reply
    if len(remaining) < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in metered.failed.items())
        raise FederationError(f"Fewer than two sites are left: {reasons}")
    return replies, tuple(remaining)


def _ask_in_bundles(
    metered: MeteredFederation,
    pairs_by_site: Mapping[str, Sequence[NamedPair]],
    requests: Mapping[NamedPair, Any],
) -> dict[str, list[Reply | Failure]]:
    """Return one answer to each request of the sites that answered all of their bundles."""
    answers: dict[str, list[Reply | Failure]] = {name: [] for name in pairs_by_site}
    for start in range(0, max(map(len, pairs_by_site.values())), MAX_BUNDLE):
        parts = {name: pairs_by_site[name][start : start + MAX_BUNDLE] for name in answers}
        bundles = {
            name: Bundle(tuple(requests[pair] for pair in part))
            for name, part in parts.items()
            if part
        }
        replies = metered.ask(
            bundles, BundleReply, allow_failures=True, at_least=min(2, len(bundles))
        )
        for name in bundles:
            if name in replies:
                answers[name] += replies[name].replies
            else:
                del answers[name]
    return answers


def _record_failure(
    metered: MeteredFederation, name: str, answers: Sequence[Any], expected: type[Any]
) -> None:
    """List the site in `failed`; raise its failure if it says that the request is wrong."""
    failure = next(one for one in answers if not isinstance(one, expected))
    if not isinstance(failure, Failure):
        failure = Failure("invalid_reply", f"a {type(failure).__name__} came.")
    if failure.code == "input":
        raise error_of(failure, name)
    metered.failed[name] = to_printable(failure.sentence)


def _support_shift(before: Measure, after: Measure) -> float:
    """Return the root mean square shift of the points, or W2 if their number changed."""
    if before.points.shape != after.points.shape:
        return solve(before, after).distance
    return math.sqrt(float(after.weights @ ((after.points - before.points) ** 2).sum(axis=1)))
