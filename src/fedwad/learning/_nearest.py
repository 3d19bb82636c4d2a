"""The nearest atoms of many samples, on a GPU if there is one and the work is worth it."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from fedwad._blas import single_threaded_blas
from fedwad.ot import Floats, ground_cost

__all__ = ["nearest_atoms"]

_BLOCK_ENTRIES = 1 << 22  # costs that are held in memory at a time
_GPU_BLOCK_ENTRIES = 1 << 26
#: Pairs of a sample and an atom from which on a GPU is used; fewer take less time than to load
#: PyTorch.
GPU_FROM = 1 << 30


def nearest_atoms(samples: Floats, atoms: Floats, n_neighbors: int) -> NDArray[np.int64]:
    """The positions of the nearest atoms of each sample, (n, n_neighbors), in no special order."""
    device = _gpu() if len(samples) * len(atoms) >= GPU_FROM else None
    if device is not None:
        return _nearest_on(device, samples, atoms, n_neighbors)
    found = np.empty((len(samples), n_neighbors), dtype=np.int64)
    step = max(1, _BLOCK_ENTRIES // len(atoms))
    with single_threaded_blas():
        for start in range(0, len(samples), step):
            block = slice(start, start + step)
            cost = ground_cost(samples[block], atoms)
            if n_neighbors == 1:
                found[block, 0] = cost.argmin(axis=1)
            else:
                found[block] = np.argpartition(cost, n_neighbors - 1)[:, :n_neighbors]
    return found


def _gpu() -> str | None:
    """The name of a GPU that PyTorch can use, None if there is none."""
    if find_spec("torch") is None:
        return None
    import torch

    return "cuda" if torch.cuda.is_available() else None


def _nearest_on(device: str, samples: Floats, atoms: Floats, n_neighbors: int) -> NDArray[np.int64]:
    """`nearest_atoms` by PyTorch, in double precision.

    |x - y|^2 - |x|^2 = |y|^2 - 2 x.y has the same order over atoms y. Both are taken relative to
    the mean of the atoms, so that a common offset costs no digits.
    """
    import torch

    middle = atoms.mean(axis=0)
    centred = torch.as_tensor(atoms - middle, device=device)
    norms = (centred**2).sum(dim=1)
    found = np.empty((len(samples), n_neighbors), dtype=np.int64)
    step = max(1, _GPU_BLOCK_ENTRIES // len(atoms))
    for start in range(0, len(samples), step):
        block = slice(start, start + step)
        points = torch.as_tensor(samples[block] - middle, device=device)
        costs = torch.addmm(norms, points, centred.T, alpha=-2.0)
        if n_neighbors == 1:
            nearest = costs.argmin(dim=1, keepdim=True)
        else:
            nearest = costs.topk(n_neighbors, dim=1, largest=False, sorted=False).indices
        found[block] = nearest.cpu().numpy()
    return found
