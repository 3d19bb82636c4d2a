"""One message for a permutation test: means over blocks of rows from each site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedwad.errors import InputError, PolicyError
from fedwad.federation import (
    BlocksReply,
    BlocksRequest,
    MeteredFederation,
    Moments,
    MomentsRequest,
    SummaryReply,
    SummaryRequest,
    same_features,
)
from fedwad.methods import Summary as SummaryMethod
from fedwad.ot import Blocks, Summary, block_size

__all__ = ["ask_blocks"]

_FEWEST_ROWS = 10


def ask_blocks(
    line: MeteredFederation,
    names: Sequence[str],
    blocks: int | None = None,
    summaries: Sequence[Any] | None = None,
) -> dict[str, Blocks]:
    """Ask each site for the means over its blocks, after the numbers that standardise the rows.

    Those are the pooled mean and standard deviations, from `summaries` if they are known, else
    from a message before.
    """
    known = _moments_of(summaries) if summaries is not None else _ask_moments(line, names)
    same_features({name: len(one.mean) for name, one in zip(names, known, strict=True)})
    counts = [one.count for one in known]
    shares = np.array(counts) / sum(counts)
    means = np.array([one.mean for one in known])
    centre = shares @ means
    variances = shares @ (np.array([one.scale for one in known]) ** 2 + (means - centre) ** 2)
    scale = np.sqrt(variances)
    request = BlocksRequest(_rows(counts, blocks), centre, np.where(scale > 0, scale, 1.0))
    replies = line.ask(dict.fromkeys(names, request), BlocksReply)
    return {name: replies[name].blocks for name in names}


def _rows(counts: list[int], blocks: int | None) -> int:
    if blocks is None:
        return block_size(counts, _FEWEST_ROWS)
    rows = min(counts) // blocks
    if blocks < 2 or rows < 1:
        raise InputError(
            f"{blocks} blocks were asked for where the smallest site has {min(counts)} rows;"
            " give at least two, and no more than it has rows."
        )
    return rows


def _ask_moments(line: MeteredFederation, names: Sequence[str]) -> list[Moments]:
    """Return moments from the summaries that a distance asks for, or where refused, by request."""
    method = SummaryMethod()
    request = SummaryRequest(method.cells, method.covariance_type, 2.0, 0)
    try:
        found = line.ask(dict.fromkeys(names, request), SummaryReply)
    except PolicyError:
        moments = line.ask(dict.fromkeys(names, MomentsRequest()), Moments)
        return [moments[name] for name in names]
    return _moments_of([found[name].summary for name in names])


def _moments_of(summaries: Sequence[Any]) -> list[Moments]:
    found = []
    for summary in summaries:
        assert isinstance(summary, Summary)  # noqa: S101
        covariance = summary.total_covariance()
        variances = np.diag(covariance) if covariance.ndim == 2 else covariance
        scale = np.sqrt(np.maximum(np.broadcast_to(variances, summary.dimension), 0.0))
        found.append(Moments(summary.count, summary.mean, scale))
    return found
