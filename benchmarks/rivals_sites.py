"""Sites in groups: the paper's pairs of classes, Dirichlet class shares, and rotated images."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals_datasets import smaller
from benchmarks.rivals_training import Site
from paper.data import load, random_code

CLASSES, SITES_OF_GROUP, TRAIN, TEST = 10, 4, 200, 100

SETTINGS = (
    "MNIST, pairs of classes",
    "CIFAR-10, pairs of classes",
    "MNIST, Dirichlet 0.1",
    "MNIST, Dirichlet 0.5",
    "MNIST, rotated, equal labels",
)


@cache
def _images(data: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Training images in 196 numbers, around zero: 14 x 14 pixels, or a random code of CIFAR-10."""
    X, y = load(data, "train", samples=10_000 if data == "cifar10" else 40_000)
    code = random_code(X, dimension=196) if data == "cifar10" else smaller(X)
    codes = np.asarray(code, dtype=np.float32)
    return (codes - codes.mean()) / codes.std(), y


def shares(setting: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Class shares of each group."""
    if "pairs" in setting:
        return np.repeat(np.eye(CLASSES // 2) / 2, 2, axis=1)
    if "Dirichlet" in setting:
        return rng.dirichlet(np.full(CLASSES, float(setting.split()[-1])), size=5)
    return np.full((4, CLASSES), 1 / CLASSES)


def turned(X: NDArray[Any], quarters: int) -> NDArray[Any]:
    """Square images turned by so many quarters."""
    side = round(X.shape[1] ** 0.5)
    return np.rot90(X.reshape(-1, side, side), quarters, axes=(1, 2)).reshape(X.shape)


def deal(setting: str, seed: int) -> list[Site]:
    """Four sites for each group, 200 training and 100 test samples each, drawn by its shares."""
    rng = np.random.default_rng([seed, 4])
    X, y = _images("cifar10" if setting.startswith("CIFAR") else "mnist")
    by_class = [rng.permutation(np.flatnonzero(y == code)).tolist() for code in range(CLASSES)]
    sites = []
    for group, own in enumerate(shares(setting, rng)):
        for _ in range(SITES_OF_GROUP):
            counts = rng.multinomial(TRAIN + TEST, own)
            rows = [by_class[code].pop() for code in range(CLASSES) for _ in range(counts[code])]
            rows = rng.permutation(rows)
            images = turned(X[rows], group if "rotated" in setting else 0)
            cut = slice(None, TRAIN), slice(TRAIN, None)
            sites.append(
                Site(images[cut[0]], y[rows[:TRAIN]], images[cut[1]], y[rows[TRAIN:]], group)
            )
    return sites
