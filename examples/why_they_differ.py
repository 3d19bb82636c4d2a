"""Which columns make four hospitals differ, and what separates their clusters.

Run it with `python examples/why_they_differ.py`.
"""

import warnings

import fedwad

warnings.simplefilter("ignore", fedwad.DataWarning)  # the guide about tables shows these
fed = fedwad.local(fedwad.datasets.load("heart"), label_column="num")  # raw tables
m = fedwad.matrix(fed)

why = m.explain("cleveland", "switzerland")
print(why)
for k in why.order[:4]:
    print(f"{why.names[k]:8} {why.share[k]:4.0%}  p = {why.pvalue[k]:.4f}  SMD {why.smd[k]:.2f}")

for other, found in m.explain("switzerland").items():
    print(f"switzerland and {other}: {found.causes[0]} first")

print(m.explain_clusters(m.cluster(2))[0])  # what separates the first of two clusters
