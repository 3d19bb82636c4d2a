"""Twenty sites: which belong together? Distances from one message each, clusters, and a page.

Run it with `python examples/twenty_sites.py`; it writes sites.json and sites.html.
"""

import fedwad
from fedwad.datasets import load, partition
from fedwad.report import write_report

# Twenty sites in five groups.
X, y = load("digits")
sites = partition.class_pairs(X, y, clients=20, samples=80, seed=0, balanced=True)

m = fedwad.matrix(sites, labels=True)  # labels=True compares the statistics of the classes, too
suggestion = m.suggest()
print(f"{len(m)} sites, {m.traffic.up / 1000:.0f} kB sent; {suggestion.k} groups are suggested")

groups = m.cluster(suggestion.k, affinity="kernel", seed=0)
for group in sorted(set(groups)):
    members = [name for name, found in zip(m.sites, groups, strict=True) if found == group]
    print(f"group {group}: {', '.join(members)}")

nearest = ", ".join(near.site for near in m.nearest(m.sites[0], 3))
print(f"the sites closest to {m.sites[0]} are {nearest}")
m.save("sites.json")
write_report(m, "sites.html", clusters=groups)
print("sites.html shows the results, offline, on a phone or on paper")
