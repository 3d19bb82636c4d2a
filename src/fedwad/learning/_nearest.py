"""The nearest atoms of many samples, on a GPU if there is one and the work is worth it."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from fedwad._blas import single_threaded_blas
from fedwad.ot import Floats, ground_cost

__all__ = ["nearest_atoms"]

_MAX_COSTS, _MAX_GPU_COSTS = 1 << 22, 1 << 26  # that are in memory at a time
#: A GPU is used for so many pairs of a sample and an atom, or more. Fewer pairs take less time than
#: loading PyTorch.
_MIN_GPU_PAIRS = 1 << 30


def nearest_atoms(samples: Floats, atoms: Floats, n_neighbors: int) -> NDArray[np.int64]:
    """The positions of the nearest atoms of each sample, (n, n_neighbors), in no special order."""
    device = _gpu() if len(samples) * len(atoms) >= _MIN_GPU_PAIRS else None
    if device is not None:
        return _nearest_by_torch(device, samples, atoms, n_neighbors)
    positions = np.empty((len(samples), n_neighbors), dtype=np.int64)
    step = max(1, _MAX_COSTS // len(atoms))
    with single_threaded_blas():
        for start in range(0, len(samples), step):
            chunk = slice(start, start + step)
            cost = ground_cost(samples[chunk], atoms)
            if n_neighbors == 1:
                positions[chunk, 0] = cost.argmin(axis=1)
            else:
                positions[chunk] = np.argpartition(cost, n_neighbors - 1)[:, :n_neighbors]
    return positions


def _gpu() -> str | None:
    """The name of a GPU that PyTorch can use, None if there is none."""
    if find_spec("torch") is None:
        return None
    import torch

    return "cuda" if torch.cuda.is_available() else None


def _nearest_by_torch(
    device: str, samples: Floats, atoms: Floats, n_neighbors: int
) -> NDArray[np.int64]:
    """`nearest_atoms` by PyTorch, in double precision.

    For each sample x, |y|^2 - 2 x.y = |x - y|^2 - |x|^2 sorts the atoms y as the distance does. The
    mean of the atoms is subtracted from both, so that a common offset costs no digits.
    """
    import torch

    mean = atoms.mean(axis=0)
    centred = torch.as_tensor(atoms - mean, device=device)
    norms = (centred**2).sum(dim=1)
    positions = np.empty((len(samples), n_neighbors), dtype=np.int64)
    step = max(1, _MAX_GPU_COSTS // len(atoms))
    for start in range(0, len(samples), step):
        chunk = slice(start, start + step)
        points = torch.as_tensor(samples[chunk] - mean, device=device)
        costs = torch.addmm(norms, points, centred.T, alpha=-2.0)
        if n_neighbors == 1:
            nearest = costs.argmin(dim=1, keepdim=True)
        else:
            nearest = costs.topk(n_neighbors, dim=1, largest=False, sorted=False).indices
        positions[chunk] = nearest.cpu().numpy()
    return positions
