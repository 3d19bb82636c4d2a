"""Coresets of MNIST, two classes at each of 100 clients: the union beside the paper's method and
the pooled data."""

from __future__ import annotations

from typing import Any

from paper.coresets import METHODS, measure_method


def measure(epochs: int = 3) -> list[dict[str, Any]]:
    """A few epochs of the paper's method show its price; `python -m paper coresets` makes as many
    as it needs."""
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        (row,) = measure_method("mnist", 2, method, clients=100, samples=200, epochs=epochs)
        plain = {key: value for key, value in row.items() if not isinstance(value, list)}
        exact = rows[0]["W2"] if rows else row["W2"]
        rows.append(
            {"method": method, "against pooled": f"{100 * (row['W2'] / exact - 1):+.2f}%", **plain}
        )
    return rows
