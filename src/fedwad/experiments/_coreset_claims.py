"""What the rows of the experiment `coresets` say about the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedwad.experiments._experiment import Claim, Row, pick
from fedwad.experiments._plots import EXACT, OURS, PAPER

__all__ = [
    "COLOURS",
    "LABELS",
    "METHODS",
    "PAPER_EPOCHS",
    "PAPER_METHODS",
    "POOLED",
    "judge",
    "longest",
]

PAPER_EPOCHS = 1000
PAPER_METHODS = ("fedwad, support 10", "fedwad, support 100")
COLOURS = {
    "pooled, exact": EXACT,
    "union": OURS,
    "union, free weights": "#12b5a5",
    "one summary each": "#8e6fb8",
    "direct": "#7fb3c8",
    PAPER_METHODS[0]: "#e07b39",
    PAPER_METHODS[1]: PAPER,
}
METHODS = tuple(COLOURS)
POOLED = METHODS[0]
LABELS = {
    POOLED: "exact, all data in one place",
    "union": "ours, union",
    "union, free weights": "ours, union, free weights",
    "one summary each": "ours, one message",
    "direct": "exact distance to ten clients at a time",
    PAPER_METHODS[0]: "FedWaD with support 10",
    PAPER_METHODS[1]: "FedWaD with support 100",
}


def longest(rows: Sequence[Row]) -> list[Row]:
    """Of the rows of one method on the same data, those with the most epochs."""
    most: dict[tuple[str, int, str], int] = {}
    for row in rows:
        key = row["data"], row["K"], row["method"]
        most[key] = max(most.get(key, 0), row["epochs"])
    return [row for row in rows if row["epochs"] == most[row["data"], row["K"], row["method"]]]


@dataclass(frozen=True)
class _Comparison:
    """What the rows say about methods, for all datasets together; a client holds K classes."""

    rows: Sequence[Row]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(row["data"] for row in self.rows))

    def values(self, K: int, method: str, what: str) -> list[float]:
        return [pick(self.rows, data=data, K=K, method=method)[0][what] for data in self.names]

    def above(self, K: int, method: str) -> list[float]:
        """By how much W2 exceeds that of the pooled optimum."""
        pairs = zip(self.values(K, method, "W2"), self.values(K, POOLED, "W2"), strict=True)
        return [distance / best - 1 for distance, best in pairs]

    def classes(self, K: int, *methods: str) -> str:
        listed = []
        for method in methods:
            counts = (format(number, "d") for number in self.values(K, method, "classes"))
            listed.append(f"{' and '.join(counts)} ({LABELS[method]})")
        return f"K = {K}: {', '.join(listed)}"

    @property
    def with_large_support(self) -> list[int]:
        """Numbers of classes for which FedWaD was run with the larger support."""
        return [row["K"] for row in pick(self.rows, data=self.names[-1], method=PAPER_METHODS[1])]


def judge(rows: Sequence[Row]) -> list[Claim]:
    """The paper's claims about coresets, by the rows with the most epochs."""
    found = _Comparison(longest(rows))
    where = f"classes of 10 that are covered ({', '.join(found.names)}), "
    few, many = (found.values(K, PAPER_METHODS[0], "classes") for K in (2, 8))
    return [
        Claim(
            "With 8 classes at each client FedWaD captures the 10 modes of the data.",
            all(number == 10 for number in many),
            where + found.classes(8, *PAPER_METHODS, POOLED),
        ),
        Claim(
            "With fewer classes at each client FedWaD has more difficulty to capture them.",
            all(a < b for a, b in zip(few, many, strict=True)),
            where + "; ".join(found.classes(K, PAPER_METHODS[0]) for K in (8, 2)),
        ),
        _exact_distance_fails_too(found, where),
        _support_hardly_matters(found),
        _worse_minimum(found),
    ]


def _exact_distance_fails_too(found: _Comparison, where: str) -> Claim:
    covered_classes = [
        number for method in (POOLED, "direct") for number in found.values(2, method, "classes")
    ]
    paper, direct, union = (
        " and ".join(f"{100 * number:+.1f}%" for number in found.above(2, method))
        for method in (PAPER_METHODS[0], "direct", "union")
    )
    return Claim(
        "The exact Wasserstein distance does not recover the modes of K = 2 either, so the coreset"
        " itself is to blame.",
        all(number < 10 for number in covered_classes),
        f"{where}{found.classes(2, POOLED, 'direct', 'union')}. But W2 to all data at K = 2 is"
        f" above the pooled optimum by {paper} for FedWaD and {direct} for the exact distance to a"
        f" few clients at a time, and by {union} for our union",
    )


def _support_hardly_matters(found: _Comparison) -> Claim:
    epochs = min(row["epochs"] for row in found.rows if row["method"] in PAPER_METHODS)
    changes = [
        large / small - 1
        for K in found.with_large_support
        for small, large in zip(*(found.values(K, m, "W2") for m in PAPER_METHODS), strict=True)
    ]
    return Claim(
        "The support of the interpolating measure has little impact on the coreset.",
        max(map(abs, changes)) < 0.02 if epochs >= PAPER_EPOCHS else None,
        f"after {epochs} of the paper's {PAPER_EPOCHS} epochs, a support of 100 in place of 10"
        f" changes W2 to all data by {100 * min(changes):+.1f} to {100 * max(changes):+.1f}%",
    )


def _worse_minimum(found: _Comparison) -> Claim:
    above = [found.above(K, PAPER_METHODS[0]) for K in (8, 2)]
    above += [found.above(K, PAPER_METHODS[1]) for K in found.with_large_support]
    least, most = min(map(min, above)), max(map(max, above))
    return Claim(
        "FedWaD ends in a worse minimum than the exact distance, for both datasets.",
        least > 0,
        f"W2 to all data is {100 * least:.1f} to {100 * most:.1f}% above the pooled optimum",
    )
