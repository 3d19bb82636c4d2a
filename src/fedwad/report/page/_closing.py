"""The end of a page: how the result was made, what the sites sent, and how to read the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedwad._distance.result import DistanceResult
from fedwad._matrix.result import MatrixResult
from fedwad._words import format_bytes, pluralize
from fedwad.federation import Traffic
from fedwad.report.page._elements import facts, term_paragraphs
from fedwad.report.page._text import escape, tag

__all__ = ["distance_facts", "how_to_read", "method_text", "rounds_text", "what_was_sent"]

_MIN_SAFE_CELL = 10  # samples; smaller cells get a warning
_METHODS = {
    "summary": "one summary from each site",
    "fedwad": "the paper's rounds",
    "hub": "a support shared by all",
    "pairs": "the paper's rounds, pair by pair",
}


def distance_facts(result: DistanceResult | MatrixResult) -> list[tuple[str, str]]:
    """Which distance was measured, and by which method."""
    is_labelled = result.class_covariance is not None
    return [
        (
            "distance",
            "dataset distance, with labels" if is_labelled else f"{result.p:g}-Wasserstein",
        ),
        ("method", method_text(result.method, _METHODS)),
    ]


def method_text(method: str, descriptions: Mapping[str, str]) -> str:
    """The name of a method, with its description if it has one."""
    return escape(f"{method}: {descriptions.get(method, '')}".rstrip(": "))


def rounds_text(history: Sequence[Any]) -> str:
    """The number of rounds, and the time that they took."""
    return f"{len(history)} in {sum(float(record.seconds) for record in history):.3g} s"


def what_was_sent(
    traffic: Traffic, sites: int, min_cell_size: int | None, covariance_types: Sequence[str]
) -> str:
    """Bytes, messages, the smallest cell with a warning, and which covariances were shared."""
    mean = f", {format_bytes(round(traffic.up / sites))} each on average" if sites > 2 else ""
    messages = pluralize(traffic.messages, "message")
    rows = [
        ("by the sites", f"{format_bytes(traffic.up)} in {messages}{mean}"),
        ("to the sites", format_bytes(traffic.down)),
    ]
    if min_cell_size is not None:
        rows.append(("smallest cell", pluralize(min_cell_size, "sample")))
    if covariance_types:
        rows.append(("covariance shared", escape(", ".join(dict.fromkeys(covariance_types)))))
    return facts(rows) + _small_cell_warning(min_cell_size)


def _small_cell_warning(min_cell_size: int | None) -> str:
    if min_cell_size is None or min_cell_size >= _MIN_SAFE_CELL:
        return ""
    what = (
        "At least one number that was sent is a single sample."
        if min_cell_size == 1
        else f"Some numbers that were sent are means of only {min_cell_size} samples."
    )
    return tag(
        "p",
        f"{what} Between real sites use fewer points or cells, and a policy that refuses small"
        " cells.",
        class_="warning",
    )


def how_to_read(result: DistanceResult | MatrixResult, shows_populations: bool) -> str:
    """What the numbers of the page mean, term by term."""
    distance = (
        "the dataset distance between the labelled samples of two sites: the 2-Wasserstein distance"
        " that also counts how far apart the means and standard deviations of their classes are"
        if result.class_covariance is not None
        else f"the {result.p:g}-Wasserstein distance between the samples of two sites: the least"
        " effort that turns one sample into the other"
    )
    value = (
        f"estimates {distance}. You would compute it exactly with both samples in one place. A"
        " small value means similar data. The unit is that of the data."
    )
    rest = _CERTIFIED if result.privacy is None else _private_terms(result.privacy)
    if shows_populations:
        return term_paragraphs([*_POPULATIONS, ("These samples", value), *rest])
    return term_paragraphs([("The value", value), *rest])


_POPULATIONS = (
    (
        "The distance",
        "is about the populations that the rows are samples of: sampling noise is subtracted. Its"
        " 95% interval reaches to zero where there is no evidence of a difference.",
    ),
    (
        "Chance alone",
        "is how far apart two samples of one population would be, with as many rows. Each site"
        " measured it on splits of its own rows.",
    ),
)
_CERTIFIED = (
    (
        "The certified interval",
        "always holds, not 95% of the time, if the sites were honest. It follows from what they"
        " sent. It is about these samples, not about the populations behind them.",
    ),
    (
        "No privacy guarantee",
        "is given. Rows stayed at their site and messages were small, which is a precaution"
        " only: the mean of a few samples is close to those samples.",
    ),
)


def _private_terms(privacy: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What stands in place of `_CERTIFIED` for a result under differential privacy."""
    return (
        (
            "The likely interval",
            "shows how much noise and the limits of a summary usually change the value. It is not a"
            " certificate: noisy numbers prove nothing.",
        ),
        (
            "Differential privacy",
            f"holds for the one release of each site: epsilon {privacy['epsilon']:g} and delta"
            f" {privacy['delta']:g} for each record, if the clip norm was chosen without the"
            " data.",
        ),
    )
