"""A small network and FedAvg in plain NumPy, the same for every rival that has to train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Weights = tuple[Floats, Floats, Floats, Floats]

HIDDEN, RATE, BATCH, EPOCHS = 64, 0.05, 20, 2


class Site(NamedTuple):
    """One site: training samples, test samples, and the group that it was dealt to."""

    X: Floats
    y: NDArray[np.int64]
    unseen: Floats
    unseen_y: NDArray[np.int64]
    group: int


def start(features: int, classes: int, seed: int) -> Weights:
    """First weights of a network with one hidden layer, as He et al. (2015) scale them."""
    rng = np.random.default_rng([seed, 5])
    first = rng.normal(0, np.sqrt(2 / features), (features, HIDDEN)).astype(np.float32)
    second = rng.normal(0, np.sqrt(2 / HIDDEN), (HIDDEN, classes)).astype(np.float32)
    return first, np.zeros(HIDDEN, np.float32), second, np.zeros(classes, np.float32)


def activations(weights: Weights, X: Floats) -> Floats:
    """What the hidden layer gives, one row for each sample."""
    return np.asarray(np.maximum(X @ weights[0] + weights[1], 0))


def _chances(weights: Weights, hidden: Floats) -> Floats:
    logits = hidden @ weights[2] + weights[3]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def loss(weights: Weights, X: Floats, y: NDArray[np.int64]) -> float:
    """Mean cross-entropy."""
    chances = _chances(weights, activations(weights, X))
    return float(-np.log(chances[np.arange(len(y)), y] + 1e-12).mean())


def accuracy(weights: Weights, X: Floats, y: NDArray[np.int64]) -> float:
    """Share of samples whose largest logit is that of their class."""
    return float((_chances(weights, activations(weights, X)).argmax(axis=1) == y).mean())


def gradient(weights: Weights, X: Floats, y: NDArray[np.int64]) -> Weights:
    """Derivatives of the loss."""
    hidden = activations(weights, X)
    error = _chances(weights, hidden)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    back = (error @ weights[2].T) * (hidden > 0)
    return X.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)


def descend(
    weights: Weights, X: Floats, y: NDArray[np.int64], epochs: int, rng: np.random.Generator
) -> Weights:
    """Weights after so many epochs of stochastic gradient descent."""
    for _ in range(epochs):
        order = rng.permutation(len(y))
        for begin in range(0, len(y), BATCH):
            rows = order[begin : begin + BATCH]
            slopes = gradient(weights, X[rows], y[rows])
            weights = _moved(weights, slopes)
    return weights


def _moved(weights: Weights, slopes: Weights) -> Weights:
    a, b, c, d = (w - RATE * slope for w, slope in zip(weights, slopes, strict=True))
    return a, b, c, d


def mean(many: Sequence[Weights]) -> Weights:
    """The average of several networks."""
    a, b, c, d = (np.mean(part, axis=0) for part in zip(*many, strict=True))
    return a, b, c, d


def flat(weights: Weights) -> Floats:
    """All weights in one vector."""
    return np.concatenate([part.ravel() for part in weights])


def fedavg(
    sites: Sequence[Site], weights: Weights, rounds: int, rng: np.random.Generator
) -> Weights:
    """FedAvg with all sites in every round."""
    for _ in range(rounds):
        weights = mean([descend(weights, s.X, s.y, EPOCHS, rng) for s in sites])
    return weights


def accuracies(sites: Sequence[Site], labels: NDArray[Any], rounds: int, seed: int) -> Floats:
    """Test accuracy of each site after FedAvg inside each cluster."""
    found = np.zeros(len(sites), np.float32)
    begin = start(sites[0].X.shape[1], 10, seed)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rng = np.random.default_rng([seed, 6])
        weights = fedavg([sites[k] for k in members], begin, rounds, rng)
        for k in members:
            found[k] = accuracy(weights, sites[k].unseen, sites[k].unseen_y)
    return found
