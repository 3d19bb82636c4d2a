"""FedWaD with an entropic solver on a GPU, for the two experiments that need thousands of runs.

The plan P minimises <C, P> + e KL(P | a b') for the cost matrix C and the weights a and b. The
library always solves exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedwad.transport import Floats

if TYPE_CHECKING:
    import torch
    from torch import Tensor


_FIRST_E, _LAST_E = 0.3, 3e-4  # as fractions of the mean cost
_E_FACTOR = 0.45  # e is multiplied by it from one value to the next
_COLD_STEPS = 10  # Sinkhorn iterations for each e, without initial potentials
_WARM_STEPS = 60  # Sinkhorn iterations for the last e, from the potentials of the round before
_ROUNDS, _CLIENTS_PER_EPOCH = 20, 10  # rounds of FedWaD in an epoch, and clients it asks
_DECAYS = 0.9, 0.999  # Adam's decay rates for the averages of gradients and of their squares


@dataclass(eq=False)
class Epochs:
    """The points of a coreset after each of some epochs, and the loss of every epoch."""

    points: dict[int, Floats] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)


def run_epochs(
    data: NDArray[np.float32],
    size: int,
    support: int,
    epochs: int,
    learning_rate: float,
    keep: tuple[int, ...] = (),
    seed: int = 0,
    device: str = "cuda",
) -> Epochs:
    """Fit a coreset of `size` points to clients (N, n, d); each epoch asks ten of the clients.

    The learning rate falls linearly to a twentieth of its first value. The result has the points
    after the last epoch and after the epochs in `keep`.
    """
    import torch

    X = torch.as_tensor(data, device=device)
    rng = np.random.default_rng([seed, 2, support])
    mean, scale = X.mean((0, 1)), X.std((0, 1), correction=0)
    atoms, fillers = (
        mean + scale * torch.as_tensor(_normal(rng, count, X.shape[2]), device=device)
        for count in (size, max(support, 2))
    )
    average, average_square = torch.zeros_like(atoms), torch.zeros_like(atoms)  # Adam's moments
    result = Epochs()
    for epoch in range(1, epochs + 1):
        clients = rng.choice(len(X), min(_CLIENTS_PER_EPOCH, len(X)), replace=False)
        repeated_atoms = atoms.expand(len(clients), -1, -1)  # once for each client
        z = torch.stack([_first_support(atoms, fillers, support, rng) for _ in clients])
        samples = X[torch.as_tensor(clients, device=device)]
        gradients, losses = gradient(samples, repeated_atoms, z)
        mean_gradient = gradients.mean(0)
        average = _DECAYS[0] * average + (1 - _DECAYS[0]) * mean_gradient
        average_square = _DECAYS[1] * average_square + (1 - _DECAYS[1]) * mean_gradient**2
        root = (average_square / (1 - _DECAYS[1] ** epoch)).sqrt()
        step = learning_rate * max(0.05, 1 - (epoch - 1) / epochs)
        atoms = atoms - step * average / (1 - _DECAYS[0] ** epoch) / (root + 1e-12 * root.max())
        result.curve.append(float(losses.mean()))
        if epoch in keep or epoch == epochs:
            result.points[epoch] = atoms.double().cpu().numpy()
    return result


def _normal(rng: np.random.Generator, count: int, features: int) -> NDArray[np.float32]:
    return rng.standard_normal((count, features)).astype(np.float32)


def _first_support(
    atoms: Tensor, fillers: Tensor, support: int, rng: np.random.Generator
) -> Tensor:
    """`support` points: those of the coreset and, if these are too few, some of the fillers."""
    import torch

    extra = rng.permutation(len(fillers))[: max(0, support - len(atoms))]
    return torch.cat([atoms[:support], fillers[torch.as_tensor(extra, device=fillers.device)]])


def gradient(x: Tensor, atoms: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """For each of B sites the gradient of W2(atoms, xi) with respect to the atoms, and FedWaD's
    estimate of W2(site, atoms).

    `x` (B, n, d) are the samples of the sites, and `atoms` (B, S, d) the points of the coreset,
    once for each site. xi is the support that FedWaD reaches between a site and the atoms, and `z`
    the support from which it starts. Returns arrays (B, S, d) and (B,).
    """
    g_site = g_server = g_both = None  # potentials of the last round, to start the next from
    for _ in range(_ROUNDS):
        site_plan, g_site = _transport(squared_distances(x, z), g_site)
        server_plan, g_server = _transport(squared_distances(atoms, z), g_server)
        # Midpoints between z and the site's samples, and between z and the atoms.
        site, server = (cell_means(site_plan, x) + z) / 2, (cell_means(server_plan, atoms) + z) / 2
        cost = squared_distances(server, site)
        plan, g_both = _transport(cost, g_both)
        z = (server + plan @ site / plan.sum(-1, keepdim=True)) / 2
    estimates = 2 * (plan * cost).sum((-1, -2)).sqrt()
    cost = squared_distances(z, atoms)
    plan, _ = _transport(cost, None)
    distance = (plan * cost).sum((-1, -2)).sqrt().clamp(min=1e-9)[:, None, None]
    return (atoms - cell_means(plan, z)) / (atoms.shape[1] * distance), estimates


def cell_means(plan: Tensor, x: Tensor) -> Tensor:
    """For each column of the plan, the mean of the points x from which it gets mass."""
    return plan.transpose(-1, -2) @ x / plan.sum(-2)[..., None]


def squared_distances(x: Tensor, z: Tensor) -> Tensor:
    """Squared distances (..., n, S) between points (..., n, d) and (..., S, d)."""
    cross = x @ z.transpose(-1, -2)
    return ((x**2).sum(-1)[..., None] + (z**2).sum(-1)[..., None, :] - 2 * cross).clamp(min=0)


def _transport(cost: Tensor, g: Tensor | None) -> tuple[Tensor, Tensor]:
    """A plan between uniform weights, and the potentials of its columns in units of the mean cost.

    `g` are potentials to start from, or None.
    """
    import torch

    cost = cost / cost.mean((-1, -2), keepdim=True).clamp(min=1e-12)
    e, steps = (_FIRST_E, _COLD_STEPS) if g is None else (_LAST_E, _WARM_STEPS)
    g = torch.zeros_like(cost[..., :1, :]) if g is None else g
    while True:
        scaled = -cost / e
        log_plan = _normalised(scaled + g / e, steps)
        g = (log_plan - scaled)[..., :1, :] * e
        if e <= _LAST_E:
            return log_plan.exp() / cost.shape[-2], g
        e = max(_LAST_E, e * _E_FACTOR)


def _normalised(matrix: Tensor, steps: int) -> Tensor:
    """Sinkhorn's iterations on the logarithms of a plan.

    Rows are normalised first, since the potentials to start from are those of the columns.
    """
    import torch

    for _ in range(steps):
        matrix = torch.log_softmax(torch.log_softmax(matrix, -1), -2)
    return torch.log_softmax(matrix, -1)


_PAIRS_LAST_E = 1e-3  # as a fraction of the mean cost
_PAIRS_COLD_STEPS, _PAIRS_WARM_STEPS = (
    150,
    40,
)  # Sinkhorn iterations in the first round and in the others
_PAIRS_FINAL_STEPS = 100  # Sinkhorn iterations for midpoints and for the distance
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
    import torch

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
    import torch

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
    import torch

    both = points[pairs]  # (P, 2, n, D)
    pooled = both.flatten(1, 2)
    noise = torch.randn((len(pairs), support, points.shape[2]), device=points.device, generator=rng)
    z = pooled.mean(1, keepdim=True) + pooled.std(1, correction=0, keepdim=True) * noise
    potentials = None
    for number in range(rounds):
        steps = _PAIRS_COLD_STEPS if number == 0 else _PAIRS_WARM_STEPS
        plan, potentials = _pairs_transport(both, z, potentials, steps)
        moved = (cell_means(plan, both) + z[:, None]) / 2  # (P, 2, S, D)
        z = _midpoints(moved[:, 0], moved[:, 1])
    plan, _ = _pairs_transport(both, z, potentials, _PAIRS_FINAL_STEPS)
    cost = squared_distances(both, z[:, None])
    return (plan * cost).sum((2, 3)).clamp(min=0).sqrt().sum(1)


def _pairs_transport(x: Tensor, z: Tensor, g: Tensor | None, steps: int) -> tuple[Tensor, Tensor]:
    """An entropic plan (P, 2, n, S) between uniform weights, and the potentials of its columns in
    units of the mean cost; `g` are potentials to start from, or None."""
    import torch

    cost = squared_distances(x, z[:, None])
    n, size = cost.shape[2:]
    cost = cost / cost.mean((2, 3), keepdim=True)
    cold = g is None
    potential = torch.zeros_like(cost[:, :, :1]) if g is None else g
    f, e = torch.zeros_like(cost[:, :, :, :1]), _PAIRS_LAST_E
    for step in range(steps):
        e = max(_PAIRS_LAST_E, 0.3 * 0.93**step) if cold else _PAIRS_LAST_E
        f = -e * (torch.logsumexp((potential - cost) / e, 3, keepdim=True) - np.log(size))
        if step < steps - 1:
            potential = -e * (torch.logsumexp((f - cost) / e, 2, keepdim=True) - np.log(n))
    plan = torch.exp((f + potential - cost) / e) / (n * size)
    return plan, potential


def _midpoints(a: Tensor, b: Tensor) -> Tensor:
    """Midpoints (P, S, D) between each point of `a` and the mean of where its mass goes in `b`."""
    plan, _ = _pairs_transport(a[:, None], b, None, _PAIRS_FINAL_STEPS)
    return (a + plan[:, 0] @ b / plan[:, 0].sum(2, keepdim=True)) / 2
