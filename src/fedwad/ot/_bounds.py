"""Certified bounds on W_p between two data sets of which only summaries are known."""

from __future__ import annotations

import math

import numpy as np

from fedwad.ot._measure import Floats
from fedwad.ot._solve import solve
from fedwad.ot._summary import Summary

__all__ = ["bures", "lower_bound", "upper_bound"]

_EPSILON = float(np.finfo(np.float64).eps)


def lower_bound(a: Summary, b: Summary, p: float = 2.0) -> float:
    """A number that W_p does not fall below.

    For p >= 2: W_p >= W_2, and Gelbrich's bound W_2^2 >= |m - m'|^2 + Bures^2(Sigma, Sigma') needs mean and
    covariance only, both exact in a summary. With diagonals alone the same holds for each coordinate; with traces
    alone Bures >= |sqrt(tr Sigma) - sqrt(tr Sigma')|. For p < 2: W_p >= W_1 >= |m - m'|.
    Rounding is accounted for downwards.
    """
    means = max(0.0, float(np.linalg.norm(a.mean - b.mean)) - rounding(a, b))
    return means if p < 2 else math.hypot(means, math.sqrt(_covariance_distance(a, b)))


def upper_bound(a: Summary, b: Summary, p: float = 2.0) -> float:
    """A number that W_p does not exceed: couple the cell means optimally, independently inside cells.

    For p = 2 the cost of that coupling is W_2^2(means, means') + tr C + tr C'.
    For other p: W_p <= W_p(data, means) + W_p(means, means') + W_p(means', data').
    """
    between = solve(a.cells, b.cells, p).distance + rounding(a, b)
    if p == 2:
        return math.hypot(between, a.spread, b.spread)
    return a.spread + between + b.spread


def rounding(a: Summary, b: Summary) -> float:
    """By how much a distance between means of the two can be off because means are rounded numbers."""
    return sum(8 * _EPSILON * float(np.linalg.norm(np.abs(s.means).max(axis=0))) for s in (a, b))


def _covariance_distance(a: Summary, b: Summary) -> float:
    """Squared Bures distance of the total covariances, or what is known of it; never too large."""
    first, second = a.total_covariance(), b.total_covariance()
    if first.ndim != second.ndim:  # reduce the richer one to what the other tells
        forms = [_reduced(s, min(first.ndim, second.ndim)) for s in (first, second)]
        first, second = forms
    if first.ndim == 2:
        return bures(first, second)
    scale = a.dimension if first.ndim == 0 else 1
    squares = scale * (np.sqrt(first) - np.sqrt(second)) ** 2
    # (sqrt u - sqrt v)^2 is right up to a few roundings of max(u, v)
    doubt = 8 * _EPSILON * scale * np.maximum(first, second)
    return float(np.maximum(squares - doubt, 0.0).sum())


def _reduced(covariance: Floats, ndim: int) -> Floats:
    if covariance.ndim == 2:
        covariance = np.diag(covariance)
    return np.asarray(covariance if ndim == 1 or covariance.ndim == 0 else covariance.mean())


def bures(first: Floats, second: Floats) -> float:
    """Squared Bures distance tr S + tr T - 2 tr (S^1/2 T S^1/2)^1/2 of two covariances, rounded downwards.

    The last term is the nuclear norm of S^1/2 T^1/2. It grows with S and T, so adding the possible rounding error
    to every eigenvalue first makes it too large rather than too small.
    """
    trace = float(np.trace(first) + np.trace(second))
    if trace == 0:
        return 0.0
    roots = []
    for covariance in (first, second):
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        doubt = 4 * len(values) * _EPSILON * float(np.abs(values).max())
        roots.append((vectors * np.sqrt(np.maximum(values, 0.0) + doubt)) @ vectors.T)
    fidelity = float(np.linalg.svd(roots[0] @ roots[1], compute_uv=False).sum())
    return max(0.0, trace * (1 - 8 * len(first) * _EPSILON) - 2 * fidelity)
