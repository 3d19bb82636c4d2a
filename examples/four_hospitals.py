"""Four hospitals ask whether they see the same patients. None shows a row.

Run it with `python examples/four_hospitals.py`. The tables are those of UCI Heart Disease, as the
hospitals exported them; use your own instead.
"""

import warnings

import fedwad
from fedwad.report import write_report

tables = fedwad.datasets.load("heart")  # cleveland, hungarian, switzerland, va: paths of CSV files

# 1. What each hospital answers: what its columns mean, and one summary. Every mean that leaves
# averages at least ten patients.
policy = fedwad.Policy(
    allow=["columns", "summary"],
    min_cell_size=10,
    max_queries=10,
    max_distinct_replies=1,
)
warnings.simplefilter("ignore", fedwad.errors.DataWarning)  # two of them are printed below
fed = fedwad.local(tables, policy=policy, label_column="num")
for conflict in fed.schema.conflicts[:2]:  # where the tables contradict each other
    print("Warning:", conflict.sentence)

# 2. All pairs, from one summary of each hospital. A permutation test says what may be said.
m = fedwad.matrix(fed)
print(m.sentence)
for i, a in enumerate(m.sites):
    for j, b in enumerate(m.sites[:i]):
        low, high = (end[i, j] for end in m.population_interval)
        print(f"{b} - {a}: {m.population[i, j]:.2f} ({low:.2f} to {high:.2f}), ", end="")
        print(f"chance alone {m.noise[i, j]:.2f}, p = {m.pvalue[i, j]:.3f}")

# 3. Why? The columns that make the difference.
print(m.explain("cleveland", "switzerland"))
write_report(m, "hospitals.html", schema=fed.schema)

# 4. What a data protection officer sees: everything that left.
for name, ledger in fed.ledgers.items():
    sent = ", ".join(f"{entry.kind} {entry.bytes} bytes" for entry in ledger.entries)
    print(f"{name} sent: {sent}")

# 5. Anything else is refused.
try:
    fedwad.distance(fed["cleveland"], fed["va"], method="fedwad")
except fedwad.PolicyError as error:
    print(error)

# 6. Zero is no cholesterol: say that it stands for a missing value, and compare again.
again = fedwad.local(tables, label_column="num", missing={"chol": ["0"]})
r = fedwad.distance(again["cleveland"], again["switzerland"])
print(f"with 0 as missing: {r.population:.2f}. {r.explain()}")
