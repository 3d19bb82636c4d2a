"""The tables of `python -m benchmarks`, and how long each takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks import (
    ablation,
    accuracy,
    big_pair,
    classifier,
    first_answer,
    first_use,
    growth,
    ledger,
    matrices,
    membership,
    new_messages,
    otdd_conversion,
    peaks,
    private,
    private_rounds,
    rounding,
    self_test,
    site_work,
    speed,
    training,
    trust,
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """What makes the rows of a table, and its seconds on one core.

    Tables with `full` have a larger size, which takes that many seconds; their functions take the
    keyword `full`. Seconds were measured on one core of a machine that other tables kept busy.
    Those of `big_pair`, and of `classifier` and `boosting` in full, are extrapolated from parts.
    """

    measure: Callable[..., Iterable[Row]]
    seconds: int
    full: int | None = None

    def rows(self, full: bool) -> Iterable[Row]:
        """The rows, one by one where the function yields them."""
        return self.measure() if self.full is None else self.measure(full=full)

    @property
    def about(self) -> str:
        """The first sentence of the function's documentation."""
        return " ".join((self.measure.__doc__ or "").split()).split(". ")[0].rstrip(".") + "."


TABLES = {
    "accuracy": Table(accuracy.measure, 22),
    "calibration": Table(ablation.value_variants, 60),
    "swap": Table(rounding.swap, 40),
    "rounding": Table(rounding.cost, 60),
    "membership": Table(membership.measure, 20),
    "trust": Table(trust.measure, 1),
    "transports": Table(speed.transports, 37),
    "whole": Table(speed.whole, 31),
    "slopes": Table(growth.slopes, 51),
    "peaks": Table(peaks.peaks, 15),
    "first_answer": Table(first_answer.first_answer, 20),
    "first_use": Table(first_use.measure, 68),
    "big_pair": Table(big_pair.measure, 75, 152),
    "datasets": Table(matrices.datasets, 22, 215),
    "clusters": Table(matrices.clusters, 17, 360),
    "hundred": Table(matrices.hundred, 40),
    "site_work": Table(site_work.measure, 25),
    "all_pairs": Table(matrices.all_pairs, 50, 154),
    "otdd_conversion": Table(otdd_conversion.measure, 49, 245),
    "classifier": Table(classifier.measure, 16, 600),
    "fair": Table(training.fair, 120, 300),
    "private_rounds": Table(private_rounds.measure, 130),
    "private_classifier": Table(private.classifier, 8),
    "self_test": Table(self_test.measure, 20),
    "new_messages": Table(new_messages.measure, 5),
    "ledger": Table(ledger.measure, 4),
}
