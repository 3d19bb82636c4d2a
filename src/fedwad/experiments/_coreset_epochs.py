"""The paper's epochs of a coreset on a GPU, where 1000 of them take a minute or two.

It is what `fedwad.coreset(method="fedwad")` does, for all asked clients at once and in single
precision. Exact transport is replaced by an entropic one, min <C, P> + e KL(P | a b'), with e
shrinking to 3/10000 of the mean cost. Rows and columns of exp(-C / e) are normalised in turn as
logarithms, which is one kernel each. For this experiment only; the library always solves exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedwad.ot import Floats

__all__ = ["Epochs", "gradient", "run_epochs"]

_SMALLEST, _FIRST, _FALLS = 3e-4, 0.3, 0.45  # e as a part of the mean cost
_COLD, _WARM = 10, 60  # iterations for each e, and after a small move
_ROUNDS, _ASKED = 20, 10
_DECAYS = 0.9, 0.999  # of Adam


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
    rate: float,
    keep: tuple[int, ...] = (),
    seed: int = 0,
    device: str = "cuda",
) -> Epochs:
    """Epochs of FedWaD with clients (N, n, d): ten of them are asked in each.

    The learning rate falls linearly to a twentieth. Points are kept after the last epoch, and after
    those in `keep`.
    """
    X = torch.as_tensor(data, device=device)
    rng = np.random.default_rng([seed, 2, support])
    mean, scale = X.mean((0, 1)), X.std((0, 1), correction=0)
    atoms, fill = (
        mean + scale * torch.as_tensor(_normal(rng, count, X.shape[2]), device=device)
        for count in (size, max(support, 2))
    )
    first, second = torch.zeros_like(atoms), torch.zeros_like(atoms)
    found = Epochs()
    for epoch in range(1, epochs + 1):
        picked = rng.choice(len(X), min(_ASKED, len(X)), replace=False)
        core = atoms.expand(len(picked), -1, -1)
        z = torch.stack([_start(atoms, fill, support, rng) for _ in picked])
        gradients, losses = gradient(X[torch.as_tensor(picked, device=device)], core, z)
        mean_gradient = gradients.mean(0)
        first = _DECAYS[0] * first + (1 - _DECAYS[0]) * mean_gradient
        second = _DECAYS[1] * second + (1 - _DECAYS[1]) * mean_gradient**2
        root = (second / (1 - _DECAYS[1] ** epoch)).sqrt()
        step = rate * max(0.05, 1 - (epoch - 1) / epochs)
        atoms = atoms - step * first / (1 - _DECAYS[0] ** epoch) / (root + 1e-12 * root.max())
        found.curve.append(float(losses.mean()))
        if epoch in keep or epoch == epochs:
            found.points[epoch] = atoms.double().cpu().numpy()
    return found


def _normal(rng: np.random.Generator, count: int, features: int) -> NDArray[np.float32]:
    return rng.standard_normal((count, features)).astype(np.float32)


def _start(atoms: Tensor, fill: Tensor, support: int, rng: np.random.Generator) -> Tensor:
    """The first support: the coreset, filled up with random points about the mean of the data."""
    extra = rng.permutation(len(fill))[: max(0, support - len(atoms))]
    return torch.cat([atoms[:support], fill[torch.as_tensor(extra, device=fill.device)]])


def gradient(x: Tensor, atoms: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients (B, S, d) of W2(atoms, xi) in the atoms, and FedWaD's estimates (B,).

    xi is FedWaD's support after its rounds between each site (B, n, d) and the atoms, from z on.
    """
    of_site = of_server = of_both = None  # potentials, for a warm start
    for _ in range(_ROUNDS):
        from_site, of_site = _transport(_cost(x, z), of_site)
        from_server, of_server = _transport(_cost(atoms, z), of_server)
        site, server = (_means(from_site, x) + z) / 2, (_means(from_server, atoms) + z) / 2
        cost = _cost(server, site)
        plan, of_both = _transport(cost, of_both)
        z = (server + plan @ site / plan.sum(-1, keepdim=True)) / 2
    estimates = 2 * (plan * cost).sum((-1, -2)).sqrt()
    cost = _cost(z, atoms)
    plan, _ = _transport(cost, None)
    distance = (plan * cost).sum((-1, -2)).sqrt().clamp(min=1e-9)[:, None, None]
    return (atoms - _means(plan, z)) / (atoms.shape[1] * distance), estimates


def _means(plan: Tensor, x: Tensor) -> Tensor:
    return plan.transpose(-1, -2) @ x / plan.sum(-2)[..., None]


def _cost(x: Tensor, z: Tensor) -> Tensor:
    """Squared distances (B, n, S)."""
    cross = x @ z.transpose(-1, -2)
    return ((x**2).sum(-1)[..., None] + (z**2).sum(-1)[..., None, :] - 2 * cross).clamp(min=0)


def _transport(cost: Tensor, g: Tensor | None) -> tuple[Tensor, Tensor]:
    """A plan between equal weights and its potentials of columns, in units of the mean cost."""
    cost = cost / cost.mean((-1, -2), keepdim=True).clamp(min=1e-12)
    e, steps = (_FIRST, _COLD) if g is None else (_SMALLEST, _WARM)
    g = torch.zeros_like(cost[..., :1, :]) if g is None else g
    while True:
        scaled = -cost / e
        found = _normalised(scaled + g / e, steps)
        g = (found - scaled)[..., :1, :] * e
        if e <= _SMALLEST:
            return found.exp() / cost.shape[-2], g
        e = max(_SMALLEST, e * _FALLS)


def _normalised(matrix: Tensor, steps: int) -> Tensor:
    """Sinkhorn's iterations; rows first, so that potentials of columns are used."""
    for _ in range(steps):
        matrix = torch.log_softmax(torch.log_softmax(matrix, -1), -2)
    return torch.log_softmax(matrix, -1)
