"""Points with many features in a plane with named axes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad.ot import Floats

__all__ = ["feature_names", "flattened"]

_HEAVY = 0.2  # squared loading from which a feature names a direction


def feature_names(result: CoresetResult) -> tuple[str, ...]:
    """Names of the features, or numbers for them, counting from 1."""
    return result.features or tuple(f"feature {k + 1}" for k in range(result.points.shape[1]))


def flattened(results: Mapping[str, CoresetResult]) -> tuple[dict[str, Floats], tuple[str, str]]:
    """Coordinates (S, 2) of the points of each coreset on common axes, and the names of the axes.

    One or two features are the axes themselves. With more, the axes are the two principal
    directions of all points, named after their main features.
    """
    first = next(iter(results.values()))
    names, stacked = feature_names(first), np.concatenate([one.points for one in results.values()])
    count = stacked.shape[1]
    if count <= 2:
        flat = {
            name: np.column_stack([one.points, np.zeros(len(one))])[:, :2]
            for name, one in results.items()
        }
        return flat, (names[0], names[1] if count == 2 else "")
    centre = stacked.mean(axis=0)
    scale = float(np.abs(stacked - centre).max()) or 1.0  # keeps squares finite
    directions = np.linalg.svd((stacked - centre) / scale, full_matrices=False)[2][:2].T
    if directions.shape[1] < 2:  # a single point
        directions = np.column_stack([directions, np.zeros(count)])
    flat = {
        name: scale * (((one.points - centre) / scale) @ directions)
        for name, one in results.items()
    }
    known = names if first.features else ()
    return flat, (
        _called("first", directions[:, 0], known),
        _called("second", directions[:, 1], known),
    )


def _called(which: str, direction: Floats, names: tuple[str, ...]) -> str:
    """'first principal direction, mostly age and dose'."""
    heavy = [
        names[k] for k in np.argsort(-np.abs(direction))[:2] if names and direction[k] ** 2 > _HEAVY
    ]
    return f"{which} principal direction" + (f", mostly {' and '.join(heavy)}" if heavy else "")
