"""Whole calls on a machine with a GPU, and the same calls when they cannot see it.

`python -m benchmarks.gpu_calls` prints one line of JSON for each call and way, each measured in a
process of its own. `python -m benchmarks.gpu_calls CALL` measures one call here. It needs PyTorch,
and MNIST in FEDWAD_DATA.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fedwad
from fedwad.datasets import partition
from fedwad.learning import train
from paper.data import load

Found = dict[str, Any]


def training(sites: int, samples: int) -> Found:
    """FedAvg with the default network, five groups, three rounds."""
    X, y = load("mnist")
    parts = partition.class_pairs(X, y, clients=sites, samples=samples, seed=0)
    train(dict(list(parts.items())[:5]), "fedavg", rounds=1)  # loads what is loaded once
    began = time.perf_counter()
    result = train(parts, "fedavg", groups=parts.groups, rounds=3)
    return {"s": time.perf_counter() - began, "accuracy": result.mean}


def classifier(sites: int = 20, size: int = 50) -> Found:
    """CoresetClassifier: prototypes at the sites, then the nearest one for each test image."""
    reduce = np.linalg.qr(np.random.default_rng(1).standard_normal((784, 32)))[0]
    images, labels = load("mnist", "train")
    parts = partition.classes_per_client(images @ reduce, labels, 2, sites, 2000, 0, balanced=True)
    test, truth = load("mnist", "test")
    model = fedwad.CoresetClassifier(size=size)
    model.fit({name: (X[:100], y[:100]) for name, (X, y) in parts.items()})  # compiles
    began = time.perf_counter()
    model.fit(parts)
    fitted = time.perf_counter()
    accuracy = model.score(test @ reduce, truth)
    return {"s": fitted - began, "predict s": time.perf_counter() - fitted, "accuracy": accuracy}


def embedding(sites: int = 10_000) -> Found:
    """Points of many small sites, and the part of the time that the sites take."""
    rng = np.random.default_rng(0)
    data = {f"s{k}": rng.standard_normal((60, 8)) + 0.5 * (k % 5) for k in range(sites)}
    fed = fedwad.local(data)
    fedwad.embed(fedwad.local(dict(list(data.items())[:50])))  # compiles
    asked, ask = [0.0], fed.ask

    def timed(requests: Any) -> Any:
        since = time.perf_counter()
        answers = ask(requests)
        asked[0] += time.perf_counter() - since
        return answers

    fed.ask = timed  # type: ignore[method-assign]
    began = time.perf_counter()
    found = fedwad.embed(fed)
    embedded = time.perf_counter()
    found.cluster(5)
    clustered = time.perf_counter()
    whole = {"s": embedded - began, "of it at sites": asked[0], "cluster s": clustered - embedded}
    return whole | _axes(sites)


def _axes(sites: int) -> Found:
    """Principal axes of as many points of 368 coordinates, by NumPy and by PyTorch."""
    import torch

    rows = np.random.default_rng(0).standard_normal((sites, 368))
    began = time.perf_counter()
    np.linalg.eigh(rows.T @ rows)
    found = {"axes by NumPy s": time.perf_counter() - began}
    if torch.cuda.is_available():
        for _ in range(2):  # the first time loads what is loaded once
            began = time.perf_counter()
            moved = torch.as_tensor(rows, device="cuda")
            torch.linalg.eigh(moved.T @ moved)[1].cpu()
            found["axes on the GPU s"] = time.perf_counter() - began
    return found


CALLS: dict[str, Callable[[], Found]] = {
    "training, 20 sites of 500": lambda: training(20, 500),
    "training, 200 sites of 200": lambda: training(200, 200),
    "classifier, 20 sites of 2000": classifier,
    "embedding, 10,000 sites of 60 x 8": embedding,
}


def main() -> None:
    """Measure the call that is named, or all of them with and without the GPU."""
    if len(sys.argv) > 1:
        print(json.dumps(CALLS[sys.argv[1]]()))
        return
    for call in CALLS:
        for way, more in (("GPU", {}), ("no GPU", {"CUDA_VISIBLE_DEVICES": ""})):
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu_calls", call]
            done = subprocess.run(  # noqa: S603 - this Python
                command, env=os.environ | more, capture_output=True, check=False
            )
            found = json.loads(done.stdout) if not done.returncode else {"failed": done.returncode}
            print(json.dumps({"call": call, "way": way, **found}), flush=True)


if __name__ == "__main__":
    main()
