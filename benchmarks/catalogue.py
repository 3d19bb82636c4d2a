"""The tables of `python -m benchmarks`, and how long each takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks import (
    accuracy,
    attacks,
    big_pair,
    classifier,
    coresets,
    embeddings,
    first_use,
    growth,
    ledger,
    matrices,
    messages,
    new_messages,
    otdd_conversion,
    private,
    self_test,
    speed,
    training,
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """What makes the rows of a table, and its seconds on one core.

    Tables with `full` have a larger size, which takes that many seconds; their functions take the
    keyword `full`.
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
    "accuracy": Table(accuracy.measure, 40),
    "messages": Table(messages.measure, 15),
    "transports": Table(speed.transports, 75),
    "whole": Table(speed.whole, 25),
    "loops": Table(speed.loops, 35),
    "n_jobs": Table(speed.n_jobs, 30),
    "growth": Table(speed.growth, 30),
    "slopes": Table(growth.slopes, 90),
    "first_use": Table(first_use.measure, 60),
    "big_pair": Table(big_pair.measure, 120),
    "big_pair_draws": Table(big_pair.draws, 60),
    "datasets": Table(matrices.datasets, 20, 215),
    "clusters": Table(matrices.clusters, 40, 360),
    "hundred": Table(matrices.hundred, 70),
    "many": Table(matrices.many, 60),
    "all_pairs": Table(matrices.all_pairs, 100),
    "embeddings": Table(embeddings.measure, 60),
    "otdd_conversion": Table(otdd_conversion.measure, 65, 900),
    "coresets": Table(coresets.measure, 105),
    "classifier": Table(classifier.measure, 20, 700),
    "classifier_choices": Table(classifier.choices, 20, 500),
    "training": Table(training.steps, 30),
    "gradients": Table(training.gradients, 30),
    "boosting": Table(training.boosting, 60, 400),
    "private": Table(private.measure, 40, 175),
    "private_clusters": Table(private.clusters, 60),
    "private_classifier": Table(private.classifier, 60),
    "attacks": Table(attacks.measure, 60),
    "self_test": Table(self_test.measure, 60),
    "new_messages": Table(new_messages.measure, 60),
    "ledger": Table(ledger.measure, 15),
}
