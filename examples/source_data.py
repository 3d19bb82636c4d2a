"""Which public dataset resembles a private one most? The site with the private one sends a summary.

Run it with `python examples/source_data.py`.
"""

import numpy as np

import fedwad
from fedwad.datasets import load

X, y = load("digits")
rng = np.random.default_rng(0)
rows = rng.permutation(len(X))
private, rest = rows[:400], rows[400:]
image = X[rest].reshape(-1, 8, 8)

candidates = {
    "other digits": (X[rest], y[rest]),
    "mirrored": (image[:, :, ::-1].reshape(-1, 64), y[rest]),
    "upside down": (image[:, ::-1, :].reshape(-1, 64), y[rest]),
    "noisy": (X[rest] + rng.normal(0, 4, (len(rest), 64)), y[rest]),
    "negative": (16 - X[rest], y[rest]),
}
m = fedwad.matrix({"private": (X[private], y[private]), **candidates}, labels=True)
for near in m.nearest("private"):
    bounds = f"certified between {near.lower:.2f} and {near.upper:.2f}"
    print(f"{near.site:>12}: {near.value:6.2f}   {bounds}")
assert m.nearest("private")[0].site == "other digits"
