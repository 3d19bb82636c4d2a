"""Rules that follow from the paper's words: rows that are made up turn each verdict."""

import pytest

from paper.experiment import NAMES
from paper.rules import RULES


def rule(experiment, start):
    (found,) = (r for r in RULES if r.experiment == experiment and r.claim.startswith(start))
    return found.holds


def test_every_rule_is_of_an_experiment_and_of_one_claim():
    assert {r.experiment for r in RULES} <= set(NAMES)
    assert len({(r.experiment, r.claim) for r in RULES}) == len(RULES)


def toy(kind, *errors):
    return [
        {"interpolant": kind, "round": k, "paper error": error} for k, error in enumerate(errors)
    ]


@pytest.mark.parametrize(("last", "verdict"), [(1e-3, True), (1.2e-3, False)])
def test_the_toy_reaches_what_is_said(last, verdict):
    assert rule("toy", "With the approx")(toy("barycentric", 0.1, last)) is verdict
    assert rule("toy", "With the exact")(toy("exact", 0.1, last / 10, 0.1)) is verdict


@pytest.mark.parametrize(("end", "verdict"), [(2e-4, True), (1e-4, False)])
def test_the_approximation_rises_less(end, verdict):
    rows = toy("barycentric", 1e-2, 1e-3, 1.1e-3) + toy("exact, POT as it comes", 1e-2, 1e-4, end)
    assert rule("toy", "The approximation is")(rows) is verdict


@pytest.mark.parametrize(("classes", "verdict"), [(8, True), (6, False)])
def test_the_support_covers_as_many_classes(classes, verdict):
    rows = [
        {"data": "mnist", "K": 8, "method": f"fedwad, support {s}", "epochs": 40, "classes": n}
        for s, n in ((10, 8), (100, classes))
    ]
    assert rule("coresets", "The support")(rows) is verdict


def scaling(seconds=lambda method, n: {"exact": n}.get(method, 1.0), error=lambda _m, _n: 0.0):
    """Two draws whose errors are 0.01 apart."""
    return [
        {
            "d": d,
            "ratio": r,
            "n": n,
            "method": m,
            "seconds": seconds(m, n),
            "error": error(m, n) + k,
        }
        for d in (2, 50)
        for r in (1, 3)
        for n in (10, 10_000)
        for m in ("exact", "FedWaD S=2", "FedWaD S=10", "FedWaD S=100")
        for k in (0.0, 0.01)
    ]


@pytest.mark.parametrize(("more", "verdict"), [(0.005, True), (0.02, False)])
def test_errors_are_similar_within_the_draws(more, verdict):
    rows = scaling(error=lambda m, n: more * (m == "FedWaD S=10" and n == 10))
    assert rule("scaling", "Below 1000")(rows) is verdict
    assert rule("scaling", "The approximated")(rows) is verdict


@pytest.mark.parametrize(("slow", "verdict"), [(1.0, True), (20_000.0, False)])
def test_times_everywhere(slow, verdict):
    size = {"FedWaD S=2": 0.1, "FedWaD S=10": 0.2, "FedWaD S=100": slow}
    rows = scaling(seconds=lambda m, n: float(size.get(m, n)))
    assert rule("scaling", "From 5000")(rows) is verdict
    assert rule("scaling", "A larger")(rows)
    size["FedWaD S=2"] = 0.3
    assert not rule("scaling", "A larger")(scaling(seconds=lambda m, n: float(size.get(m, n))))


@pytest.mark.parametrize(("above", "verdict"), [(1.02, True), (1.2, False)])
def test_accurate_up_to_the_support(above, verdict):
    rows = [
        {"part": "samples", "pair": "mnist kmnist", "n": n, "method": "exact", "value": 1.0}
        for n in (100, 3000)
    ]
    rows += [
        {**row, "method": "fedwad", "support": 1000, "value": value}
        for row, value in zip(rows, (above, 1.1), strict=True)
    ]
    assert rule("otdd", "FedWaD is accurate")(rows) is verdict
