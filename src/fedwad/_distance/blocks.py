"""One message for a permutation test: means over blocks of rows from each site."""

from __future__ import annotations

from collections.abc import Sequence

from fedwad.federation import BlocksReply, BlocksRequest, MeteredFederation, same_features
from fedwad.ot import Blocks

__all__ = ["ask_blocks"]


def ask_blocks(line: MeteredFederation, names: Sequence[str]) -> dict[str, Blocks]:
    """Ask each site for the means over its blocks, which serve tests of all pairs."""
    replies = line.ask(dict.fromkeys(names, BlocksRequest()), BlocksReply)
    same_features({name: len(replies[name].centre) for name in names})
    return {name: replies[name].blocks for name in names}
