"""Watch a site's data for drift, as a job in continuous integration does.

Run it with `python examples/watch_for_drift_in_ci.py`. Four batches of one hospital come one after
another; in the last, cholesterol is in other units.
"""

import csv
import warnings
from pathlib import Path

import fedwad
from fedwad.report import write_report

warnings.simplefilter("ignore", fedwad.DataWarning)
with fedwad.datasets.load("heart")["cleveland"].open(newline="") as file:
    header, *rows = csv.reader(file)


def write(name, chosen):
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows([header, *chosen])


write("before.csv", rows[::2])
chol = header.index("chol")
rest = rows[1::2]
write("may.csv", rest[:50])
write("june.csv", rest[50:100])
write(
    "july.csv", [[*r[:chol], f"{float(r[chol]) / 38.67:.2f}", *r[chol + 1 :]] for r in rest[100:]]
)

# 1. Once: a reference. It has a summary, means over blocks of rows and the schema, and no rows.
reference = fedwad.Reference.from_data("before.csv", "before", label_column="num")
reference.save("ref.json")
print(reference)

# 2. Each month: the level of each comparison is chosen so that all of them sum to alpha.
alarm = False
for month in ("may", "june", "july"):
    found = fedwad.Reference.load("ref.json").compare(
        f"{month}.csv", alpha=0.05, name=month, history="log.jsonl", label_column="num"
    )
    print(found.sentence)
    alarm = alarm or found.drift

# 3. What has changed, and a page of all comparisons.
print(found.explain())
write_report(found, "drift.html", entries=reference.history("log.jsonl"))

# 4. `fedwad watch` would exit with 3 here; a job that must go on decides itself.
print("exit code", 3 if alarm else 0)
