"""Four hospitals compare raw exports: text, codes, empty cells and columns of all units.

Run it with `python examples/your_own_tables.py`. The tables are those of the UCI heart disease
study as published; use your own files instead.
"""

import warnings

import fedwad
from fedwad.report import write_report

files = fedwad.datasets.load("heart")  # {"cleveland": path, "hungarian": path, ...}
warnings.simplefilter("ignore", fedwad.DataWarning)  # printed below instead

# 1. What would each column become? One message from each hospital says.
first = fedwad.schema(files, label_column="num")
for line in first.description_lines():
    print(line)
for conflict in first.conflicts:
    print("Warning:", conflict)

# 2. A cholesterol of 0 is no measurement. Say so, and keep what was agreed on as a file.
schema = fedwad.schema(files, label_column="num", missing={"chol": ["0"]})
schema.save("heart.toml")
print(schema["chol"].becomes, "- missing:", schema["chol"].missing)

# 3. Distances under that schema. Every row is kept.
fed = fedwad.local(files, schema="heart.toml")
m = fedwad.matrix(fed)
print(m.to_frame().round(2).to_string())

# 4. What each site has, in the columns' own units.
for name, path in files.items():
    mean = fed.schema.describe(fed.schema.encode(path).mean(axis=0))
    chol = mean["chol"]
    print(f"{name}: age {mean['age']['mean']:.1f}, cholesterol missing {chol['missing']:.0%}")

# 5. A page to read and to send.
write_report(m, "heart.html")

# The tables are public, so we can pool them and compute the exact distance.
exact = fedwad.wasserstein(schema.encode(files["cleveland"]), schema.encode(files["va"]))
here, there = m.sites.index("cleveland"), m.sites.index("va")
print(f"cleveland and va: {m.value[here, there]:.3f}, exact {exact:.3f}")
assert m.lower[here, there] <= exact <= m.upper[here, there]
