"""What calibration and blocks cost: bytes, seconds of a client, and what attacks gain."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

import fedwad

Row = dict[str, Any]
Tasks = list[tuple[Any, ...]]


def _cost_tasks(_: int) -> Tasks:
    return [(n, d) for n, d in ((400, 30), (1500, 30), (1500, 784), (10_000, 50), (50_000, 100))]


def _cost(n: int, d: int) -> dict[str, float]:
    from fedwad.federation import BlocksRequest, SummaryRequest, payload_bytes

    x = np.random.default_rng(0).normal(size=(n, d)) * np.linspace(2, 0.1, d)
    answer: dict[str, float] = {}
    warm = fedwad.local({"a": x[:200]})  # loads what is loaded at first use
    warm.ask({"a": SummaryRequest(10, "auto", 2.0, 0)})
    sizes = {}
    for name, request in (
        ("summary", SummaryRequest(10, "auto", 2.0, 0, calibration=False)),
        ("with calibration", SummaryRequest(10, "auto", 2.0, 0)),
        ("blocks", BlocksRequest()),
    ):
        fed = fedwad.local({"a": x})
        start = time.process_time()
        reply = fed.ask({"a": request})["a"]
        answer[f"{name} s"] = time.process_time() - start
        sizes[name] = payload_bytes(reply)
    answer["times the work"] = answer["with calibration s"] / answer["summary s"]
    answer["calibration bytes"] = float(sizes["with calibration"] - sizes["summary"])
    return answer | {"blocks kB": sizes["blocks"] / 1000}


def _cost_rows(tasks: Tasks, found: list[Any]) -> list[Row]:
    return [{"n": n, "d": d} | row for (n, d), row in zip(tasks, found, strict=True)]


def _audit_tasks(_: int) -> Tasks:
    return [
        (data, method, calibration)
        for data in ("gaussian", "digits")
        for method in ("summary", "test", "fedwad", "hub")
        for calibration in ((True,) if method == "test" else (False, True))
    ]


def _audit(data: str, method: Any, calibration: bool) -> list[Row]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    if data == "digits":
        images, _ = fedwad.datasets.load("digits")
        x = images[rng.permutation(len(images))[:200]].astype(float)
    policy = fedwad.Policy(
        ["moments", "summary", "blocks", "transport", "cells"],
        max_distinct_replies={"summary": 1, "blocks": 1},
        max_queries=31,
        min_cell_size=20,
        covariance_type="diag",
    )
    result = fedwad.audit(x, replace(policy, calibration=calibration), method)
    return [
        {"data": data, "method": method, "calibration": calibration, "attack": row.attack}
        | {"exactly": row.score.exact, "within 10%": row.score.near, "closest": row.score.closest}
        for row in result.rows
    ]


def _audit_rows(_: Tasks, found: list[Any]) -> list[Row]:
    return [row for rows in found for row in rows]


TABLES: dict[str, Any] = {
    "cost": (_cost_tasks, _cost, _cost_rows),
    "audit": (_audit_tasks, _audit, _audit_rows),
}
