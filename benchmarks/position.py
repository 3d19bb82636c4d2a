"""What one reply, or two, of the paper's rounds reveal over t: python -m benchmarks.position

A curious server asks one site with 200 records, with supports around the pooled mean. It takes the
points of the reply for records, or takes t out of them where it knows t, or solves two replies for
both where the site draws its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedwad
from benchmarks.__main__ import show
from fedwad.audit.score import ReconstructionScorer
from fedwad.federation import Client, Dataset, Policy, TransportReply, TransportRequest
from fedwad.transport import Measure

Floats = NDArray[np.float64]
RECORDS = 200


def replies(X: Floats, t: float | None, size: int, seed: int) -> list[tuple[Floats, Floats]]:
    """Supports of two requests, and the points of both replies."""
    rng, client = np.random.default_rng(seed), Client(Dataset(Measure(X)), Policy.open())
    found = []
    for k in range(2):
        noise = 2 * k + rng.standard_normal((size, X.shape[1]))
        support = Measure(X.mean(axis=0) + X.std(axis=0) * noise)
        reply = client.answer(TransportRequest("run", support, 2.0, t, "barycentric", False))
        assert isinstance(reply, TransportReply)
        found.append((support.points, reply.interpolant.points))
    return found


def records(both: list[tuple[Floats, Floats]], t: float | None) -> Floats:
    """The cells' means; without t, by the mean of all records, which is the same in both."""
    (z, sent), (other, again) = both
    if t is None:
        first, second = ((a - b).mean(axis=0) for a, b in ((sent, z), (again, other)))
        apart = other.mean(axis=0) - z.mean(axis=0)
        (scale, _), *_ = np.linalg.lstsq(np.column_stack([first, -second]), apart, rcond=None)
        t = 1 - 1 / float(scale)
    return np.asarray((sent - t * z) / (1 - t))


def measure(seeds: int = 10) -> list[dict[str, Any]]:
    """Medians over seeds of the records that are found exactly."""
    images, _ = fedwad.datasets.load("digits")
    data = {
        "normal, d=2": np.random.default_rng(0).standard_normal((RECORDS, 2)),
        "digits, d=64": np.asarray(images[:RECORDS], dtype=np.float64),
    }
    rows = []
    for name, X in data.items():
        scorer = ReconstructionScorer(X)
        for size in (RECORDS // 10, RECORDS):
            for t in (0.1, 0.5, 0.9, None):
                found = [replies(X, t, size, seed) for seed in range(seeds)]
                taken = [scorer.score(both[0][1]) for both in found]
                solved = [scorer.score(records(both, t)) for both in found]
                row: dict[str, Any] = {"data": name, "S": size, "t": "own" if t is None else t}
                for words, scores in (("reply as it is", taken), ("without t", solved)):
                    row[f"{words}: exact"] = int(np.median([one.exact for one in scores]))
                    row[f"{words}: closest"] = float(np.median([one.closest for one in scores]))
                rows.append(row)
    return rows


if __name__ == "__main__":
    show("records of 200 that a reply reveals", measure())
