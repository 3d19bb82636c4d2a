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
from fedwad.federation import Policy

__all__ = ["measure"]

POLICY = Path(__file__).parents[1] / "docs" / "policies" / "summary.toml"


def measure() -> list[dict[str, Any]]:
    """The attacks on 200 records without the newer numbers, with them, and on them alone."""
    policy = Policy.load(POLICY)
    asked: list[tuple[str, str, Any, Policy, str]] = []
    for name, X in _records().items():
        plain = replace(policy, calibration=False)
        asked.append((name, "summary", X, plain, "summary"))
        asked.append((name, "summary, numbers of splits", X, policy, "summary"))
        asked.append((name, "block means", X, policy, "test"))
    for site, path in fedwad.datasets.load("heart").items():
        asked.append((f"heart, {site}", "profile", path, policy, "schema"))
    return [
        {"data": name, "message": message, **attack}
        for name, message, data, rules, method in asked
        for attack in _attacks(data, rules, method)
    ]


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
