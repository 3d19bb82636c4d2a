"""FedWaD between four datasets on a GPU, in five draws: what takes an exact solver minutes a pair.

    python -m benchmarks.otdd_gpu 1000 500     # support and rounds, as in the paper's Figure 6
    python -m benchmarks.otdd_gpu 5000 20 --smallest 3e-4 --steps 80

Exact transport is replaced by an entropic one, as in `paper.entropic`. The last
distances are costs of plans with the right marginals, so they are not too small. One JSON object a
pair is printed as it comes.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paper.data import load
from paper.otdd import DRAWS, NAMES, PAIRS

SAMPLES = 5000
FINAL = 1e-4  # the smallest e of the last distances, as a part of the mean cost


def with_statistics(name: str, seed: int, samples: int, device: str) -> Tensor:
    """Samples beside mean and standard deviations of their class."""
    X, y = load(name, samples=samples, seed=seed)
    values = torch.as_tensor(np.asarray(X, dtype=np.float32), device=device)
    found = torch.empty((len(values), 3 * values.shape[1]), device=device)
    for label in np.unique(y):
        rows = torch.as_tensor(np.flatnonzero(y == label), device=device)
        own = values[rows]
        statistics = torch.cat([own.mean(0), own.std(0, correction=0)])
        found[rows] = torch.cat([own, statistics.expand(len(rows), -1)], 1)
    return found


def cost(x: Tensor, z: Tensor) -> Tensor:
    """Squared distances."""
    cross = x @ z.mT
    return ((x**2).sum(-1)[..., None] + (z**2).sum(-1)[..., None, :] - 2 * cross).clamp(min=0)


def transport(
    costs: Tensor, g: Tensor | None, smallest: float, steps: int, cold: int = 10
) -> tuple[Tensor, Tensor]:
    """A plan between equal weights, and its potentials of columns in units of the mean cost."""
    costs = costs / costs.mean((-1, -2), keepdim=True)
    e, count = (0.3, cold) if g is None else (smallest, steps)
    g = torch.zeros_like(costs[..., :1, :]) if g is None else g
    while True:
        scaled = -costs / e
        found = scaled + g / e
        for _ in range(count):
            found = torch.log_softmax(torch.log_softmax(found, -1), -2)
        found = torch.log_softmax(found, -1)
        g = (found - scaled)[..., :1, :] * e
        if e <= smallest:
            return found.exp() / costs.shape[-2], g
        e = max(smallest, e * 0.45)


def distance(x: Tensor, z: Tensor) -> float:
    """W2 between equal weights, from a plan whose marginals are made right."""
    costs = cost(x, z)
    plan, _ = transport(costs, None, FINAL, 0, cold=40)
    n, size = costs.shape
    plan = plan * (1 / n / plan.sum(1, keepdim=True)).clamp(max=1)
    plan = (plan * (1 / size / plan.sum(0, keepdim=True)).clamp(max=1)).double()
    rows, columns = (
        (1 / count - plan.sum(axis)).clamp(min=0) for count, axis in ((n, 1), (size, 0))
    )
    total = (plan * costs.double()).sum()
    if float(columns.sum()) > 0:
        total = total + rows @ costs.double() @ columns / columns.sum()
    return float(total) ** 0.5


def fedwad(
    x: Tensor, support: int, rounds: int, smallest: float, steps: int, seed: int
) -> dict[int, float]:
    """The paper's estimates d_mu + d_nu for both data sets (2, n, d), after 20 and all rounds."""
    pooled = x.flatten(0, 1)
    chance = torch.Generator(x.device).manual_seed(seed)
    noise = torch.randn((support, x.shape[2]), device=x.device, generator=chance)
    z = pooled.mean(0) + pooled.std(0, correction=0) * noise
    of_sites = of_server = None
    found = {}
    for number in range(1, rounds + 1):
        plan, of_sites = transport(cost(x, z), of_sites, smallest, steps)
        moved = (plan.mT @ x / plan.sum(-2)[..., None] + z) / 2
        between, of_server = transport(cost(moved[:1], moved[1:]), of_server, smallest, steps)
        z = (moved[0] + between[0] @ moved[1] / between[0].sum(-1, keepdim=True)) / 2
        if number in (20, rounds):
            found[number] = sum(distance(one, z) for one in x)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("support", type=int)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--smallest", type=float, default=1e-3, help="part of the mean cost")
    parser.add_argument("--steps", type=int, default=40, help="iterations after a small move")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for seed in range(given.draws):
        parts = {name: with_statistics(name, seed, given.samples, device) for name in NAMES}
        for pair in PAIRS:
            begin = time.perf_counter()
            x = torch.stack([parts[name] for name in pair.split()])
            values = fedwad(x, given.support, given.rounds, given.smallest, given.steps, seed)
            row: dict[str, Any] = {"pair": pair, "seed": seed, "values": values}
            print(json.dumps(row | {"s": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
