"""The paper's claims about coresets, judged by the rows of `coresets`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedwad.experiments._experiment import Claim, Row, pick
from fedwad.experiments._plots import EXACT_COLOUR, OUR_COLOUR, PAPER_COLOUR

__all__ = [
    "COLOURS",
    "LABELS",
    "METHODS",
    "PAPER_EPOCHS",
    "PAPER_METHODS",
    "POOLED",
    "judge",
    "with_most_epochs",
]

PAPER_EPOCHS = 1000  # the paper's number
PAPER_METHODS = ("fedwad, support 10", "fedwad, support 100")
COLOURS = {
    "pooled, exact": EXACT_COLOUR,
    "union": OUR_COLOUR,
    "union, free weights": "#12b5a5",
    "one summary each": "#8e6fb8",
    "direct": "#7fb3c8",
    PAPER_METHODS[0]: "#e07b39",
    PAPER_METHODS[1]: PAPER_COLOUR,
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


def with_most_epochs(rows: Sequence[Row]) -> list[Row]:
    """For each method and dataset, the rows with the most epochs."""
    most: dict[tuple[str, int, str], int] = {}
    for row in rows:
        key = row["data"], row["K"], row["method"]
        most[key] = max(most.get(key, 0), row["epochs"])
    return [row for row in rows if row["epochs"] == most[row["data"], row["K"], row["method"]]]


@dataclass(frozen=True)
class _Comparison:
    """Methods compared on all datasets; a client holds K classes."""

    rows: Sequence[Row]

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(row["data"] for row in self.rows))

    def values(self, K: int, method: str, column: str) -> list[float]:
        """The value of a column for each dataset."""
        return [pick(self.rows, data=data, K=K, method=method)[0][column] for data in self.datasets]

    def excess(self, K: int, method: str) -> list[float]:
        """By which fraction W2 to all data exceeds that of the pooled optimum, for each dataset."""
        pairs = zip(self.values(K, method, "W2"), self.values(K, POOLED, "W2"), strict=True)
        return [distance / best - 1 for distance, best in pairs]

    def classes(self, K: int, *methods: str) -> str:
        """How many classes the methods cover, in words."""
        listed = []
        for method in methods:
            counts = (format(number, "d") for number in self.values(K, method, "classes"))
            listed.append(f"{' and '.join(counts)} ({LABELS[method]})")
        return f"K = {K}: {', '.join(listed)}"

    @property
    def with_large_support(self) -> list[int]:
        """The values of K for which FedWaD ran with the larger support."""
        last = self.datasets[-1]
        return [row["K"] for row in pick(self.rows, data=last, method=PAPER_METHODS[1])]


def judge(rows: Sequence[Row]) -> list[Claim]:
    """The paper's claims about coresets, by the rows with the most epochs."""
    methods = _Comparison(with_most_epochs(rows))
    lead = f"classes of 10 that are covered ({', '.join(methods.datasets)}), "
    covered_2, covered_8 = (methods.values(K, PAPER_METHODS[0], "classes") for K in (2, 8))
    return [
        Claim(
            "With 8 classes at each client FedWaD captures the 10 modes of the data.",
            all(number == 10 for number in covered_8),
            lead + methods.classes(8, *PAPER_METHODS, POOLED),
        ),
        Claim(
            "With fewer classes at each client FedWaD has more difficulty to capture them.",
            all(a < b for a, b in zip(covered_2, covered_8, strict=True)),
            lead + "; ".join(methods.classes(K, PAPER_METHODS[0]) for K in (8, 2)),
        ),
        _exact_distance_fails_too(methods, lead),
        _support_hardly_matters(methods),
        _worse_minimum(methods),
    ]


def _exact_distance_fails_too(methods: _Comparison, lead: str) -> Claim:
    covered_classes = [
        number for method in (POOLED, "direct") for number in methods.values(2, method, "classes")
    ]
    paper, direct, union = (
        " and ".join(f"{100 * number:+.1f}%" for number in methods.excess(2, method))
        for method in (PAPER_METHODS[0], "direct", "union")
    )
    return Claim(
        "The exact Wasserstein distance does not recover the modes of K = 2 either, so the coreset"
        " itself is to blame.",
        all(number < 10 for number in covered_classes),
        f"{lead}{methods.classes(2, POOLED, 'direct', 'union')}. But W2 to all data at K = 2 is"
        f" above the pooled optimum by {paper} for FedWaD and {direct} for the exact distance to a"
        f" few clients at a time, and by {union} for our union",
    )


def _support_hardly_matters(methods: _Comparison) -> Claim:
    epochs = min(row["epochs"] for row in methods.rows if row["method"] in PAPER_METHODS)
    changes = [
        large / small - 1
        for K in methods.with_large_support
        for small, large in zip(*(methods.values(K, m, "W2") for m in PAPER_METHODS), strict=True)
    ]
    return Claim(
        "The support of the interpolating measure has little impact on the coreset.",
        max(map(abs, changes)) < 0.02 if epochs >= PAPER_EPOCHS else None,
        f"after {epochs} of the paper's {PAPER_EPOCHS} epochs, a support of 100 in place of 10"
        f" changes W2 to all data by {100 * min(changes):+.1f} to {100 * max(changes):+.1f}%",
    )


def _worse_minimum(methods: _Comparison) -> Claim:
    excess = [methods.excess(K, PAPER_METHODS[0]) for K in (8, 2)]
    excess += [methods.excess(K, PAPER_METHODS[1]) for K in methods.with_large_support]
    least, most = min(map(min, excess)), max(map(max, excess))
    return Claim(
        "FedWaD ends in a worse minimum than the exact distance, for both datasets.",
        least > 0,
        f"W2 to all data is {100 * least:.1f} to {100 * most:.1f}% above the pooled optimum",
    )
