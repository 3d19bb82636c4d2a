"""What the sites sent, which sites did not answer, and how to read the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedwad._words import format_bytes, pluralize
from fedwad.federation import Traffic
from fedwad.report.page._text import escape, name, tag

__all__ = ["facts", "how_to_read", "missing_sites", "what_was_sent"]

_FEW = 10  # samples; numbers from fewer samples get a warning


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """A list of terms and descriptions; both are HTML."""
    return tag(
        "dl", *(tag("div", tag("dt", term), tag("dd", text)) for term, text in rows), class_="facts"
    )


def what_was_sent(
    traffic: Traffic, sites: int, min_cell_size: int | None, covariance_types: Sequence[str]
) -> str:
    """Bytes, messages, the smallest cell with a warning, and which covariances were shared."""
    share = f", {format_bytes(round(traffic.up / sites))} each on average" if sites > 2 else ""
    rows = [
        (
            "by the sites",
            f"{format_bytes(traffic.up)} in {pluralize(traffic.messages, 'message')}{share}",
        ),
        ("to the sites", format_bytes(traffic.down)),
    ]
    if min_cell_size is not None:
        rows.append(("smallest cell", pluralize(min_cell_size, "sample")))
    if covariance_types:
        rows.append(("covariance shared", escape(", ".join(dict.fromkeys(covariance_types)))))
    return facts(rows) + _warning(min_cell_size)


def _warning(min_cell_size: int | None) -> str:
    if min_cell_size is None or min_cell_size >= _FEW:
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


def missing_sites(failed: Mapping[str, str]) -> str:
    """The sites that did not answer, and why."""
    rows = "".join(
        tag("li", tag("b", name(site)), ": ", escape(reason)) for site, reason in failed.items()
    )
    verb = "is" if len(failed) == 1 else "are"
    sentence = f"{pluralize(len(failed), 'site')} did not answer and {verb} missing above."
    return tag("p", escape(sentence), class_="warning") + tag("ul", rows, class_="lost")


def how_to_read(
    labels: bool,
    p: float = 2.0,
    privacy: Mapping[str, Any] | None = None,
    of_populations: bool = False,
) -> str:
    """The few things to know before using a number."""
    measured = (
        "the dataset distance between the labelled samples of two sites: the 2-Wasserstein distance"
        " that also counts how far apart the means and standard deviations of their classes are"
        if labels
        else f"the {p:g}-Wasserstein distance between the samples of two sites: the least effort"
        " that turns one sample into the other"
    )
    value = (
        f"estimates {measured}. You would compute it exactly with both samples in one place. A"
        " small value means similar data. The unit is that of the data."
    )
    rows = [("The value", value), *(_CERTIFIED if privacy is None else _private(privacy))]
    if of_populations:
        rows = [*_POPULATIONS, ("These samples", value), *rows[1:]]
    return tag("div", *(tag("p", tag("b", term), " ", text) for term, text in rows), class_="three")


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


def _private(privacy: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
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
