"""What left the clients, who did not answer, and how to read the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedwad.federation import Traffic
from fedwad.report.page._text import bytes_in_words, counted, escape, name, tag

__all__ = ["facts", "how_to_read", "lost_clients", "what_was_sent"]

_FEW = 10  # as everywhere in fedwad: fewer samples behind a number than this are pointed out


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """A list of terms and what is said of them; both are HTML."""
    return tag(
        "dl", *(tag("div", tag("dt", term), tag("dd", said)) for term, said in rows), class_="facts"
    )


def what_was_sent(
    traffic: Traffic, clients: int, min_cell_size: int | None, covariance_types: Sequence[str]
) -> str:
    """Bytes, messages, the smallest cell with a warning, and how much was told of the
    covariance."""
    share = (
        f", {bytes_in_words(round(traffic.up / clients))} each on average" if clients > 2 else ""
    )
    rows = [
        (
            "by the clients",
            f"{bytes_in_words(traffic.up)} in {counted(traffic.messages, 'message')}{share}",
        ),
        ("to the clients", bytes_in_words(traffic.down)),
    ]
    if min_cell_size is not None:
        rows.append(("smallest cell", counted(min_cell_size, "sample")))
    if covariance_types:
        rows.append(("covariance told", escape(", ".join(dict.fromkeys(covariance_types)))))
    return facts(rows) + _warning(min_cell_size)


def _warning(min_cell_size: int | None) -> str:
    if min_cell_size is None or min_cell_size >= _FEW:
        return ""
    what = (
        "At least one number that was sent is a single sample as it is."
        if min_cell_size == 1
        else f"Some numbers that were sent stand for only {min_cell_size} samples."
    )
    return tag(
        "p",
        f"{what} Between real parties take fewer points or cells, and a policy that refuses cells this small.",
        class_="warning",
    )


def lost_clients(lost: Mapping[str, str]) -> str:
    """Who did not answer, and why."""
    rows = "".join(
        tag("li", tag("b", name(client)), ": ", escape(reason)) for client, reason in lost.items()
    )
    sentence = f"{counted(len(lost), 'client')} did not answer and {'is' if len(lost) == 1 else 'are'} missing above."
    return tag("p", escape(sentence), class_="warning") + tag("ul", rows, class_="lost")


def how_to_read(labels: bool, p: float = 2.0, privacy: Mapping[str, Any] | None = None) -> str:
    """The three things to know before believing a number."""
    measured = (
        "the dataset distance between two clients' labelled samples: the 2-Wasserstein distance in which classes count"
        " as far apart as their means and spreads are"
        if labels
        else f"the {p:g}-Wasserstein distance between two clients' samples, the least effort that makes one the other"
    )
    rows = [
        (
            "The value",
            f"estimates {measured}, as you would compute it with both in one place. Small means alike. It is an"
            " estimate, in the units of the data.",
        ),
        (
            "The certified interval",
            "holds always, not 95% of the time: it follows from what the clients sent, if they were honest. It is about"
            " these samples, not about the populations behind them.",
        ),
        (
            "No privacy guarantee",
            "is given. Rows stayed where they are and messages were small, which is hygiene: a mean of few"
            " samples is close to those samples.",
        ),
    ]
    if privacy is not None:
        rows[1:] = [
            (
                "The likely interval",
                "tells what noise, and what a summary leaves out, often change. It is no certificate: nothing is proven"
                " about noisy numbers.",
            ),
            (
                "Differential privacy",
                f"holds for each client's one release: epsilon {privacy['epsilon']:g} and delta {privacy['delta']:g}"
                " for each record, if the radius was chosen without looking at the data.",
            ),
        ]
    return tag("div", *(tag("p", tag("b", term), " ", said) for term, said in rows), class_="three")
