"""Attacks on summaries and prototypes, which are means of cells: drawing and differencing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedwad.audit.session import AttackSession, attack, need
from fedwad.federation import Prototypes, PrototypesRequest, SummaryReply, SummaryRequest
from fedwad.statistics import LabelledSummary, Summary, SyntheticSample, calibrate
from fedwad.statistics.populations import root_of
from fedwad.transport import Floats, Measure


@attack("drawing from one summary", "one summary")
def draw_from_summary(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from one summary; class by class, if the site has labels and answers about them."""
    by_class = _draw_by_class(session, rng) if session.has_labels else None
    if by_class is not None:
        return by_class
    request = SummaryRequest(min(10, session.max_support), "auto", 2.0, 0)
    return draw_from_cells(session, need(session.ask_summary(request)), rng)


def draw_from_cells(session: AttackSession, summary: Summary, rng: np.random.Generator) -> Floats:
    """n draws from Gaussians with the means of the cells and their pooled covariance."""
    cells = rng.choice(len(summary.weights), size=session.count, p=summary.weights)
    noise = rng.standard_normal((session.count, session.features))
    if summary.within.ndim == 2:
        noise = noise @ root_of(summary.within)
    else:
        noise = noise * np.sqrt(summary.within)
    return np.asarray(summary.means[cells] + noise)


def _draw_by_class(
    session: AttackSession, rng: np.random.Generator, trials: int = 5
) -> Floats | None:
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
    for _ in range(1 if target is None else trials):
        points = np.concatenate([one.draw(one.summary.count, rng).points for one in samples])
        difference = 0.0
        if target is not None:
            kind = reply.summary.covariance_type
            own = calibrate(Measure(points), request.cells, kind, codes=codes)
            pairs = (own.noise, target.noise), (own.noise_quarter, target.noise_quarter)
            difference = sum(abs(np.log(max(a, 1e-300) / max(b, 1e-300))) for a, b in pairs)
        if difference < smallest:
            best, smallest = points, difference
    return best


@attack("rare features", "one summary with its covariance", on_all=True)
def find_rare_records(
    session: AttackSession, rng: np.random.Generator, tolerance: float = 1e-6
) -> Floats:
    """Records that differ from all others in some feature j, from a full covariance.

    Let x_j = b for all records but one, x*. The moments of all records give
    v = n E[x_j - b] = x*_j - b and n E[(x_j - b)^2], which is v^2 if there is only one such record.
    Then n E[(x_j - b) x] / v = x* in all features.
    """
    request = SummaryRequest(min(10, session.max_support), "full", 2.0, 0)
    summary = need(session.ask_summary(request))
    if summary.within.ndim < 2 and summary.factors is None:
        return session.no_guesses
    within = summary.covariance
    if summary.factors is not None:
        within = np.diag(within) + summary.factors.T @ summary.factors
    n, mean = session.count, summary.mean
    second = within + (summary.means.T * summary.weights) @ summary.means
    guesses = []
    for j, base in enumerate(np.median(summary.means, axis=0)):
        value = n * (mean[j] - base)
        square = n * (second[j, j] - 2 * base * mean[j] + base**2)
        if value != 0 and abs(square / value**2 - 1) < tolerance:
            guesses.append(n * (second[j] - base * mean) / value)
    return np.array(guesses[:n]) if guesses else session.no_guesses


@attack("differencing of summaries", "summaries with other cells and seeds")
def difference_summaries(
    session: AttackSession, rng: np.random.Generator, queries: int = 60
) -> Floats:
    """Records by which two cells differ, from summaries with different cells and seeds.

    The weights give the number of records in a cell. For cells of c and c + 1 records, the
    candidate is the difference of their sums. If the cells are equal except for one record, the
    candidate is that record; otherwise it lies far away, because the difference of the means is
    multiplied by c. The candidates nearest to their cell are the guesses.
    """
    max_cells = max(1, min(session.max_support, session.count // 10))
    counts: list[NDArray[np.int64]] = []
    means: list[Floats] = []
    for k in range(session.queries(queries)):
        cells = max(1, max_cells - k // 20)
        request = SummaryRequest(cells, "spherical", 2.0, k, calibration=False)
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


@attack("differencing of prototypes", "prototypes of different numbers and seeds")
def difference_prototypes(
    session: AttackSession, rng: np.random.Generator, queries: int = 60
) -> Floats:
    """Records by which two cells of a class differ, from prototypes of many sizes and seeds."""
    max_atoms = max(1, min(session.max_support, session.count // 10))
    cells: dict[object, list[tuple[Floats, Floats]]] = {}  # weights and points, by class
    for k in range(session.queries(queries)):
        reply = session.ask(PrototypesRequest(max(1, max_atoms - k // 20), "class", "free", k))
        if not isinstance(reply, Prototypes):
            if session.should_stop:
                break
            continue
        for code, name in enumerate(reply.names):
            in_class = reply.labels == code
            cells.setdefault(name, []).append((reply.weights[in_class], reply.points[in_class]))
    guesses = []
    for parts in cells.values():
        weights, points = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        n_class = round(float(parts[0][0].sum()) * session.count)  # at most so many candidates
        counts = np.rint(weights * session.count).astype(np.int64)
        guesses.append(difference_cells(counts, points, n_class))
    return np.concatenate(guesses) if guesses else session.no_guesses
