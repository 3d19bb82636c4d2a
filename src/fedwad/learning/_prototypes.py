"""The labelled atoms that sites send to the coreset classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.errors import InputError
from fedwad.federation import (
    MeteredFederation,
    PrivateReply,
    PrivateRequest,
    Prototypes,
    PrototypesRequest,
)
from fedwad.privacy import DP, class_means

__all__ = ["ask_private_prototypes", "ask_prototypes"]


def ask_prototypes(
    metered: MeteredFederation, sites: Sequence[str], request: PrototypesRequest
) -> dict[str, Prototypes]:
    """The atoms of each site with the type of labels and the number of features that most have."""
    requests = dict.fromkeys(sorted(sites), request)  # so the order of `sites` has no effect
    replies = metered.ask(requests, Prototypes, allow_failures=True)
    class_names = {site: reply.names for site, reply in replies.items()}
    replies, _ = metered.keep_most_frequent_label_type(replies, class_names)
    dimensions = {site: reply.points.shape[1] for site, reply in replies.items()}
    return metered.keep_most_frequent_dimension(replies, dimensions)


def ask_private_prototypes(
    metered: MeteredFederation, sites: Sequence[str], guarantee: DP
) -> dict[str, Prototypes]:
    """The noisy class means of each site, as one atom for each class that stands out of the noise.

    A site without such a class is left out.
    """
    requests = dict.fromkeys(sites, PrivateRequest.of(guarantee))
    replies = metered.ask(requests, PrivateReply, allow_failures=True)
    dimensions = {site: len(reply.mean) for site, reply in replies.items()}
    atoms = {}
    for site, reply in sorted(metered.keep_most_frequent_dimension(replies, dimensions).items()):
        present, weights, points = class_means(reply)
        if len(present):
            class_names = [guarantee.class_names[index] for index in present]
            ordered = sorted(class_names)
            labels = np.array([ordered.index(name) for name in class_names], dtype=np.int64)
            atoms[site] = Prototypes(points, weights, labels, tuple(ordered), complete=True)
        else:
            metered.failed[site] = "No class of this site stands out of the noise."
    if not atoms:
        raise InputError(
            "No class stands out of the noise at any site; take a larger epsilon, or fewer"
            " features."
        )
    return atoms
