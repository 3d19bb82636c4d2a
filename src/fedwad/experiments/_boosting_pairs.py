"""FedWaD between all pairs of clients at once, on a GPU: what `fedwad.matrix(method="pairs")` does
one by one.

Exact transport is replaced by an entropic one, min <C, P> + e KL(P | a b'), solved in the log
domain with an e that shrinks to 1/1000 of the mean cost. All pairs take their rounds in lockstep.
For clusters of thousands of pairs only; the library itself always solves exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedwad.ot import Floats

__all__ = ["all_pairs"]

_SMALLEST = 1e-3  # e as a part of the mean cost
_FIRST, _LATER, _LAST = (
    150,
    40,
    100,
)  # iterations at a cold start, after a small move, and for the distance
_NUMBERS = 2_000_000_000  # of float32 in one chunk of pairs


def all_pairs(
    clients: Mapping[str, tuple[Floats, NDArray[np.int64]]],
    support: int,
    rounds: int,
    seed: int,
    device: str = "cuda",
) -> Floats:
    """The paper's estimates d_mu + d_nu, (N, N); clients must hold equally many samples each."""
    points = torch.stack([_augmented(X, y, device) for X, y in clients.values()])
    pairs = np.array(list(combinations(range(len(points)), 2)))
    chunk = max(1, _NUMBERS // (2 * points.shape[1] * (points.shape[2] + 4 * support)))
    found = np.zeros((len(points), len(points)))
    for number, some in enumerate(np.array_split(pairs, -(-len(pairs) // chunk))):
        rng = torch.Generator(device).manual_seed(seed * 1000 + number)
        values = (
            _lockstep(points, torch.as_tensor(some, device=device), support, rounds, rng)
            .cpu()
            .numpy()
        )
        found[some[:, 0], some[:, 1]] = found[some[:, 1], some[:, 0]] = values
    return found


def _augmented(X: Floats, y: NDArray[np.int64], device: str) -> Tensor:
    """Samples beside mean and standard deviations of their class."""
    values = torch.as_tensor(X, device=device, dtype=torch.float32)
    result = torch.empty((len(values), 3 * values.shape[1]), device=device)
    for label in np.unique(y):
        rows = torch.as_tensor(np.flatnonzero(y == label), device=device)
        own = values[rows]
        statistics = torch.cat([own.mean(0), own.std(0, correction=0)])
        result[rows] = torch.cat([own, statistics.expand(len(rows), -1)], dim=1)
    return result


def _lockstep(
    points: Tensor, pairs: Tensor, support: int, rounds: int, rng: torch.Generator
) -> Tensor:
    both = points[pairs]  # (P, 2, n, D)
    pooled = both.flatten(1, 2)
    noise = torch.randn((len(pairs), support, points.shape[2]), device=points.device, generator=rng)
    z = pooled.mean(1, keepdim=True) + pooled.std(1, correction=0, keepdim=True) * noise
    potentials = None
    for number in range(rounds):
        plan, potentials = _transport(both, z, potentials, _FIRST if number == 0 else _LATER)
        means = plan.transpose(2, 3) @ both / plan.sum(2)[..., None]  # (P, 2, S, D)
        moved = (means + z[:, None]) / 2
        z = _middle(moved[:, 0], moved[:, 1])
    plan, _ = _transport(both, z, potentials, _LAST)
    cost = _cost(both, z)
    return (plan * cost).sum((2, 3)).clamp(min=0).sqrt().sum(1)


def _cost(x: Tensor, z: Tensor) -> Tensor:
    """Squared distances (P, 2, n, S)."""
    cross = x @ z[:, None].transpose(2, 3)
    return ((x**2).sum(3)[..., None] + (z**2).sum(2)[:, None, None, :] - 2 * cross).clamp(min=0)


def _transport(x: Tensor, z: Tensor, g: Tensor | None, steps: int) -> tuple[Tensor, Tensor]:
    """An entropic plan (P, 2, n, S) between equal weights, and the potentials of its columns."""
    cost = _cost(x, z)
    n, size = cost.shape[2:]
    unit = cost.mean((2, 3), keepdim=True)
    cost = cost / unit
    cold = g is None
    potential = torch.zeros_like(cost[:, :, :1]) if g is None else g
    f, e = torch.zeros_like(cost[:, :, :, :1]), _SMALLEST
    for step in range(steps):
        e = max(_SMALLEST, 0.3 * 0.93**step) if cold else _SMALLEST
        f = -e * (torch.logsumexp((potential - cost) / e, 3, keepdim=True) - np.log(size))
        if step < steps - 1:
            potential = -e * (torch.logsumexp((f - cost) / e, 2, keepdim=True) - np.log(n))
    plan = torch.exp((f + potential - cost) / e) / (n * size)
    return plan, potential


def _middle(a: Tensor, b: Tensor) -> Tensor:
    """Midpoints between two sets of points (P, S, D), each of `a` with where it is transported to
    in `b`."""
    plan, _ = _transport(a[:, None], b, None, _LAST)
    return (a + plan[:, 0] @ b / plan[:, 0].sum(2, keepdim=True)) / 2
