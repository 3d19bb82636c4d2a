"""Clusters for anybody's FLARE recipe: one job for each cluster of sites.

A training script and a model stay as they are. In the script that makes the job two lines change:

    recipe = FedAvgRecipe(min_clients=10, num_rounds=5, model=Net(), train_script="client.py")
    recipe.execute(env)

    for members, recipe in clustered(
        lambda members: FedAvgRecipe(
            name=f"from-{members[0]}", min_clients=len(members), num_rounds=5, model=Net(),
            train_script="client.py",
        ),
        clusters=m.cluster(5), sites=m.sites,
    ):
        recipe.execute(env)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fedwad.engines._clusters import Clusters, labels_by_site
from fedwad.engines.job import need_engine

if TYPE_CHECKING:
    from nvflare.recipe.spec import Recipe


def clustered(
    make: Callable[[list[str]], Recipe], clusters: Clusters, sites: Sequence[str] | None = None
) -> Iterator[tuple[list[str], Any]]:
    """Yield the sites of each cluster, and a recipe whose job is deployed to these sites only.

    A server may run the jobs at the same time. Their results are those of FLARE: a model for each
    job, which is that of the cluster.

    Parameters
    ----------
    make : returns a recipe for these sites, such as
        `lambda members: FedAvgRecipe(min_clients=len(members), ...)`. It should have another name
        for each cluster, since FLARE's simulator has one folder for each name.
    clusters : the cluster of each site: a mapping from names of sites, or labels in the order of
        `sites`, as `fedwad.matrix(...).cluster(5)` gives them
    sites : names of the sites in their certificates, such as `m.sites`
    """
    need_engine("flare")
    from nvflare.recipe.utils import set_per_site_config

    labels = {str(site): label for site, label in labels_by_site(clusters, sites).items()}
    for label in dict.fromkeys(labels.values()):
        members = [site for site, own in labels.items() if own == label]
        recipe = make(members)
        set_per_site_config(recipe, {site: {} for site in members})
        yield members, recipe
