"""One message for a permutation test: means over blocks of rows from each site.

A block is one of the random disjoint groups of rows of one site; only their means leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedwad.federation import BlocksReply, BlocksRequest, MeteredFederation, check_same_features
from fedwad.ot import Blocks

__all__ = ["ask_blocks"]


def ask_blocks(metered: MeteredFederation, names: Sequence[str]) -> dict[str, Blocks]:
    """Ask each site for the means over its blocks, which serve tests of all pairs."""
    replies = metered.ask(dict.fromkeys(names, BlocksRequest()), BlocksReply)
    # centre: the mean of all rows of the site, one number for each feature
    check_same_features({name: len(replies[name].centre) for name in names})
    return {name: replies[name].blocks for name in names}
