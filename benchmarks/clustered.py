"""Stock apps on the paper's groups of MNIST: FedAvg alone, in clusters, and `fedwad train`.

    FEDWAD_DATA=... python -m benchmarks.clustered [SAMPLES]

runs examples/flower_clusters in Flower's simulation and examples/flare_clusters in FLARE's
simulator, on ten sites with two digits each.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import fedwad
from fedwad.datasets import partition
from fedwad.engines.flower._control import Control, environment
from fedwad.learning import train
from paper.data import load

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_app(folder: Path, clusters: int) -> str:
    """Run the app in Flower's simulation; the line that it prints, or the end of its log."""
    from fedwad.engines._processes import Process, free_port, wait_until_listening

    home = folder / f"flower-{clusters}"
    home.mkdir()
    port = free_port()
    command = ["flower-superlink", "--insecure", "--simulation", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--disable-runtime-dependency-installation"]
    settings = f"sites='{folder / 'sites'}' matrix='{folder / 'matrix.json'}' clusters={clusters}"
    options = ["--federation-config", "num-supernodes=10", "--run-config", settings]
    with Process(command, environment(home), home / "superlink.log") as superlink:
        wait_until_listening(superlink, port)
        control = Control(home, f"127.0.0.1:{port}", None, insecure=True)
        run = control.start(EXAMPLES / "flower_clusters", options)
        lines = list(control.log(run, time.monotonic() + 400))
    return _accuracy(lines)


def run_recipe(folder: Path, clusters: int) -> str:
    """Run the recipe in FLARE's simulator; the line that it prints, or the end of its log."""
    command = [sys.executable, str(EXAMPLES / "flare_clusters" / "job.py"), str(folder / "sites")]
    command += [str(folder / "matrix.json"), str(clusters)]
    done = subprocess.run(  # noqa: S603 - a fixed command, no shell
        command, capture_output=True, text=True, check=False, cwd=folder
    )
    return _accuracy([*done.stdout.splitlines(), *done.stderr.splitlines()])


def _accuracy(lines: list[str]) -> str:
    return next((line.strip() for line in lines if "clusters: accuracy" in line), str(lines[-9:]))


def main() -> None:
    """Print a line for each training."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    X, y = load("mnist")
    sites = partition.class_pairs(X, y, clients=10, samples=samples, seed=0)
    m = fedwad.matrix(sites, labels=True)
    with TemporaryDirectory(prefix="fedwad-") as name:
        folder = Path(name)
        (folder / "sites").mkdir()
        for site, (points, labels) in sites.items():
            np.savez(folder / "sites" / f"{site}.npz", X=points, y=labels)
        m.save(folder / "matrix.json")
        for k in (1, 5):
            print(f"Flower, {run_app(folder, k)}", flush=True)
            print(f"FLARE, {run_recipe(folder, k)}", flush=True)
    options = {"rounds": 5, "epochs": 2, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.9}
    for words, groups in (("all together", None), ("in clusters", m.cluster(5))):
        result = train(sites, groups=groups, **options, test_every_round=False)
        print(f"fedwad train, {words}: accuracy {result.mean:.4f}", flush=True)


if __name__ == "__main__":
    main()
