"""Two hospitals measure how similar their patients are. Neither shows a row.

Run it with `python examples/two_hospitals.py`. The patients are simulated; use your own tables
instead.
"""

import numpy as np

import fedwad

rng = np.random.default_rng(0)


def patients(count, age, pressure):
    """Age, systolic pressure and glucose, each divided by a public reference spread."""
    columns = [
        rng.normal(age, 15, count) / 15,
        rng.normal(pressure, 12, count) / 12,
        rng.normal(5.5, 0.9, count) / 0.9,
    ]
    return np.column_stack(columns)


paris, oslo = patients(900, 58, 128), patients(700, 64, 135)

# 1. What each hospital answers: one kind of request, cells of at least twenty patients, ten
# queries in all.
policy = fedwad.Policy(
    allow=["summary"],
    min_cell_size=20,
    max_queries=10,
    max_distinct_replies=1,
    covariance_type="diag",
)
fed = fedwad.local({"paris": paris, "oslo": oslo}, policy=policy)

# 2. The distance, from one message of each hospital.
r = fedwad.distance(fed["paris"], fed["oslo"])
print(f"distance {r.value:.3f}, certified between {r.lower:.3f} and {r.upper:.3f}")
print(f"{r.traffic.messages} messages, {r.traffic.up} bytes")
print(f"the smallest cell averages {r.min_cell_size} patients")

# 3. What a data protection officer sees: every request, answered or not.
for name, ledger in fed.ledgers.items():
    for entry in ledger.entries:
        print(f"{name}: {entry.kind} {entry.outcome}, {entry.bytes} bytes, {entry.digest[:12]}")

# 4. Anything else is refused.
try:
    fedwad.distance(fed["paris"], fed["oslo"], method="fedwad")
except fedwad.PolicyError as error:
    print(error)

# These tables are simulated, so we can compute the exact distance.
exact = fedwad.wasserstein(paris, oslo)
print(f"exact, rows pooled: {exact:.3f}")
assert r.lower <= exact <= r.upper
