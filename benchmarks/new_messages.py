"""What newer numbers add to each attack of the audit: `python -m benchmarks new_messages`.

Numbers of splits come with a summary, block means with a test, profiles with a table. Each row
gives the records that come back exactly, nearly, and the median distance of the closest guess.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedwad
from fedwad.audit.score import ReconstructionScorer
from fedwad.audit.session import AttackSession
from fedwad.audit.summaries import draw_from_summary
from fedwad.federation import Dataset, Policy
from fedwad.transport import Measure

__all__ = ["measure"]

POLICY = Path(__file__).parents[1] / "docs" / "policies" / "summary.toml"


def measure() -> list[dict[str, Any]]:
    """The attacks on 200 records without the newer numbers, with them, and on them alone."""
    policy = Policy.load(POLICY)
    asked: list[tuple[str, str, Any, Policy, str]] = []
    for name, X in _records().items():
        plain = replace(policy, splits="none")
        asked.append((name, "summary", X, plain, "summary"))
        asked.append((name, "summary, numbers of splits", X, policy, "summary"))
        asked.append((name, "block means", X, policy, "test"))
    for site, path in fedwad.datasets.load("heart").items():
        asked.append((f"heart, {site}", "profile", path, policy, "schema"))
    rows = [
        {"data": name, "message": message, **attack}
        for name, message, data, rules, method in asked
        for attack in _attacks(data, rules, method)
    ]
    return rows + [_by_class(replace(policy, classes=True, splits=k)) for k in ("none", "blocks")]


def _by_class(policy: Policy) -> dict[str, Any]:
    """Ten samples that are drawn from a summary by class of 300 digits."""
    images, labels = fedwad.datasets.load("digits")
    some = np.random.default_rng(0).permutation(len(images))[:300]
    data = Dataset(Measure(images[some].astype(float)), np.asarray(labels)[some])
    scorer = ReconstructionScorer(data.measure.points)
    scores = [
        scorer.score(
            draw_from_summary(AttackSession(data, policy, {"summary"}), np.random.default_rng(seed))
        )
        for seed in range(10)
    ]
    return {
        "data": "digits with labels",
        "message": "summary by class" + (", numbers of splits" if policy.splits != "none" else ""),
        "attack": "drawing from one summary, ten times",
        "answered": 1,
        "exactly": sum(score.exact for score in scores),
        "within 10%": sum(score.near for score in scores),
        "closest": float(np.mean([score.closest for score in scores])),
        "leaks": "yes" if any(score.exact for score in scores) else "no",
    }


def _records() -> dict[str, NDArray[np.float64]]:
    images, _ = fedwad.datasets.load("digits")
    rng = np.random.default_rng(0)
    return {
        "gaussian": rng.standard_normal((200, 2)),
        "digits": images[rng.permutation(len(images))[:200]].astype(float),
    }


def _attacks(data: Any, policy: Policy, method: Any) -> list[dict[str, Any]]:
    found = fedwad.audit(data, policy, method)
    return [
        {
            "attack": row.attack,
            "answered": row.answered,
            "exactly": row.score.exact,
            "within 10%": row.score.near,
            "closest": row.score.closest,
            "leaks": "yes" if row.leaks else "no",
        }
        for row in found.rows
    ]
