"""Error against messages: the paper's estimate after each number of rounds, and ours from the same
and from one."""

from __future__ import annotations

from typing import Any

import fedwad

ROUNDS, SUPPORTS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20), (10, 100)


def measure() -> list[dict[str, Any]]:
    """Handwritten digits, 0-4 at one site and 5-9 at the other; relative errors to the exact
    distance."""
    images, labels = fedwad.datasets.load("digits")
    x, y = images[labels < 5], images[labels >= 5]
    exact = fedwad.wasserstein(x, y)
    asked = [{"method": "summary", "cells": 10}]
    asked += [
        {"method": "fedwad", "support": S, "rounds": k, "t": 0.5} for S in SUPPORTS for k in ROUNDS
    ]
    rows = []
    for options in asked:
        result = fedwad.distance(x, y, **options)
        rows.append(
            {
                "method": options["method"],
                "S": options.get("support", options.get("cells")),
                "messages each": result.traffic.messages // 2,
                "kB each": result.traffic.up / 2000,
                "paper": float("nan") if result.fedwad is None else result.fedwad / exact - 1,
                "lower": result.lower / exact - 1,
                "value": result.value / exact - 1,
                "upper": result.upper / exact - 1,
            }
        )
    return rows
