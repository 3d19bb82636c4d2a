"""The experiment on matrices of 20 clients: verdicts from rows that are made up, so that each can
turn."""

import numpy as np
import pytest

from paper.experiment import experiment

MATRICES = experiment("matrices")
WAYS = "affinity", "sparse 3", "sparse 5", "kernel"


def made_up(change=lambda _: {}):
    """What the paper saw, with `change` to some rows."""
    rows = []
    for task in MATRICES.tasks("whole"):
        truth = np.repeat(np.arange(5), task["clients"] // 5)
        same = np.equal.outer(truth, truth)[np.triu_indices(task["clients"], 1)]
        near = {"mnist": 0.4, "cifar10": 0.95}[task["data"]] if task["groups"] else 0.95
        for method in ("exact", "pairs", "hub", "summary"):
            row = task | {"method": method, "rank correlation": 0.9, "truth": truth.tolist()}
            row |= {"matrix": np.where(same, near, 1.0).tolist()}
            if task["groups"] and method != "exact":
                row |= {f"ARI {way}": 1.0 for way in WAYS}
            rows.append(row | change(row))
    return rows


def verdict(rows, start):
    (claim,) = (claim for claim in MATRICES.judge(rows) if claim.text.startswith(start))
    return claim.holds


def test_pictures_and_verdicts_of_what_the_paper_saw():
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    rows = made_up()
    assert set(MATRICES.draw(rows)) == {"matrices-mnist", "matrices-cifar10"}
    assert [claim.holds for claim in MATRICES.judge(rows)] == [True] * 2


@pytest.mark.parametrize(
    ("start", "change"),
    [
        ("The groups", lambda _: {"matrix": np.linspace(1, 2, 190).tolist()}),
        ("Without groups", lambda _: {"matrix": np.linspace(1, 2, 190).tolist()}),
    ],
)
def test_each_verdict_can_turn(start, change):
    assert verdict(made_up(), start) is True
    assert verdict(made_up(change), start) is False
