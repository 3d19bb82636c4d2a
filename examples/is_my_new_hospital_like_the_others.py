"""Is a new hospital like those that are compared already? Only the new one is asked.

Run it with `python examples/is_my_new_hospital_like_the_others.py`.
"""

import warnings
from pathlib import Path

import fedwad

warnings.simplefilter("ignore", fedwad.DataWarning)
files = fedwad.datasets.load("heart")
new = files.pop("va")

# 1. Three hospitals were compared once. What they sent may be kept.
fed = fedwad.local(files, label_column="num", missing={"chol": ["0"]})
fedwad.matrix(fed).save("matrix.json")

# 2. The fourth one comes later. The matrix has the schema, and the others are not asked again.
m = fedwad.MatrixResult.load("matrix.json")
columns = {"label_column": "num", "missing": {"chol": ["0"]}}
va = fedwad.local({"va": new}, schema=m.evidence.schema, **columns)["va"]
joined = m.add(va)
print(f"messages asked for: {joined.traffic.messages}, all of va")

# 3. Where does it belong, and what does it differ by?
placed = joined.placement("va")
print(placed.sentence)
for neighbour in placed.nearest:
    print(f"{neighbour.site}: {neighbour.value:.2f}")
print(placed.explanation)

# 4. Half of a hospital that takes part already is no stranger.
header, *rows = files["cleveland"].read_text().splitlines(keepends=True)
Path("half.csv").write_text("".join([header, *rows[::2]]))
half = fedwad.local({"half": "half.csv"}, schema=m.evidence.schema, **columns)["half"]
print(m.add(half).placement("half").sentence)
