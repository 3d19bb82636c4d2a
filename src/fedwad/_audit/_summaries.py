"""Attacks on summaries: drawing from one, and differencing many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad._audit._session import AttackSession
from fedwad.federation import Reply, SummaryReply, SummaryRequest
from fedwad.ot import (
    Calibration,
    Floats,
    LabelledSummary,
    Measure,
    Summary,
    SyntheticSample,
    calibrate,
)

__all__ = ["many_summaries", "one_summary", "rare_features"]

_QUERIES = 60
_TRIALS = 5  # samples, of which the one with the most similar numbers of splits is taken
_SINGLE = 1e-6  # relative error up to which a feature deviates in one record only


def one_summary(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from the cells of one summary, each a Gaussian with its mean and the pooled
    covariance; class by class, if there are labels and the site answers about them."""
    by_class = _by_class(session, rng) if session.has_labels else None
    if by_class is not None:
        return by_class
    summary = _summary(session.ask(SummaryRequest(min(10, session.max_support), "auto", 2.0, 0)))
    if summary is None:
        return session.nothing
    cells = rng.choice(len(summary.weights), size=session.count, p=summary.weights)
    within = summary.within
    noise = rng.standard_normal((session.count, session.features))
    if within.ndim == 2:
        values, vectors = np.linalg.eigh(within)
        noise = noise @ (vectors * np.sqrt(np.maximum(values, 0))).T
    else:
        noise = noise * np.sqrt(within)
    return np.asarray(summary.means[cells] + noise)


def _by_class(session: AttackSession, rng: np.random.Generator) -> Floats | None:
    """Draws class by class. Of several samples, the one whose numbers of splits are most similar
    to those of the site is taken."""
    request = SummaryRequest(min(10, session.max_support), "auto", 2.0, 0, "diag")
    reply = session.ask(request)
    if not isinstance(reply, SummaryReply) or not isinstance(reply.summary, LabelledSummary):
        return None
    parts, known = reply.summary.parts, reply.calibration
    drawings = [SyntheticSample.of(part) for part in parts]
    codes = np.repeat(np.arange(len(parts)), [part.count for part in parts])
    best, least = session.nothing, np.inf
    for _ in range(1 if known is None else _TRIALS):
        sizes = ((one, one.summary.count) for one in drawings)
        drawn = np.concatenate([one.draw(size, rng).points for one, size in sizes])
        misfit = 0.0
        if known is not None:
            kind = reply.summary.covariance_type
            own = calibrate(Measure(drawn), request.cells, kind, codes=codes)
            misfit = _misfit(own, known)
        if misfit < least:
            best, least = drawn, misfit
    return best


def _misfit(own: Calibration, known: Calibration) -> float:
    """How far the numbers of splits of a sample are from those of the site."""
    pairs = ((own.noise, known.noise), (own.noise_quarter, known.noise_quarter))
    misfit = sum(abs(np.log(max(a, 1e-300) / max(b, 1e-300))) for a, b in pairs)
    if own.features is not None and known.features is not None:
        misfit += float(np.abs(own.features - known.features).sum())
    return float(misfit)


def rare_features(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """One summary with a full covariance: a feature that is constant for all records but one
    reveals that record.

    Let x_j = b for all records but one, x*. The total moments contain v = n E[x_j - b] = x*_j - b
    and n E[(x_j - b)^2], which is v^2 if there is only one such record. Then
    n E[(x_j - b) x] / v = x* in all features.
    """
    summary = _summary(session.ask(SummaryRequest(min(10, session.max_support), "full", 2.0, 0)))
    if summary is None or (summary.within.ndim < 2 and summary.factors is None):
        return session.nothing
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
    return np.array(found[:n]) if found else session.nothing


def many_summaries(session: AttackSession, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """Ask for summaries with different cells and seeds: two cells that differ by one record
    reveal it.

    The weights give the number of records in a cell. For cells of c and c + 1 records, the
    candidate is the difference of their sums. If the cells are equal except for one record, the
    candidate is that record; otherwise it lies far away, because the difference of the means is
    multiplied by c. The candidates nearest to their cell are the guesses.
    """
    max_cells = max(1, min(session.max_support, session.count // 10))
    counts: list[NDArray[np.int64]] = []
    means: list[Floats] = []
    for k in range(session.queries(_QUERIES)):
        request = SummaryRequest(
            max(1, max_cells - k // 20), "spherical", 2.0, k, calibration=False
        )
        summary = _summary(session.ask(request))
        if summary is None:
            if session.is_hopeless:
                break
            continue
        counts.append(np.rint(summary.weights * session.count).astype(np.int64))
        means.append(summary.means)
    if not means:
        return session.nothing
    return candidates(np.concatenate(counts), np.concatenate(means), session.count)


def candidates(counts: NDArray[np.int64], means: Floats, max_candidates: int) -> Floats:
    """Distinct differences between sums of cells of c and c + 1 records, nearest to their cell
    first."""
    fewer, more = np.nonzero(counts[None, :] - counts[:, None] == 1)
    if not len(fewer):
        return np.asarray(means[:max_candidates])
    found = means[fewer] + counts[more][:, None] * (means[more] - means[fewer])
    order = np.argsort(((found - means[fewer]) ** 2).sum(axis=1), kind="stable")[
        : 20 * max_candidates
    ]
    size = float(np.abs(means).max()) or 1.0
    rounded = np.round(found[order] / (1e-8 * size))
    _, first = np.unique(rounded, axis=0, return_index=True)
    return np.asarray(found[order][np.sort(first)][:max_candidates])


def _summary(reply: Reply | None) -> Summary | None:
    if isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary):
        return reply.summary
    return None
