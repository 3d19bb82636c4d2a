"""The part of chance in a distance: calibrated value, noise and population."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwad.federation import SummaryReply
from fedwad.ot import Estimate, beyond_chance

__all__ = ["with_chance"]


def with_chance(found: Estimate, a: SummaryReply, b: SummaryReply) -> dict[str, Any]:
    """Return value, bounds, noise and population as fields of a result.

    Without the numbers of both sites' splits the value stays as it was estimated, and noise and
    population are left out. Equal summaries keep their lower bound as the value.
    """
    plain = {"value": found.value, "lower": found.lower, "upper": found.upper}
    table = np.array([[0.0, found.value], [found.value, 0.0]])
    known = beyond_chance(table, [a.summary, b.summary], [a.calibration, b.calibration])
    if known is None:
        return plain
    value = float(known.value[0, 1]) if found.value > found.lower else found.value
    return plain | {
        "value": min(max(value, found.lower), found.upper),
        "noise": float(known.noise[0, 1]),
        "population": float(known.population[0, 1]),
        "population_interval": (float(known.lower[0, 1]), float(known.upper[0, 1])),
    }
