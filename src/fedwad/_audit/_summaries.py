"""Attacks on summaries: drawing from one, and differencing many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad._audit._session import AttackSession
from fedwad.federation import SummaryReply, SummaryRequest
from fedwad.ot import (
    Calibration,
    Floats,
    LabelledSummary,
    Measure,
    Summary,
    SyntheticSample,
    calibrate,
)

__all__ = [
    "difference_cells",
    "difference_summaries",
    "draw_from_cells",
    "draw_from_summary",
    "find_rare_records",
]

_QUERIES = 60
_TRIALS = 5  # synthetic samples that are drawn, of which the best is taken
_SINGLE = 1e-6  # largest relative error if a feature deviates in a single record


def draw_from_summary(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from one summary; class by class, if the site has labels and answers about them."""
    by_class = _draw_by_class(session, rng) if session.has_labels else None
    if by_class is not None:
        return by_class
    request = SummaryRequest(min(10, session.max_support), "auto", 2.0, 0)
    summary = session.ask_summary(request)
    return session.no_guesses if summary is None else draw_from_cells(session, summary, rng)


def draw_from_cells(session: AttackSession, summary: Summary, rng: np.random.Generator) -> Floats:
    """n draws from Gaussians with the means of the cells and their pooled covariance."""
    cells = rng.choice(len(summary.weights), size=session.count, p=summary.weights)
    noise = rng.standard_normal((session.count, session.features))
    if summary.within.ndim == 2:
        values, vectors = np.linalg.eigh(summary.within)
        noise = noise @ (vectors * np.sqrt(np.maximum(values, 0))).T
    else:
        noise = noise * np.sqrt(summary.within)
    return np.asarray(summary.means[cells] + noise)


def _draw_by_class(session: AttackSession, rng: np.random.Generator) -> Floats | None:
    """n draws, class by class: of several samples the one with the calibration nearest the site's.

    None if there is no summary by class.
    """
    request = SummaryRequest(min(10, session.max_support), "auto", 2.0, 0, "diag")
    reply = session.ask(request)
    if not isinstance(reply, SummaryReply) or not isinstance(reply.summary, LabelledSummary):
        return None
    parts, target = reply.summary.parts, reply.calibration
    samples = [SyntheticSample.of(part) for part in parts]
    codes = np.repeat(np.arange(len(parts)), [part.count for part in parts])
    best, smallest = session.no_guesses, np.inf
    for _ in range(1 if target is None else _TRIALS):
        points = np.concatenate(
            [sample.draw(sample.summary.count, rng).points for sample in samples]
        )
        difference = 0.0
        if target is not None:
            kind = reply.summary.covariance_type
            calibration = calibrate(Measure(points), request.cells, kind, codes=codes)
            difference = _calibration_difference(calibration, target)
        if difference < smallest:
            best, smallest = points, difference
    return best


def _calibration_difference(one: Calibration, other: Calibration) -> float:
    pairs = ((one.noise, other.noise), (one.noise_quarter, other.noise_quarter))
    difference = sum(abs(np.log(max(a, 1e-300) / max(b, 1e-300))) for a, b in pairs)
    if one.features is not None and other.features is not None:
        difference += float(np.abs(one.features - other.features).sum())
    return float(difference)


def find_rare_records(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Records that differ from all others in some feature j, from a full covariance.

    Let x_j = b for all records but one, x*. The moments of all records give
    v = n E[x_j - b] = x*_j - b and n E[(x_j - b)^2], which is v^2 if there is only one such record.
    Then n E[(x_j - b) x] / v = x* in all features.
    """
    request = SummaryRequest(min(10, session.max_support), "full", 2.0, 0)
    summary = session.ask_summary(request)
    if summary is None or (summary.within.ndim < 2 and summary.factors is None):
        return session.no_guesses
    within = (
        summary.covariance
        if summary.factors is None
        else np.diag(summary.covariance) + summary.factors.T @ summary.factors
    )
    n, mean = session.count, summary.mean
    second = within + (summary.means.T * summary.weights) @ summary.means
    guesses = []
    for j, base in enumerate(np.median(summary.means, axis=0)):
        value = n * (mean[j] - base)
        square = n * (second[j, j] - 2 * base * mean[j] + base**2)
        if value != 0 and abs(square / value**2 - 1) < _SINGLE:
            guesses.append(n * (second[j] - base * mean) / value)
    return np.array(guesses[:n]) if guesses else session.no_guesses


def difference_summaries(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Records by which two cells differ, from summaries with different cells and seeds.

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
        summary = session.ask_summary(request)
        if summary is None:
            if session.should_stop:
                break
            continue
        counts.append(np.rint(summary.weights * session.count).astype(np.int64))
        means.append(summary.means)
    if not means:
        return session.no_guesses
    return difference_cells(np.concatenate(counts), np.concatenate(means), session.count)


def difference_cells(counts: NDArray[np.int64], means: Floats, max_candidates: int) -> Floats:
    """Distinct differences of the sums of cells of c and c + 1 records, nearest to the cell first.

    The means themselves if no two cells have such counts.
    """
    fewer, more = np.nonzero(counts[None, :] - counts[:, None] == 1)
    if not len(fewer):
        return np.asarray(means[:max_candidates])
    candidates = means[fewer] + counts[more][:, None] * (means[more] - means[fewer])
    squares = ((candidates - means[fewer]) ** 2).sum(axis=1)
    order = np.argsort(squares, kind="stable")[: 20 * max_candidates]
    size = float(np.abs(means).max()) or 1.0
    rounded = np.round(candidates[order] / (1e-8 * size))
    _, first = np.unique(rounded, axis=0, return_index=True)
    return np.asarray(candidates[order][np.sort(first)][:max_candidates])
