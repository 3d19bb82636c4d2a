"""Distances as samples of other rows would show them: rows are drawn again from summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fedwad.federation import Kept, SummaryReply
from fedwad.ot import Floats, Summary, SyntheticSample, solve

__all__ = ["drawn_again", "kept_summaries", "rows_drawn_again", "sampled_again"]

_Z = NormalDist().inv_cdf(0.975)


def drawn_again(
    population: Floats,
    interval: tuple[Floats, Floats],
    summaries: Sequence[Summary] | None,
    draws: int,
    seed: int,
) -> Iterator[Floats]:
    """Yield distances as samples of other rows would show them; without summaries, by intervals."""
    if summaries is None:
        return sampled_again(population, interval, draws, seed)
    return rows_drawn_again(summaries, population, draws, seed)


def kept_summaries(
    kept: Mapping[str, Sequence[Kept]], sites: Sequence[str]
) -> list[Summary] | None:
    """Return the summary of each site; None unless all sites allowed theirs to be kept."""
    found = []
    for name in sites:
        replies = [one.reply for one in kept.get(name, ())]
        for reply in replies:
            if isinstance(reply, SummaryReply) and isinstance(reply.summary, Summary):
                found.append(reply.summary)
                break
    return found if len(found) == len(sites) else None


@dataclass(frozen=True, eq=False)
class _Drawn:
    """How cells of a site change if its rows are drawn again, R times.

    Attributes
    ----------
    weights : changes of weights (R, k)
    means : changes of means (R, k, d)
    noise : expected squared length of those (k,)
    """

    weights: Floats
    means: Floats
    noise: Floats

    @classmethod
    def of(cls, summary: Summary, draws: int, rng: np.random.Generator) -> _Drawn:
        cells = summary.cells
        counts = np.maximum(summary.count * cells.weights, 1.0)
        shares = cells.weights / cells.weights.sum()
        weights = rng.multinomial(summary.count, shares, draws) / summary.count - shares
        synthetic = SyntheticSample.of(summary)
        means: Floats = np.zeros((draws, *cells.points.shape))
        for part in (synthetic.deviations, synthetic.factors):
            if part is not None:
                noise = rng.standard_normal((draws, len(cells), len(part)))
                means += noise @ part if part.ndim == 2 else noise * part
        means /= np.sqrt(counts)[:, None]
        return cls(weights, means, summary.variance / counts)


def sampled_again(
    population: Floats, interval: tuple[Floats, Floats], draws: int, seed: int
) -> Iterator[Floats]:
    """Yield distances between populations that vary as their intervals say.

    Half of the variance of a squared distance is due to either site, so the distances of one site
    vary together.
    """
    rng = np.random.default_rng(seed)
    count = len(population)
    std = (interval[1] ** 2 - interval[0] ** 2) / (2 * _Z)
    for _ in range(draws):
        each = rng.standard_normal(count)
        shift = std * (each[:, None] + each) / np.sqrt(2)
        drawn = np.sqrt(np.maximum(population**2 + shift, 0.0))
        np.fill_diagonal(drawn, 0.0)
        yield (drawn + drawn.T) / 2


def rows_drawn_again(
    summaries: Sequence[Summary], population: Floats, draws: int, seed: int
) -> Iterator[Floats]:
    """Yield distances between populations as samples of other rows would show them.

    Rows of each site are drawn again from its cells, which gives them other weights and means. All
    distances of a site change with its rows. The transport between cells stays as it is, so a
    squared distance changes by its potentials and by how far means have moved. The expectation of
    the latter is subtracted.
    """
    rng = np.random.default_rng(seed)
    changes = [_Drawn.of(summary, draws, rng) for summary in summaries]
    squares = np.repeat(population[None] ** 2, draws, axis=0)
    for i in range(len(summaries)):
        for j in range(i):
            change = _change(summaries[i], summaries[j], changes[i], changes[j])
            squares[:, i, j] = squares[:, j, i] = squares[:, i, j] + change
    yield from np.sqrt(np.maximum(squares, 0.0))


def _change(a: Summary, b: Summary, of_a: _Drawn, of_b: _Drawn) -> Floats:
    """Changes of a squared distance, (R,)."""
    plan = solve(a.cells, b.cells)
    gaps = plan.source.points[plan.rows] - plan.target.points[plan.cols]
    moved = of_a.means[:, plan.rows] - of_b.means[:, plan.cols]
    squares = (moved * (moved + 2 * gaps)).sum(axis=2)
    expected = of_a.noise[plan.rows] + of_b.noise[plan.cols]
    return np.asarray(
        (squares - expected) @ plan.mass + of_a.weights @ plan.f + of_b.weights @ plan.g
    )
