"""What to do with a result, in sentences."""

from __future__ import annotations

from collections.abc import Callable

from fedwad._distance.result import DistanceResult
from fedwad._matrix.placement import Placement
from fedwad._matrix.result import MatrixResult
from fedwad.report.sentences import pairs_that_differ
from fedwad.tables import Schema

__all__ = ["distance_next_steps", "newcomer_next_steps", "next_steps"]

Code = Callable[[str], str]


def next_steps(
    matrix: MatrixResult, schema: Schema | None = None, clusters: int = 0, code: Code = str
) -> list[str]:
    """One to four things to do after reading a matrix; commands pass through `code`.

    `clusters` is their number, 0 if none were asked for.
    """
    steps = _after_conflicts(schema, code)
    differ = pairs_that_differ(matrix)
    if differ is None:
        steps.append(_asking(code))
    elif differ.any():
        steps += [_WHY, *_together(clusters, code)]
    else:
        steps.append(_NOTHING_FOUND)
    if matrix.failed:
        steps.append("Ask the missing sites again, or report the result as one without them.")
    return steps


def distance_next_steps(
    result: DistanceResult, schema: Schema | None = None, code: Code = str
) -> list[str]:
    """One to three things to do after reading a distance."""
    steps = _after_conflicts(schema, code)
    if result.differs is None:
        return [*steps, _asking(code)]
    return [*steps, _WHY if result.differs else _NOTHING_FOUND]


def newcomer_next_steps(placement: Placement) -> list[str]:
    """What to do after a new site was placed."""
    if placement.stranger:
        return [
            f"Ask {placement.site} what the difference comes from: another population, or another"
            " way of measuring?",
            "Keep it out of what is pooled or trained together until that is known.",
        ]
    if placement.pvalue <= 0.05:
        return ["Read which columns differ before its rows are pooled with those of the others."]
    return ["Nothing here speaks against taking it in."]


_WHY = (
    "Ask the sites what the difference comes from: other populations, or another way of measuring?"
)
_NOTHING_FOUND = (
    "Nothing here speaks against analysing the sites together. Small differences may still exist:"
    " more rows would show them."
)


def _after_conflicts(schema: Schema | None, code: Code) -> list[str]:
    if schema is None or not schema.conflicts:
        return []
    return [
        "Read the warnings below first: a value that stands for a missing one, or a unit that"
        " differs, can make a distance. Mend the table, or say so in the schema"
        f" ({code('fedwad schema')})."
    ]


def _asking(code: Code) -> str:
    return (
        f"Ask whether it is more than chance: {code('fedwad test')} needs one more message from"
        " each site."
    )


def _together(clusters: int, code: Code) -> list[str]:
    if clusters == 1:
        return []
    if clusters:
        return ["Train or pool within clusters rather than over all sites."]
    return [f"Before training one model for all, see who belongs together: {code('--k auto')}."]
