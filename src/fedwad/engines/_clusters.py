"""Clusters of sites for training by other apps, in whichever form a user has them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedwad.errors import InputError

if TYPE_CHECKING:
    from fedwad.compare import MatrixResult

#: The cluster of each site: a mapping from names, or labels in the order of the sites.
Clusters = Mapping[str, Hashable] | Iterable[Hashable]


def labels_by_site(clusters: Clusters, sites: Sequence[str] | None) -> dict[Any, Any]:
    """The cluster of each site, by its name; by its number if neither gives names."""
    if isinstance(clusters, Mapping):
        labels = dict(clusters)
    else:
        values = [label.item() if hasattr(label, "item") else label for label in clusters]
        if sites is not None and len(sites) != len(values):
            raise InputError(
                f"There are {len(values)} labels for {len(sites)} sites; give one for each.",
                "bad-option",
            )
        labels = dict(zip(range(len(values)) if sites is None else sites, values, strict=True))
    if not labels:
        raise InputError("clusters is empty; give the cluster of each site.", "bad-option")
    return labels


def nearest_sites(matrix: MatrixResult, site: str, count: int) -> dict[str, int]:
    """The site and the `count` sites nearest to it by a matrix, as one cluster for `Clustered`.

    It chooses the clients that train a model for one site. Distances are `matrix.value`.
    """
    if site not in matrix.sites:
        raise InputError(
            f"There is no site '{site}' in this matrix; its sites are {', '.join(matrix.sites)}.",
            "unknown-site",
        )
    row = matrix.value[matrix.sites.index(site)]
    order = sorted(range(len(matrix.sites)), key=lambda k: (k != matrix.sites.index(site), row[k]))
    return {matrix.sites[k]: 0 for k in order[: count + 1]}
