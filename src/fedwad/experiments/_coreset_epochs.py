"""The paper's computation of a coreset on a GPU, where 1000 epochs take a minute or two.

An epoch does what an epoch of `fedwad.coreset(method="fedwad")` does, but in single precision, and
it handles its clients all at once. Exact transport is replaced by entropic transport: the plan P
minimises <C, P> + e KL(P | a b') for the cost matrix C and the weights a and b. The regularisation
e decreases to 3/10000 of the mean cost. Sinkhorn's iterations normalise the rows and the columns of
exp(-C / e) in turn, as logarithms; each of the two is one GPU kernel. Only the experiments do so;
the library always solves exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedwad.ot import Floats

__all__ = ["Epochs", "cell_means", "gradient", "run_epochs", "squared_distances"]

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
    for _ in range(steps):
        matrix = torch.log_softmax(torch.log_softmax(matrix, -1), -2)
    return torch.log_softmax(matrix, -1)
