"""Attacks on summaries: drawing from one, and differencing many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad._audit._session import AttackSession
from fedwad.federation import Reply, SummaryReply, SummaryRequest
from fedwad.ot import Floats, Summary

__all__ = ["many_summaries", "one_summary", "rare_features"]

_QUERIES = 60
_SINGLE = 1e-6


def one_summary(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from the cells of one summary, each a Gaussian with its mean and the pooled
    covariance."""
    summary = _summary(session.ask(SummaryRequest(min(10, session.most), "auto", 2.0, 0)))
    if summary is None:
        return np.empty((0, session.features))
    cells = rng.choice(len(summary.weights), size=session.count, p=summary.weights)
    within = summary.within
    noise = rng.standard_normal((session.count, session.features))
    if within.ndim == 2:
        values, vectors = np.linalg.eigh(within)
        noise = noise @ (vectors * np.sqrt(np.maximum(values, 0))).T
    else:
        noise = noise * np.sqrt(within)
    return np.asarray(summary.means[cells] + noise)


def rare_features(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """One summary with all of its covariance: a feature that is the same for all records but one
    gives that one away.

    Let x_j = b for all records but one, x*. The total moments tell v = n E[x_j - b] = x*_j - b and
    n E[(x_j - b)^2], which is v^2 if there is only one such record; then n E[(x_j - b) x] / v = x*,
    in all features.
    """
    summary = _summary(session.ask(SummaryRequest(min(10, session.most), "full", 2.0, 0)))
    if summary is None or (summary.within.ndim < 2 and summary.factors is None):
        return np.empty((0, session.features))
    within = (
        summary.covariance
        if summary.factors is None
        else np.diag(summary.covariance) + summary.factors.T @ summary.factors
    )
    n, mean = session.count, summary.mean
    second = within + (summary.means.T * summary.weights) @ summary.means
    found = []
    for j, base in enumerate(np.median(summary.means, axis=0)):
        value = n * (mean[j] - base)
        square = n * (second[j, j] - 2 * base * mean[j] + base**2)
        if value != 0 and abs(square / value**2 - 1) < _SINGLE:
            found.append(n * (second[j] - base * mean) / value)
    return np.array(found[:n]) if found else np.empty((0, session.features))


def many_summaries(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Summaries with other cells and seeds: two cells that differ by one record give that record
    away.

    Weights tell how many records a cell holds. Where one holds c and another c + 1, the candidate
    is the difference of their sums. If the cells are the same but for one record, that is the
    record; otherwise it lies far away, since the difference of the means is magnified c times. The
    candidates nearest to their cell are the guesses.
    """
    most = max(1, min(session.most, session.count // 10))
    queries = (
        _QUERIES
        if session.policy.max_queries is None
        else min(_QUERIES, session.policy.max_queries)
    )
    counts: list[NDArray[np.int64]] = []
    means: list[Floats] = []
    for k in range(queries):
        summary = _summary(session.ask(SummaryRequest(max(1, most - k // 20), "spherical", 2.0, k)))
        if summary is None:
            if not session.answered or session.is_spent:
                break
            continue
        counts.append(np.rint(summary.weights * session.count).astype(np.int64))
        means.append(summary.means)
    if not means:
        return np.empty((0, session.features))
    return candidates(np.concatenate(counts), np.concatenate(means), session.count)


def candidates(counts: NDArray[np.int64], means: Floats, most: int) -> Floats:
    """Differences of the sums of cells that hold c and c + 1 records, nearest to their cell first,
    each once."""
    fewer, more = np.nonzero(counts[None, :] - counts[:, None] == 1)
    if not len(fewer):
        return np.asarray(means[:most])
    found = means[fewer] + counts[more][:, None] * (means[more] - means[fewer])
    order = np.argsort(((found - means[fewer]) ** 2).sum(axis=1), kind="stable")[: 20 * most]
    size = float(np.abs(means).max()) or 1.0
    rounded = np.round(found[order] / (1e-8 * size))
    _, first = np.unique(rounded, axis=0, return_index=True)
    return np.asarray(found[order][np.sort(first)][:most])


def _summary(reply: Reply | None) -> Summary | None:
    if isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary):
        return reply.summary
    return None
