"""Is training in clusters worth it? The same training for all sites, in clusters, and alone.

The comparison is fair: all sites together train as many sites in a round as all clusters do, so
both send the same number of models; training alone has as many passes as a site has at most; and
each row is repeated with several seeds, which decide the first weights, the test samples, who
trains and the order of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedwad.compare import MatrixResult
from fedwad.learning.training import TrainingOptions, TrainingResult, schedule
from fedwad.transport import Floats

ALONE, ALL_SITES, IN_CLUSTERS = "local only", "all together", "in clusters"


#: Trains one model for all sites, or one for each of these groups (other sites take no part); sites
#: test after every round, or after the last.
Trainer = Callable[[TrainingOptions, dict[str, int] | None, bool], TrainingResult]


@dataclass(frozen=True)
class Comparison:
    """Trainings of the same sites by row, one result for each seed.

    The rows are "local only", "all together" and, if there are clusters, "in clusters".
    """

    results: Mapping[str, tuple[TrainingResult, ...]]

    @property
    def first(self) -> dict[str, TrainingResult]:
        """The result of each row with the first seed."""
        return {row: results[0] for row, results in self.results.items()}

    def values(self, row: str, what: str = "accuracy") -> list[float]:
        """The mean over sites of `what` ("accuracy", "balanced", "baseline" or
        "balanced_baseline") for each seed; sites where it is not known are left out."""
        arrays = (getattr(result, what) for result in self.results[row])
        return [
            float(np.mean(array[np.isfinite(array)])) if np.isfinite(array).any() else math.nan
            for array in arrays
        ]

    def worst(self, row: str) -> float:
        """The lowest accuracy of a site, the mean over seeds."""
        return float(np.mean([result.accuracy.min() for result in self.results[row]]))

    def gain(self, over: str = ALL_SITES) -> tuple[float, float]:
        """What clusters add to the accuracy of another row, seed by seed: the mean, and half the
        width of its 95% interval."""
        return mean_and_half_width(np.subtract(self.values(IN_CLUSTERS), self.values(over)))

    @property
    def sentences(self) -> list[str]:
        """What may be said about clusters; empty if there are none."""
        if IN_CLUSTERS not in self.results:
            return []
        seeds = len(self.results[IN_CLUSTERS])
        sentences = []
        for over, where in ((ALL_SITES, "all together at equal traffic"), (ALONE, "local only")):
            mean, half = self.gain(over)
            text = f"Accuracy in clusters, minus {where}: {100 * mean:+.1f} points"
            if math.isnan(half):
                sentences.append(f"{text}, from one seed; --seeds 3 gives an interval.")
                continue
            text += (
                f", 95% {100 * (mean - half):+.1f} to {100 * (mean + half):+.1f} ({seeds} seeds)"
            )
            undecided = abs(mean) <= half
            sentences.append(f"{text}{'; the sign is not certain' if undecided else ''}.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """The rows as plain JSON types; nan where one seed gives no interval."""
        rows: dict[str, Any] = {"majority class": self._numbers(ALL_SITES, "baseline")}
        for row in self.results:
            rows[row] = self._numbers(row, "accuracy") | {"worst": self.worst(row)}
        gains = {
            over: {"accuracy": dict(zip(("mean", "half_width"), self.gain(over), strict=True))}
            for over in (ALL_SITES, ALONE)
            if IN_CLUSTERS in self.results
        }
        return {
            "rows": rows,
            "gain": gains,
            "seeds": [result.seed for result in self.results[ALL_SITES]],
            "sentences": self.sentences,
        }

    def _numbers(self, row: str, what: str) -> dict[str, Any]:
        balanced = {"accuracy": "balanced", "baseline": "balanced_baseline"}[what]
        numbers: dict[str, Any] = {}
        for name, field in (("accuracy", what), ("balanced", balanced)):
            values = self.values(row, field)
            mean, half = mean_and_half_width(values)
            numbers[name] = {"mean": mean, "half_width": half, "values": values}
        sent = 0 if row == ALONE or what == "baseline" else self.results[row][0].traffic.up
        return numbers | {"sent": sent}


def mean_and_half_width(values: Sequence[float] | Floats) -> tuple[float, float]:
    """The mean, and half the width of its 95% interval by Student's t; nan for one value."""
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return float(np.mean(values)), math.nan
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    return float(np.mean(values)), float(t.ppf(0.975, n - 1)) * error


def compare_trainings(
    train: Trainer,
    matrix: Callable[[], MatrixResult],
    options: TrainingOptions,
    k: int | str | None = "auto",
    seeds: int = 3,
) -> Comparison:
    """Train alone, for all sites together and, with `k`, in clusters, with several seeds.

    Parameters
    ----------
    train : trains once
    matrix : returns distances between the labelled data of all sites, if clusters are wanted
    options : of all trainings; their seeds are `options.seed`, `options.seed` + 1, ...
    k : number of clusters, "auto", or None for no clusters
    seeds : number of repetitions
    """
    groups: dict[str, int] | None = None
    if k is not None:
        m = matrix()
        number = m.suggest().k if isinstance(k, str) else k
        if number > 1:
            labels = m.cluster(number, "kernel", seed=options.seed)
            groups = {name: int(label) for name, label in zip(m.sites, labels, strict=True)}
    together = options
    if groups is not None:
        members = [[n for n, own in groups.items() if own == g] for g in sorted({*groups.values()})]
        counts = [next(schedule(options, names, 0)).count for names in members]
        together = replace(options, sites_per_round=sum(counts))
    results: dict[str, list[TrainingResult]] = {ALONE: [], ALL_SITES: []}
    for number in range(seeds):
        seed = options.seed + number
        is_first = number == 0
        found = train(replace(together, seed=seed), None, is_first)
        results[ALL_SITES].append(found)
        if groups is not None:
            results.setdefault(IN_CLUSTERS, []).append(
                train(replace(options, seed=seed), groups, is_first)
            )
        alone = {name: index for index, name in enumerate(found.sites)}
        results[ALONE].append(train(_alone(options, seed), alone, False))
    return Comparison({row: tuple(each) for row, each in results.items()})


def _alone(options: TrainingOptions, seed: int) -> TrainingOptions:
    """One model for each site, in as many passes as all rounds have."""
    passes = options.rounds * options.epochs
    rounds = math.ceil(passes / 1000)  # a site trains at most a thousand epochs in one round
    others: dict[str, Any] = dict.fromkeys(("personal", "last_epochs", "body_epochs"))
    others |= {"sites_per_round": None, "fraction_train": 1.0, "proximal": 0.0}
    epochs = math.ceil(passes / rounds)
    return replace(options, algorithm="fedavg", rounds=rounds, epochs=epochs, seed=seed, **others)
