"""Transport of many small pairs in batches on a GPU, against compiled code on processors.

`python -m benchmarks.gpu [--pairs N] [--jobs K]` prints one line of JSON for each way. It needs
PyTorch and uses a GPU if there is one. Each way gets the same samples and reports how far its
squared distances lie from the exact ones.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fedwad
from fedwad.transport import Measure
from fedwad.transport.many import pair_distances
from fedwad.transport.nearly import near_squares

SITES = 150  # 11,175 pairs
SHAPES = ((30, 8), (400, 20))
_CHECKED = 200  # pairs whose exact distance is computed
_AT_A_TIME = 1e9  # entries of costs on the device


def samples(n: int, d: int) -> np.ndarray[Any, Any]:
    """Normal samples of n rows about different means."""
    rng = np.random.default_rng(n)
    return rng.normal(size=(SITES, n, d)) + rng.normal(size=(SITES, 1, d)) / 2


def sinkhorn(cost: Any, torch: Any) -> Any:
    """Costs of regularised plans, the regularisation falling to 0.3% of the mean cost."""
    n = cost.shape[-1]
    mean = cost.mean(dim=(1, 2), keepdim=True)
    g = torch.zeros(len(cost), 1, n, device=cost.device)
    f = torch.zeros(len(cost), n, 1, device=cost.device)
    log_n = float(np.log(n))
    for step in range(160):
        eps = mean * max(0.5 ** (step / 4), 0.003)
        f = -eps * (torch.logsumexp((g - cost) / eps, dim=2, keepdim=True) - log_n)
        g = -eps * (torch.logsumexp((f - cost) / eps, dim=1, keepdim=True) - log_n)
    plan = torch.exp((f + g - cost) / (mean * 0.003))
    return (plan * cost).sum(dim=(1, 2)) / plan.sum(dim=(1, 2))


def auction(cost: Any, torch: Any) -> Any:
    """Costs of assignments at most 0.8% too large: all rows without a column bid at once."""
    batch, n, _ = cost.shape
    mean = cost.mean(dim=(1, 2))
    g = torch.zeros(batch, n, device=cost.device)
    for tolerance in (0.2, 0.04, 0.008, 0.003):
        owner = torch.full((batch, n), -1, device=cost.device)
        column = torch.full((batch, n), -1, device=cost.device)
        while True:
            free = (column < 0).nonzero()
            if not len(free):
                break
            b, i = free[:, 0], free[:, 1]
            two = (cost[b, i] - g[b]).topk(2, dim=1, largest=False)
            j = two.indices[:, 0]
            bid = two.values[:, 1] - two.values[:, 0] + tolerance * mean[b]
            best = torch.zeros(batch, n, device=cost.device)
            best.view(-1).scatter_reduce_(0, b * n + j, bid, "amax")
            won = bid == best[b, j]
            b, i, j, bid = b[won], i[won], j[won], bid[won]
            owner[b, j] = i  # of equal bids, one is kept
            kept = owner[b, j] == i
            b, i, j, bid = b[kept], i[kept], j[kept], bid[kept]
            taken = column.new_zeros(batch, n, dtype=torch.bool)
            taken[b, j] = True
            hit = column >= 0
            lost = hit & torch.gather(taken, 1, column.clamp(min=0))
            column[lost] = -1
            column[b, i] = j
            g[b, j] -= bid
    return torch.gather(cost, 2, column[:, :, None]).mean(dim=(1, 2))


def on_device(
    data: np.ndarray[Any, Any], pairs: np.ndarray[Any, Any], solve: Callable[[Any, Any], Any]
) -> np.ndarray[Any, Any]:
    """Squared distances of all pairs, in batches, costs included."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    points = torch.tensor(data, dtype=torch.float32, device=device)
    n = data.shape[1]
    size = max(1, int(_AT_A_TIME / n**2))
    found = []
    for start in range(0, len(pairs), size):
        some = torch.tensor(pairs[start : start + size], device=device)
        cost = torch.cdist(points[some[:, 0]], points[some[:, 1]]) ** 2
        found.append(solve(cost, torch).cpu().numpy())
    return np.concatenate(found)


def ways(n_jobs: int) -> dict[str, Callable[..., Any]]:
    """Each way from samples and pairs to squared distances."""

    def measures(data: Any) -> dict[int, Measure]:
        return {k: Measure(rows) for k, rows in enumerate(data)}

    def exact(data: Any, pairs: Any, jobs: int) -> Any:
        every = [(int(i), int(j)) for i, j in pairs]
        return [value**2 for _, value in pair_distances(measures(data), every, n_jobs=jobs)]

    def nearly(data: Any, pairs: Any, jobs: int) -> Any:
        every = [(int(i), int(j)) for i, j in pairs]
        return [value for _, value in near_squares(measures(data), every, jobs)]

    return {
        "exact, one thread": lambda x, p: exact(x, p, 1),
        "compiled, 0.8%, one thread": lambda x, p: nearly(x, p, 1),
        f"compiled, 0.8%, {n_jobs} threads": lambda x, p: nearly(x, p, n_jobs),
        "GPU, auctions": lambda x, p: on_device(x, p, auction),
        "GPU, Sinkhorn": lambda x, p: on_device(x, p, sinkhorn),
    }


def measure(n_pairs: int, n_jobs: int) -> Iterator[dict[str, Any]]:
    """One row for each shape and way."""
    for n, d in SHAPES:
        data = samples(n, d)
        pairs = np.array([(i, j) for i in range(SITES) for j in range(i)])
        pairs = np.random.default_rng(0).permutation(pairs)[:n_pairs]
        few = data, pairs[:_CHECKED]
        reference = np.array(ways(1)["exact, one thread"](*few))
        for name, way in ways(n_jobs).items():
            # the exact way takes minutes for all large pairs
            part = pairs if n < 100 or "GPU" in name else pairs[:_CHECKED]
            way(data, pairs[:4])
            start = time.perf_counter()
            found = np.array(way(data, part))
            seconds = (time.perf_counter() - start) * len(pairs) / len(part)
            error = np.abs(found[: len(reference)] / reference[: len(found)] - 1)
            yield {
                "pairs": f"{len(pairs)} of {n} x {n}, d={d}",
                "way": name,
                "seconds": seconds,
                "measured pairs": len(part),
                "median error": float(np.median(error)),
                "largest error": float(error.max()),
            }


def embeddings(counts: tuple[int, ...] = (100, 1000, 10_000)) -> Iterator[dict[str, Any]]:
    """Time to embed and cluster sites of 60 x 8 in this process; it uses no GPU."""
    for count in counts:
        rng = np.random.default_rng(count)
        sites = {f"s{k}": rng.normal(size=(60, 8)) + 2 * (k % 5) for k in range(count)}
        start = time.perf_counter()
        found = fedwad.embed(sites)
        middle = time.perf_counter()
        found.cluster(5)
        yield {"sites": count, "embed s": middle - start, "cluster s": time.perf_counter() - middle}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-embeddings", action="store_true")
    options = parser.parse_args()
    for row in measure(options.pairs, options.jobs):
        print(json.dumps(row), flush=True)
    if not options.no_embeddings:
        for row in embeddings():
            print(json.dumps(row), flush=True)
