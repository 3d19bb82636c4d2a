"""A year in the life of a federation: health, a newcomer, drift, and what left each site.

Run it with `python examples/run_a_federation.py`. The hospitals are those of the UCI heart disease
study. The tables have no dates, so the order of their rows stands for time: a quarter of the rows
is a quarter of the year.
"""

import csv
import warnings
from pathlib import Path

import fedwad

warnings.simplefilter("ignore", fedwad.DataWarning)
FIRST = ("cleveland", "hungarian", "switzerland")


def quarters(path):
    """The rows of a table in four parts, as four files."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    parts = []
    for k in range(4):
        part = Path(f"{path.stem}-q{k + 1}.csv")
        chosen = rows[k * len(rows) // 4 : (k + 1) * len(rows) // 4]
        with part.open("w", newline="") as file:
            csv.writer(file).writerows([header, *chosen])
        parts.append(part)
    return parts


tables = {name: quarters(path) for name, path in fedwad.datasets.load("heart").items()}

# January: three hospitals agree on a schema, and compare their first quarter.
policy = fedwad.Policy(
    ["describe", "columns", "summary"],
    min_cell_size=10,
    max_distinct_replies={"summary": 1},
    keep=True,  # what is sent may be kept: newcomers and drift are compared with it
)
january = {name: tables[name][0] for name in FIRST}
schema = fedwad.schema(january, label_column="num", missing={"chol": ["0"]}).for_new_data()
fed = fedwad.local(january, policy, "num", schema=schema, missing={"chol": ["0"]})
m = fedwad.matrix(fed)
m.save("matrix.json")
print("January:", m.heterogeneity)
print("Odd one out:", ", ".join(m.eccentricity.odd) or "none")

# April: a fourth hospital would like to join. Only it is asked.
joined = fedwad.MatrixResult.load("matrix.json").add(
    fedwad.local({"va": tables["va"][0]}, policy, "num", schema=schema)["va"]
)
print("April:", joined.placement("va").sentence)

# Each quarter, every hospital watches its own data beside a reference of its first quarter.
for name in FIRST:
    reference = fedwad.Reference.from_data(
        tables[name][0], name, label_column="num", missing={"chol": ["0"]}
    )
    reference.save(f"{name}.json")
for number in (2, 3, 4):
    for name in FIRST:
        found = fedwad.Reference.load(f"{name}.json").compare(
            tables[name][number - 1],
            alpha=0.05,
            name=f"q{number}",
            history=f"{name}.jsonl",
            label_column="num",
            missing={"chol": ["0"]},
        )
        if number == 2 or found.drift:
            print(f"Quarter {number}, {name}: {found.sentence}")

# December: what has left each hospital for the comparison of January?
for name, ledger in fed.ledgers.items():
    sent = [entry for entry in ledger.entries if entry.outcome == "answered"]
    print(f"{name} answered {len(sent)} times, {sum(entry.bytes for entry in sent)} bytes")
