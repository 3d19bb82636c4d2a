"""Newcomers: sites that join a matrix after it was computed.

Only the newcomer is asked. The kept replies of the other sites answer the same requests again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._distance.task import ColumnNames
from fedwad.errors import InputError
from fedwad.federation import BlocksReply, KeptFederation, KeptReply, Site, SummaryReply, local
from fedwad.ot import Summary

if TYPE_CHECKING:
    from fedwad._matrix.result import MatrixResult

__all__ = ["add_replies", "add_site", "join_options", "kept_from_dict", "kept_to_dict"]

_MAX_NUMBERS = 2_000_000  # that a saved matrix may hold of kept replies


def add_site(matrix: MatrixResult, source: Any, name: str) -> MatrixResult:
    """Return the matrix with one site more.

    `source` is a site, or data, which become a local site of this `name`. Old distances are
    computed again from the kept replies, with the same seed. Their estimates change a little where
    the larger number of pairs means fewer synthetic samples for each pair.
    """
    from fedwad._matrix.api import matrix as compute

    _check_kept(matrix)
    features, schema = _column_names(matrix)
    new_site = source if isinstance(source, Site) else local({name: source}, schema=schema)[name]
    if new_site.name in matrix.sites:
        raise InputError(
            f"There is a site '{new_site.name}' already; give the new one a different name."
        )
    fed = KeptFederation(matrix.kept, new_site.federation, features, schema)
    has_blocks = all(len(replies) > 1 for replies in matrix.kept.values())
    result = compute(
        fed,
        matrix.method,  # type: ignore[arg-type]
        test=has_blocks,
        seed=matrix.seed,
        p=matrix.p,
        sites=[*matrix.sites, new_site.name],
        **matrix.options,
    )
    if new_site.name not in result.sites:
        raise InputError(f"{new_site.name} did not answer: {result.failed[new_site.name]}")
    return replace(result, traffic=fed.traffic)


def join_options(matrix: MatrixResult) -> dict[str, Any]:
    """Return what an engine needs to ask a newcomer what the sites of the matrix were asked."""
    _check_kept(matrix)
    schema = _column_names(matrix)[1]
    requests = [one.to_dict()["request"] for one in matrix.kept[matrix.sites[0]]]
    return {"requests": requests, "schema": None if schema is None else schema.to_toml()}


def add_replies(
    matrix: MatrixResult, name: str, replies: Sequence[Mapping[str, Any]]
) -> MatrixResult:
    """Return the matrix with one site more, which an engine has asked with `join_options`."""
    try:
        kept = [KeptReply.from_dict(one) for one in replies]
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise InputError(f"The engine returned no replies of {name}.") from None
    return add_site(matrix, KeptFederation({name: kept}, None, *_column_names(matrix))[name], name)


def _column_names(matrix: MatrixResult) -> ColumnNames:
    evidence = matrix.evidence
    return (None, None) if evidence is None else (evidence.features, evidence.schema)


def _check_kept(matrix: MatrixResult) -> None:
    """Raise InputError unless there are kept replies of all sites."""
    if set(matrix.kept) != set(matrix.sites):
        raise InputError(
            "This matrix was computed without replies that may be kept, or they were too large to"
            " save; compute it with method 'summary', without labels or privacy, from"
            " sites whose policies have keep = true."
        )


def kept_to_dict(kept: Mapping[str, list[KeptReply]]) -> dict[str, Any]:
    """Return kept replies as plain numbers and lists; nothing if they are too large for a file."""
    numbers = sum(_count_numbers(one.reply) for replies in kept.values() for one in replies)
    if numbers > _MAX_NUMBERS:
        return {}
    return {name: [one.to_dict() for one in replies] for name, replies in kept.items()}


def kept_from_dict(content: Mapping[str, Any]) -> dict[str, list[KeptReply]]:
    """Read what `kept_to_dict` wrote."""
    return {str(name): [KeptReply.from_dict(one) for one in kept] for name, kept in content.items()}


def _count_numbers(reply: SummaryReply | BlocksReply) -> int:
    """Return about how many numbers the arrays of a reply hold."""
    if isinstance(reply, BlocksReply):
        return int(reply.means.size + reply.centre.size)
    summary = reply.summary
    assert isinstance(summary, Summary)  # noqa: S101  # others are never kept
    factors = 0 if summary.factors is None else summary.factors.size
    return int(summary.means.size + np.size(summary.covariance) + factors)
