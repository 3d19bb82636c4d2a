"""FedWaD between all pairs of clients at once, on a GPU; `fedwad.matrix(method="pairs")` computes
one pair after the other.

Exact transport is replaced by entropic transport: the plan P minimises <C, P> + e KL(P | a b') for
the cost matrix C and the weights a and b. It is computed with logarithms, and the regularisation e
decreases to 1/1000 of the mean cost. Only the experiment `boosting` uses it, for clusters from
thousands of pairs; the library always solves exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedwad.experiments._coreset_epochs import cell_means, squared_distances
from fedwad.ot import Floats

__all__ = ["all_pairs"]

_LAST_E = 1e-3  # as a fraction of the mean cost
_COLD_STEPS, _WARM_STEPS = 150, 40  # Sinkhorn iterations in the first round and in the others
_FINAL_STEPS = 100  # Sinkhorn iterations for midpoints and for the distance
_MAX_NUMBERS = 2_000_000_000  # numbers of float32 in memory for one chunk of pairs


def all_pairs(
    clients: Mapping[str, tuple[Floats, NDArray[np.int64]]],
    support: int,
    rounds: int,
    seed: int,
    device: str = "cuda",
) -> Floats:
    """FedWaD's estimates, (N, N), from the samples and labels of each client; all clients must have
    equally many samples."""
    points = torch.stack([_augmented(X, y, device) for X, y in clients.values()])
    pairs = np.array(list(combinations(range(len(points)), 2)))
    chunk_size = max(1, _MAX_NUMBERS // (2 * points.shape[1] * (points.shape[2] + 4 * support)))
    matrix = np.zeros((len(points), len(points)))
    for number, chunk in enumerate(np.array_split(pairs, -(-len(pairs) // chunk_size))):
        rng = torch.Generator(device).manual_seed(seed * 1000 + number)
        values = _estimates(points, torch.as_tensor(chunk, device=device), support, rounds, rng)
        matrix[chunk[:, 0], chunk[:, 1]] = values.cpu().numpy()
    return matrix + matrix.T


def _augmented(X: Floats, y: NDArray[np.int64], device: str) -> Tensor:
    """Samples, each followed by the mean and the standard deviations of its class: (n, 3 d)."""
    values = torch.as_tensor(X, device=device, dtype=torch.float32)
    result = torch.empty((len(values), 3 * values.shape[1]), device=device)
    for label in np.unique(y):
        rows = torch.as_tensor(np.flatnonzero(y == label), device=device)
        own = values[rows]
        statistics = torch.cat([own.mean(0), own.std(0, correction=0)])
        result[rows] = torch.cat([own, statistics.expand(len(rows), -1)], dim=1)
    return result


def _estimates(
    points: Tensor, pairs: Tensor, support: int, rounds: int, rng: torch.Generator
) -> Tensor:
    """FedWaD's estimate for each of P pairs."""
    both = points[pairs]  # (P, 2, n, D)
    pooled = both.flatten(1, 2)
    noise = torch.randn((len(pairs), support, points.shape[2]), device=points.device, generator=rng)
    z = pooled.mean(1, keepdim=True) + pooled.std(1, correction=0, keepdim=True) * noise
    potentials = None
    for number in range(rounds):
        steps = _COLD_STEPS if number == 0 else _WARM_STEPS
        plan, potentials = _transport(both, z, potentials, steps)
        moved = (cell_means(plan, both) + z[:, None]) / 2  # (P, 2, S, D)
        z = _midpoints(moved[:, 0], moved[:, 1])
    plan, _ = _transport(both, z, potentials, _FINAL_STEPS)
    cost = squared_distances(both, z[:, None])
    return (plan * cost).sum((2, 3)).clamp(min=0).sqrt().sum(1)


def _transport(x: Tensor, z: Tensor, g: Tensor | None, steps: int) -> tuple[Tensor, Tensor]:
    """An entropic plan (P, 2, n, S) between uniform weights, and the potentials of its columns in
    units of the mean cost; `g` are potentials to start from, or None."""
    cost = squared_distances(x, z[:, None])
    n, size = cost.shape[2:]
    cost = cost / cost.mean((2, 3), keepdim=True)
    cold = g is None
    potential = torch.zeros_like(cost[:, :, :1]) if g is None else g
    f, e = torch.zeros_like(cost[:, :, :, :1]), _LAST_E
    for step in range(steps):
        e = max(_LAST_E, 0.3 * 0.93**step) if cold else _LAST_E
        f = -e * (torch.logsumexp((potential - cost) / e, 3, keepdim=True) - np.log(size))
        if step < steps - 1:
            potential = -e * (torch.logsumexp((f - cost) / e, 2, keepdim=True) - np.log(n))
    plan = torch.exp((f + potential - cost) / e) / (n * size)
    return plan, potential


def _midpoints(a: Tensor, b: Tensor) -> Tensor:
    """Midpoints (P, S, D) between each point of `a` and the mean of where its mass goes in `b`."""
    plan, _ = _transport(a[:, None], b, None, _FINAL_STEPS)
    return (a + plan[:, 0] @ b / plan[:, 0].sum(2, keepdim=True)) / 2
