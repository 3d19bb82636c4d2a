"""Sites with different data train badly together: find similar sites, and train inside groups.

Run it with `python examples/boost.py`; it needs the extra `learn` (PyTorch) and writes
training.json.
"""

import fedwad
from fedwad.datasets import load, partition
from fedwad.learning import train

# Ten sites; each holds two classes of digits, and two sites hold the same two.
X, y = load("digits")
sites = partition.class_pairs(X / 16, y, clients=10, samples=120, seed=0)

m = fedwad.matrix(sites, labels=True)  # one message from each site
groups = m.cluster(m.suggest().k, affinity="kernel", seed=0)
print(f"{m.suggest().k} groups from {m.traffic.up / 1000:.0f} kB")

options = {"rounds": 4, "epochs": 4, "learning_rate": 0.05, "seed": 0}
for algorithm in ("fedavg", "fedper"):
    together = 100 * train(sites, algorithm, **options).mean
    apart = train(sites, algorithm, groups=groups, **options)
    print(f"{algorithm}: {together:.1f}% all together, {100 * apart.mean:.1f}% inside groups")
apart.save("training.json")
