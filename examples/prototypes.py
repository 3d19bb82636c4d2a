"""Ten prototypes that represent everybody's data, and a classifier made of prototypes.

Sites send sums and means. Run it with `python examples/prototypes.py`; it writes prototypes.png.
"""

import numpy as np

import fedwad
from fedwad.datasets import load, partition

X, y = load("digits")
rows = np.random.default_rng(0).permutation(len(X))
train, test = rows[:1500], rows[1500:]

# Ten sites that hold two classes of digits each.
sites = partition.classes_per_client(X[train], y[train], classes=2, clients=10, samples=50, seed=0)

c = fedwad.coreset({name: X for name, (X, _) in sites.items()}, size=10)
print(f"W2 between ten prototypes and all data is between {c.lower:.3f} and {c.upper:.3f}")
print(f"{len(c.history)} rounds, {c.traffic.up / 1000:.0f} kB sent by the sites")
c.plot("prototypes.png")

# Labelled prototypes from each site in one message, pooled into a nearest-neighbour classifier.
model = fedwad.CoresetClassifier(size=10).fit(sites)
accuracy = 100 * model.score(X[test], y[test])
print(f"{len(model.points_)} prototypes classify {accuracy:.1f}% of unseen digits correctly")
