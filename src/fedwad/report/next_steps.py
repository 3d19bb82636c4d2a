"""What to do with a result, in sentences.

Functions apply their argument `format_code` to each command, so that a page can mark it as code.
"""

from __future__ import annotations

from fedwad._distance.result import DistanceResult
from fedwad._matrix.placement import Placement
from fedwad._matrix.result import MatrixResult
from fedwad.report.sentences import Format, pairs_that_differ
from fedwad.tables import Schema

__all__ = ["distance_next_steps", "newcomer_next_steps", "next_steps"]

_ASK_SITES = (
    "Ask the sites what the difference comes from: other populations, or another way of measuring?"
)
_NO_EVIDENCE = (
    "Nothing here speaks against analysing the sites together. Small differences may still exist;"
    " more rows would show them."
)


def next_steps(
    matrix: MatrixResult,
    schema: Schema | None = None,
    n_clusters: int | None = None,
    format_code: Format = str,
) -> list[str]:
    """One to four things to do after reading a matrix.

    `n_clusters` is None if the sites were not clustered.
    """
    steps = _resolve_conflicts(schema, format_code)
    differ = pairs_that_differ(matrix)
    if differ is None:
        steps.append(_run_test(format_code))
    elif differ.any():
        steps += [_ASK_SITES, *_use_clusters(n_clusters, format_code)]
    else:
        steps.append(_NO_EVIDENCE)
    if matrix.failed:
        steps.append("Ask the missing sites again, or say in your report that they are missing.")
    return steps


def distance_next_steps(
    result: DistanceResult, schema: Schema | None = None, format_code: Format = str
) -> list[str]:
    """One or two things to do after reading a distance."""
    steps = _resolve_conflicts(schema, format_code)
    if result.differs is None:
        return [*steps, _run_test(format_code)]
    return [*steps, _ASK_SITES if result.differs else _NO_EVIDENCE]


def newcomer_next_steps(placement: Placement) -> list[str]:
    """What to do about a new site, given where it belongs among the others."""
    if placement.stranger:  # it is unlike all other sites
        return [
            f"Ask {placement.site} what the difference comes from: another population, or another"
            " way of measuring?",
            "Do not pool its data or train with it until that is known.",
        ]
    if placement.pvalue <= 0.05:
        return ["Read which columns differ before you pool its rows with those of the others."]
    return ["Nothing here speaks against analysing it together with the others."]


def _resolve_conflicts(schema: Schema | None, format_code: Format) -> list[str]:
    if schema is None or not schema.conflicts:
        return []
    return [
        "Read the warnings below first: a code for missing values, or a different unit, can make"
        " sites look different. Correct the table, or declare it in the schema"
        f" ({format_code('fedwad schema')})."
    ]


def _run_test(format_code: Format) -> str:
    return (
        f"Test whether the difference is more than chance: {format_code('fedwad test')} needs one"
        " more message from each site."
    )


def _use_clusters(n_clusters: int | None, format_code: Format) -> list[str]:
    if n_clusters is None:
        option = format_code("--k auto")
        return [f"Before training one model for all, see which sites belong together: {option}."]
    if n_clusters == 1:
        return []
    return ["Train or pool within clusters rather than over all sites."]
