"""One message for a permutation test: means over blocks of rows from each site.

A block is one of the random disjoint groups of rows of one site; only their means leave.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from fedwad.errors import DataWarning
from fedwad.federation import BlocksReply, BlocksRequest, MeteredFederation, check_same_features
from fedwad.ot import Blocks

__all__ = ["ask_blocks", "ask_willing_blocks"]


def ask_blocks(metered: MeteredFederation, names: Sequence[str]) -> dict[str, Blocks]:
    """Ask each site for the means over its blocks; one reply serves the tests of all its pairs."""
    replies = metered.ask(dict.fromkeys(names, BlocksRequest()), BlocksReply)
    # centre: the mean of all rows of the site, one number for each feature
    check_same_features({name: len(replies[name].centre) for name in names})
    return {name: replies[name].blocks for name in names}


def ask_willing_blocks(
    metered: MeteredFederation, names: Sequence[str], features: int
) -> dict[str, Blocks]:
    """Ask as `ask_blocks` does, and go on without sites that refuse or fail if two remain.

    Those sites stay in the matrix, so they are not added to `metered.failed`. A `DataWarning` says
    why each of them is not tested. `features` is the number of features of the sites' data.
    """
    failed_before = dict(metered.failed)
    replies = metered.ask(
        dict.fromkeys(names, BlocksRequest()), BlocksReply, allow_failures=True, at_least=2
    )
    reasons = {name: metered.failed[name] for name in names if name not in replies}
    metered.failed = failed_before
    for name, reply in list(replies.items()):
        if len(reply.centre) != features:
            reasons[name] = "its block means are about another number of features."
            del replies[name]
    for name, reason in reasons.items():
        warnings.warn(f"{name} is not tested: {reason}", DataWarning, stacklevel=4)
    return {name: reply.blocks for name, reply in replies.items()}
