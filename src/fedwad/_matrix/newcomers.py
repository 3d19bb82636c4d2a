"""A new site joins a matrix: it alone is asked, and the others' kept replies answer again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad.errors import InputError
from fedwad.federation import KeptFederation, KeptReply, Site, local
from fedwad.tables import Schema

if TYPE_CHECKING:
    from fedwad._matrix.result import MatrixResult

__all__ = ["add_replies", "add_site", "join_options", "kept_from_dict", "kept_to_dict"]

_MOST_NUMBERS = 2_000_000  # of kept replies in a saved matrix

KeptReplies = Mapping[str, list[KeptReply]]


def add_site(matrix: MatrixResult, source: Any, name: str) -> MatrixResult:
    """Return the matrix with one site more.

    Old distances are computed again from the kept replies, with the same seed, so that they stay as
    they were.
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
    tested = all(len(replies) > 1 for replies in matrix.kept.values())
    found = compute(
        fed,
        matrix.method,  # type: ignore[arg-type]
        test=tested,
        seed=matrix.seed,
        p=matrix.p,
        sites=[*matrix.sites, new_site.name],
        **matrix.options,
    )
    if new_site.name not in found.sites:
        raise InputError(f"{new_site.name} did not answer: {found.failed[new_site.name]}")
    return replace(found, traffic=fed.traffic)


def join_options(matrix: MatrixResult) -> dict[str, Any]:
    """What an engine needs to ask a new site for the same as the sites of the matrix."""
    _check_kept(matrix)
    schema = _column_names(matrix)[1]
    requests = [one.to_dict()["request"] for one in matrix.kept[matrix.sites[0]]]
    return {"requests": requests, "schema": None if schema is None else schema.to_toml()}


def add_replies(
    matrix: MatrixResult, name: str, replies: Sequence[Mapping[str, Any]]
) -> MatrixResult:
    """Return the matrix with one site more, which an engine has asked with `join_options`."""
    try:
        found = [KeptReply.from_dict(one) for one in replies]
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise InputError(f"The engine returned no replies of {name}.") from None
    return add_site(matrix, KeptFederation({name: found}, None, *_column_names(matrix))[name], name)


def _column_names(matrix: MatrixResult) -> tuple[tuple[str, ...] | None, Schema | None]:
    """Names of the features, and the schema that made them of tables, if they are known."""
    evidence = matrix.evidence
    return (None, None) if evidence is None else (evidence.features, evidence.schema)


def _check_kept(matrix: MatrixResult) -> None:
    if set(matrix.kept) != set(matrix.sites):
        raise InputError(
            "This matrix was computed without replies that may be kept, or they were too large to"
            " save; compute it with method 'summary' from sites whose policies have keep = true."
        )


def kept_to_dict(kept: KeptReplies) -> dict[str, Any]:
    """Return kept replies as plain numbers and lists; nothing if they are too many for a file."""
    numbers = sum(_count_numbers(one.reply) for replies in kept.values() for one in replies)
    if numbers > _MOST_NUMBERS:
        return {}
    return {name: [one.to_dict() for one in replies] for name, replies in kept.items()}


def kept_from_dict(content: Mapping[str, Any]) -> dict[str, list[KeptReply]]:
    """Read what `kept_to_dict` wrote."""
    return {
        str(name): [KeptReply.from_dict(one) for one in found] for name, found in content.items()
    }


def _count_numbers(reply: Any) -> int:
    """How many numbers the arrays of a reply hold."""
    summary = getattr(reply, "summary", None)
    arrays = [getattr(reply, "means", None), getattr(reply, "centre", None)]
    if summary is not None:
        arrays += [summary.means, summary.covariance, summary.factors]
    return sum(int(np.size(array)) for array in arrays if array is not None)
