"""Means over blocks of rows: the only message of a permutation test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedwad._checks import check_whole
from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, is_count, is_finite, require
from fedwad.federation.needs import Needs
from fedwad.ot import Blocks, Floats, block_means

__all__ = ["BlocksReply", "BlocksRequest"]

_MOST_BLOCKS = 100


@dataclass(frozen=True, eq=False)
class BlocksReply(Reply):
    """Means of public functions over blocks of `rows` rows, a row of numbers for each block.

    A block has at most half as many numbers as its rows have.
    """

    rows: int
    means: Floats
    kinds: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def blocks(self) -> Blocks:
        """The blocks as the test takes them."""
        return Blocks(self.rows, self.means, tuple(zip(self.kinds, self.counts, strict=True)))

    def check_values(self) -> None:
        require(is_count(self.rows), "the size of a block is not a positive whole number.")
        require(
            is_finite(self.means, 2) and 0 < len(self.means) <= _MOST_BLOCKS,
            "means of blocks are not finite, or too many.",
        )
        require(
            all(type(kind) is str for kind in self.kinds)
            and all(is_count(count) for count in self.counts)
            and len(self.kinds) == len(self.counts)
            and sum(self.counts) == self.means.shape[1],
            "its numbers are not named.",
        )


@dataclass(frozen=True, eq=False)
class BlocksRequest(Request):
    """Ask for means over blocks of so many rows, standardised by public numbers.

    The site deals its rows into blocks in an order that depends on the data alone.
    """

    kind: ClassVar[str] = "blocks"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = BlocksReply
    rows: int
    centre: Floats
    scale: Floats

    def validate(self) -> BlocksRequest:
        centre, scale = (np.array(part, dtype=np.float64) for part in (self.centre, self.scale))
        if not (is_finite(centre, 1) and is_finite(scale, 1) and bool((scale > 0).all())):
            raise InputError("Centre and scale of blocks must be finite, and scales positive.")
        return BlocksRequest(check_whole(self.rows, "rows"), centre, scale)

    def needs(self) -> Needs:
        return Needs()

    def check_shape(self, context: ClientContext) -> None:
        features = context.data.measure.dimension
        if self.centre.shape != (features,) or self.scale.shape != (features,):
            raise InputError(
                f"Centre and scale have {len(self.centre)} and {len(self.scale)} numbers; this"
                f" site's data have {features} features."
            )

    def execute(self, context: ClientContext) -> tuple[BlocksReply, int]:
        found = block_means(context.data.measure, self.rows, self.centre, self.scale, 1)
        kinds, counts = zip(*found.segments, strict=True)
        return BlocksReply(found.rows, found.means, kinds, counts), found.rows

    def check(self, reply: BlocksReply) -> None:
        require(reply.rows == self.rows, "its blocks have another size.")
        require(
            2 * reply.means.shape[1] <= self.rows * len(self.centre),
            "a block has more numbers than half of those in its rows.",
        )
