"""Heterogeneity and eccentricity of a matrix, as two lines of text and as JSON."""

from __future__ import annotations

from typing import Any

import fedwad

__all__ = ["health_in_json", "health_lines"]


def health_lines(result: fedwad.MatrixResult) -> list[str]:
    """Return a line on how different the sites are, and one on the odd one out.

    There are no lines if a site withheld its numbers, and only the first for two sites.
    """
    if result.health is None:
        return []
    heterogeneity = result.heterogeneity
    lines = [
        f"Heterogeneity: {heterogeneity.value:.4g} +- {heterogeneity.error:.2g} (mean squared"
        " distance between populations),"
        f" {max(heterogeneity.fraction, 0):.1%} of the total variance."
    ]
    if len(result) > 2:
        lines.append(_odd_one_out(result.eccentricity))
    return lines


def _odd_one_out(eccentricity: Any) -> str:
    if not eccentricity.odd:
        farthest = eccentricity.farthest
        return f"Odd one out: none beyond chance; {farthest} is the farthest from the rest."
    index = {name: i for i, name in enumerate(eccentricity.sites)}
    odd_sites = [
        f"{name} (mean squared distance {eccentricity.value[index[name]]:.4g}, p ="
        f" {eccentricity.pvalue[index[name]]:.2g})"
        for name in eccentricity.odd
    ]
    return f"Odd one out: {', '.join(odd_sites)}."


def health_in_json(result: fedwad.MatrixResult) -> dict[str, Any]:
    """Return heterogeneity and eccentricity as --json prints them; null where unknown."""
    if result.health is None:
        return {"heterogeneity": None, "eccentricity": None}
    return {
        "heterogeneity": result.heterogeneity.to_dict(),
        "eccentricity": result.eccentricity.to_dict(),
    }
