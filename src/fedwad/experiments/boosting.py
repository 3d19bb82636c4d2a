"""Boosting federated learning: the paper's largest table, every run of it in lockstep.

    python -m fedwad.experiments.boosting --data mnist --clients 10 20 40 100 --seeds 5 --out results

On a GPU add --fast: the paper's distances then come from all pairs at once, entropic instead of exact. Two files are
written: one row for each run, and one for each clustering, with its adjusted Rand index to the true groups.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedwad._files import write_atomically
from fedwad.experiments._boosting_setting import Setting, clusterings, distances, divided, told
from fedwad.learning import Algorithm
from fedwad.ot import Floats

__all__ = ["ALGORITHMS", "METHODS", "main"]

ALGORITHMS: tuple[Algorithm, ...] = ("fedavg", "fedrep", "fedper")
METHODS = ("paper 10", "paper 100", "summary")
_ROUNDS = 10


def main(words: Sequence[str] | None = None) -> None:
    """Run a part of the experiment and write its rows."""
    parser = argparse.ArgumentParser(prog="python -m fedwad.experiments.boosting", description=__doc__)
    parser.add_argument("--data", choices=("mnist", "cifar10"), default="mnist")
    parser.add_argument("--clients", type=int, nargs="+", default=[20])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--structure", choices=("groups", "none", "both"), default="both")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["paper 10", "summary"])
    parser.add_argument("--fast", action="store_true", help="distances of all pairs at once, entropic; needs a GPU")
    parser.add_argument("--out", type=Path, default=Path("results"))
    chosen = parser.parse_args(words)
    structures = {"groups": [True], "none": [False], "both": [True, False]}[chosen.structure]
    settings = [
        Setting(chosen.data, clients, structure, seed)
        for clients in chosen.clients
        for structure in structures
        for seed in range(chosen.seeds)
    ]
    chosen.out.mkdir(parents=True, exist_ok=True)
    rows, found = _measured(settings, chosen.methods, chosen.fast)
    _write(chosen.out / f"boosting-{chosen.data}.csv", rows)
    _write(chosen.out / f"boosting-{chosen.data}-clusters.csv", found)


def _measured(settings: Sequence[Setting], methods: Sequence[str], fast: bool) -> tuple[list[Any], list[Any]]:
    import torch

    from fedwad.experiments._boosting_training import Run, run_all
    from fedwad.training.networks import device

    torch.backends.cuda.matmul.allow_tf32 = True
    since = time.perf_counter()

    def tell(line: str) -> None:
        print(f"{time.perf_counter() - since:8.1f} s  {line}", flush=True)

    runs: dict[tuple[Any, ...], Run] = {}
    named: list[tuple[Setting, str, str, Run]] = []
    clusters = []
    for setting in settings:
        ways = clusterings(setting, {method: _distances(setting, method, fast) for method in methods})
        tell(f"{setting.key}: distances and clusters")
        for way, labels in ways.items():
            if setting.structure:
                clusters.append(_row(setting) | {"way": way, "ARI": _agreement(setting, labels)})
            same = tuple(np.unique(labels, return_inverse=True)[1].tolist())
            for algorithm in ALGORITHMS:
                run = runs.setdefault((setting, same, algorithm), Run(setting, same, algorithm))
                named.append((setting, way, algorithm, run))
    run_all(list(runs.values()), "mlp" if settings[0].data == "mnist" else "cnn", tell, device())
    sizes = {setting: divided(setting)[1].sizes for setting in settings}
    rows = [
        _row(setting)
        | {
            "way": way,
            "algorithm": algorithm,
            "accuracy": round(100 * float(np.average(run.accuracy, weights=sizes[setting])), 2),
            "worst client": round(100 * float(run.accuracy.min()), 2),
        }
        for setting, way, algorithm, run in named
    ]
    return rows, clusters


def _distances(setting: Setting, method: str, fast: bool) -> Floats:
    if fast and method != "summary":
        from fedwad.experiments._boosting_pairs import all_pairs

        return all_pairs(told(setting), int(method.split()[1]), _ROUNDS, setting.seed)
    return distances(setting, method)  # type: ignore[arg-type]


def _row(setting: Setting) -> dict[str, Any]:
    structure = "groups" if setting.structure else "none"
    return {"data": setting.data, "clients": setting.clients, "structure": structure, "seed": setting.seed}


def _agreement(setting: Setting, labels: Any) -> float:
    from sklearn.metrics import adjusted_rand_score

    return round(float(adjusted_rand_score(divided(setting)[0].groups, labels)), 4)


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_atomically(path, text.getvalue())


if __name__ == "__main__":
    main()
