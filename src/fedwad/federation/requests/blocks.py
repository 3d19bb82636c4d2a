"""Means over blocks of rows: the only message of a permutation test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedwad.federation.context import ClientContext
from fedwad.federation.message import Reply, Request, check_bool, is_count, is_finite, require
from fedwad.ot import MIN_BLOCK_ROWS, Blocks, Floats, block_means, segments_of

__all__ = ["BlocksReply", "BlocksRequest"]

_MAX_BLOCKS = 400


@dataclass(frozen=True, eq=False)
class BlocksReply(Reply):
    """Means over blocks of rows, and the mean and scale by which the rows were standardised.

    A row of `means` describes one block: it holds the means of powers of features and of squared
    random projections (`fedwad.ot.segments_of`). The first `counts[0]` blocks have `rows` rows
    each, the next `counts[1]` twice as many, and so on. There are at most half as many means of a
    block as numbers in its rows. `centre` and `scale` are the mean and the standard deviations of
    all rows of the site. `keep` says whether the site allows the reply to be kept in a file.
    """

    rows: int
    counts: tuple[int, ...]
    means: Floats
    centre: Floats
    scale: Floats
    keep: bool = False

    @property
    def blocks(self) -> Blocks:
        """The blocks in the form that the permutation test takes."""
        return Blocks(self.rows, tuple(self.counts), self.means, self.centre, self.scale)

    def check_values(self) -> None:
        check_bool(self.keep)
        require(
            is_count(self.rows)
            and self.rows % MIN_BLOCK_ROWS == 0
            and (self.rows // MIN_BLOCK_ROWS).bit_count() == 1,
            f"the size of a block is not {MIN_BLOCK_ROWS} times a power of two.",
        )
        require(
            is_finite(self.means, 2) and 0 < len(self.means) <= _MAX_BLOCKS,
            "the means of blocks are not finite, or there are too many blocks.",
        )
        require(
            all(is_count(count) for count in self.counts) and sum(self.counts) == len(self.means),
            "the counts do not sum to the number of blocks.",
        )
        require(
            is_finite(self.centre, 1)
            and is_finite(self.scale, 1)
            and self.centre.shape == self.scale.shape
            and bool((self.scale > 0).all()),
            "the centre or the scale is not finite, or a scale is not positive.",
        )
        require(
            self.means.shape[1] == sum(count for _, count in segments_of(len(self.centre))),
            "the number of means of a block does not fit the number of features.",
        )


@dataclass(frozen=True)
class BlocksRequest(Request):
    """Ask for means over blocks of rows.

    The server chooses nothing. The site distributes its rows over blocks in an order that depends
    on the data alone, and standardises them by their own mean and standard deviations. So one reply
    serves tests against any other site.
    """

    kind: ClassVar[str] = "blocks"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = BlocksReply

    def validate(self) -> BlocksRequest:
        return BlocksRequest()

    def execute(self, context: ClientContext) -> tuple[BlocksReply, int]:
        data = context.data
        blocks = block_means(data.measure, context.min_own_cell_size, data.row_digests)
        reply = BlocksReply(
            blocks.rows,
            blocks.counts,
            blocks.means,
            blocks.centre,
            blocks.scale,
            context.policy.keep,
        )
        return reply, blocks.rows
