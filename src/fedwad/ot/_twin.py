"""The twin estimate: rebuild both samples from their summaries and transport the twins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._measure import Floats, Measure
from fedwad.ot._solve import solve
from fedwad.ot._summary import Summary

__all__ = ["Twin", "twin_distance"]

#: Largest number of points of a twin that is transported; beyond, the result is extrapolated.
CAP = 1500
_LADDER = (250, 500, 1000, CAP)
_POINTS = 4000  # drawn in all for each size, which sets the number of draws
_EXPONENTS = np.linspace(0.05, 1.0, 96)


@dataclass(frozen=True, eq=False)
class Twin:
    """Artificial samples with the cells of a summary: Gaussians around its cell means, with its covariance."""

    summary: Summary
    root: Floats  # (d, d) or (d,): a square root of the covariance within cells

    @classmethod
    def of(cls, summary: Summary) -> Twin:
        if summary.form != "full":
            return cls(summary, np.sqrt(np.broadcast_to(summary.covariance, summary.dimension)))
        values, vectors = np.linalg.eigh(summary.covariance)
        return cls(summary, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)

    def draw(self, size: int, rng: np.random.Generator) -> Measure:
        """`size` points, as many in each cell as its weight asks for, whose cell means are exact."""
        summary = self.summary
        ends = np.rint(np.cumsum(summary.weights) / summary.weights.sum() * size).astype(np.int64)
        counts = np.diff(ends, prepend=0)
        occupied = np.flatnonzero(counts)
        counts = counts[occupied]
        noise = rng.standard_normal((size, summary.dimension))
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        noise -= np.repeat(np.add.reduceat(noise, starts, axis=0) / counts[:, None], counts, axis=0)
        if size > len(occupied):  # fixing the means took away this share of the variance
            noise *= np.sqrt(size / (size - len(occupied)))
        noise = noise @ self.root if self.root.ndim == 2 else noise * self.root
        return Measure(np.repeat(summary.means[occupied], counts, axis=0) + noise)


def twin_distance(a: Summary, b: Summary, p: float = 2.0, seed: int = 0) -> float:
    """Estimate of W_p between the two samples that were summarised.

    Twins of the original sizes n and m have about the distance of the originals, the part that
    sampling noise contributes included. Above CAP points the mean of W_p^p at smaller sizes k is fitted by
    w + c k^-g and read off at the original sizes.
    """
    sizes = np.array([a.count, b.count])
    steps = [sizes] if sizes.max() <= CAP else [np.minimum(sizes, k) for k in _LADDER]
    twins = Twin.of(a), Twin.of(b)
    rng = np.random.default_rng(seed)
    powers = np.array([_mean_power(twins, step, p, rng) for step in steps])
    power = powers[0] if len(steps) == 1 else _extrapolate(np.array(steps), powers, sizes)
    return float(max(power, 0.0) ** (1 / p))


def _mean_power(twins: tuple[Twin, Twin], sizes: NDArray[np.int64], p: float, rng: np.random.Generator) -> float:
    """Mean of W_p^p over a few draws of both twins."""
    draws = int(np.clip(_POINTS // sizes.max(), 2, 16))
    pairs = ((twins[0].draw(int(sizes[0]), rng), twins[1].draw(int(sizes[1]), rng)) for _ in range(draws))
    return float(np.mean([solve(mu, nu, p).cost for mu, nu in pairs]))


def _extrapolate(steps: NDArray[np.int64], powers: Floats, sizes: NDArray[np.int64]) -> float:
    """Fit powers = w + c * mean(k^-g) over both sizes with w, c >= 0, and read it at `sizes`."""
    from scipy.optimize import nnls

    best, answer = np.inf, float(powers[-1])
    for g in _EXPONENTS:
        design = np.column_stack([np.ones(len(steps)), (steps.astype(float) ** -g).mean(axis=1)])
        (w, c), misfit = nnls(design, powers)
        if misfit < best:
            best, answer = misfit, w + c * float((sizes.astype(float) ** -g).mean())
    return answer
