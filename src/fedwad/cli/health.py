"""Heterogeneity and eccentricity of a matrix in two lines, and in JSON."""

from __future__ import annotations

from typing import Any

import fedwad

__all__ = ["health_in_json", "health_lines"]


def health_lines(result: fedwad.MatrixResult) -> list[str]:
    """Return how different the sites are, and who is the odd one out; nothing if unknown."""
    if result.health is None:
        return []
    whole = result.heterogeneity
    lines = [
        f"Heterogeneity: {whole.value:.4g} +- {whole.error:.2g} (mean squared distance between"
        f" populations), {max(whole.fraction, 0):.1%} of the total variance."
    ]
    if len(result) > 2:
        lines.append(_odd_one_out(result.eccentricity))
    return lines


def _odd_one_out(found: Any) -> str:
    if not found.odd:
        return f"Odd one out: none beyond chance; {found.farthest} is the farthest from the rest."
    row = {name: i for i, name in enumerate(found.sites)}
    named = [
        f"{name} (mean squared distance {found.value[row[name]]:.4g}, p ="
        f" {found.pvalue[row[name]]:.2g})"
        for name in found.odd
    ]
    return f"Odd one out: {', '.join(named)}."


def health_in_json(result: fedwad.MatrixResult) -> dict[str, Any]:
    """Return the two as --json prints them; None if they are unknown."""
    if result.health is None:
        return {"heterogeneity": None, "eccentricity": None}
    return {
        "heterogeneity": result.heterogeneity.to_dict(),
        "eccentricity": result.eccentricity.to_dict(),
    }
