"""Distances as other samples of the same populations would show them, for stability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fedwad.federation import KeptReply, SummaryReply
from fedwad.ot import Floats, Summary, SyntheticSample, solve

__all__ = ["kept_summaries", "resample_by_intervals", "resample_rows"]

_Z = NormalDist().inv_cdf(0.975)  # half the width of a 95% interval in standard errors


def kept_summaries(
    kept: Mapping[str, Sequence[KeptReply]], sites: Sequence[str]
) -> list[Summary] | None:
    """Return the summary of each site; None unless all sites allowed theirs to be kept."""
    summaries = []
    for name in sites:
        for one in kept.get(name, ()):
            if isinstance(one.reply, SummaryReply) and isinstance(one.reply.summary, Summary):
                summaries.append(one.reply.summary)
                break
        else:
            return None
    return summaries


@dataclass(frozen=True, eq=False)
class _CellChanges:
    """How the k cells of a site change if its rows are drawn again, R times.

    Attributes
    ----------
    weights : changes of the weights of cells (R, k)
    means : changes of the means of cells (R, k, d)
    mean_squares : expected squared lengths of the changes of means (k,)
    """

    weights: Floats
    means: Floats
    mean_squares: Floats

    @classmethod
    def of(cls, summary: Summary, draws: int, rng: np.random.Generator) -> _CellChanges:
        """Draw the changes from the cells of a summary."""
        cells = summary.cells
        counts = np.maximum(summary.count * cells.weights, 1.0)
        probabilities = cells.weights / cells.weights.sum()
        drawn_counts = rng.multinomial(summary.count, probabilities, draws)
        weights = drawn_counts / summary.count - probabilities
        synthetic = SyntheticSample.of(summary)
        means: Floats = np.zeros((draws, *cells.points.shape))
        for part in (synthetic.deviations, synthetic.factors):
            if part is not None:
                normals = rng.standard_normal((draws, len(cells), len(part)))
                means += normals @ part if part.ndim == 2 else normals * part
        means /= np.sqrt(counts)[:, None]
        return cls(weights, means, mean_squares=summary.variance / counts)


def resample_by_intervals(
    population: Floats, interval: tuple[Floats, Floats], draws: int, seed: int
) -> Iterator[Floats]:
    """Yield distances between populations that vary with the standard errors of their intervals.

    Half of the variance of a squared distance is assigned to each of its two sites, so the
    distances of one site vary together.
    """
    rng = np.random.default_rng(seed)
    count = len(population)
    std = (interval[1] ** 2 - interval[0] ** 2) / (2 * _Z)
    for _ in range(draws):
        site_errors = rng.standard_normal(count)
        shift = std * (site_errors[:, None] + site_errors) / np.sqrt(2)
        distances = np.sqrt(np.maximum(population**2 + shift, 0.0))
        np.fill_diagonal(distances, 0.0)
        yield (distances + distances.T) / 2


def resample_rows(
    summaries: Sequence[Summary], population: Floats, draws: int, seed: int
) -> Iterator[Floats]:
    """Yield distances between populations as other samples of the same sizes would show them.

    Rows of each site are drawn again from its cells, which gives the cells other weights and means.
    All distances of a site change with its rows. The transport plan between cells stays as it is:
    a change of weights adds its product with the potentials to a squared distance, and changed
    means alter the cost of the plan. The expectation of what is quadratic in the changes of means
    is subtracted.
    """
    rng = np.random.default_rng(seed)
    changes = [_CellChanges.of(summary, draws, rng) for summary in summaries]
    squares = np.repeat(population[None] ** 2, draws, axis=0)
    for i in range(len(summaries)):
        for j in range(i):
            change = _square_changes(summaries[i], summaries[j], changes[i], changes[j])
            squares[:, i, j] = squares[:, j, i] = squares[:, i, j] + change
    yield from np.sqrt(np.maximum(squares, 0.0))


def _square_changes(
    a: Summary, b: Summary, changes_a: _CellChanges, changes_b: _CellChanges
) -> Floats:
    """Return the changes of the squared distance of two sites, (R,)."""
    plan = solve(a.cells, b.cells)
    gaps = plan.source.points[plan.rows] - plan.target.points[plan.cols]
    shifts = changes_a.means[:, plan.rows] - changes_b.means[:, plan.cols]
    squares = (shifts * (shifts + 2 * gaps)).sum(axis=2)
    expected = changes_a.mean_squares[plan.rows] + changes_b.mean_squares[plan.cols]
    return np.asarray(
        (squares - expected) @ plan.mass + changes_a.weights @ plan.f + changes_b.weights @ plan.g
    )
