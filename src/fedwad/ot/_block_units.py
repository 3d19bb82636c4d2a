"""Block means of several sites in common units, whatever the order of the blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.ot._blocks import Blocks, directions
from fedwad.ot._measure import Floats

__all__ = ["in_common_units"]

_POWERS = ("mean", "square", "third", "fourth")  # names in `Blocks.segments`
_CONSTANT = 1e-8  # standard deviation of a constant feature, in units of its mean


def in_common_units(sites: Sequence[Blocks], rows: int) -> list[Floats]:
    """Means over blocks of `rows` rows of each site, centred and scaled by all of these blocks.

    Third and fourth powers become Hermite polynomials, which for normal features are uncorrelated
    with the powers below.
    """
    merged = [site.merged(rows) for site in sites]
    centre, scale = _common_centre_and_scale(sites, merged)
    parts = [_powers(site, means, centre, scale) for site, means in zip(sites, merged, strict=True)]
    projections = [
        _projections(site, means, centre) for site, means in zip(sites, merged, strict=True)
    ]
    return [np.concatenate(both, axis=1) for both in zip(parts, projections, strict=True)]


def _common_centre_and_scale(
    sites: Sequence[Blocks], merged: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Mean and standard deviations over all blocks."""
    d = len(sites[0].centre)
    counts = np.array([len(means) for means in merged], dtype=np.float64)
    shares = counts / counts.sum()
    first_moments = np.array([means[:, :d].mean(axis=0) for means in merged])
    second_moments = np.array([means[:, d : 2 * d].mean(axis=0) for means in merged])
    centres = np.array([site.centre for site in sites])
    scales = np.array([site.scale for site in sites])
    means = centres + scales * first_moments
    centre = shares @ means
    inside = scales**2 * (second_moments - first_moments**2)
    scale = np.sqrt(np.maximum(shares @ (inside + (means - centre) ** 2), 0.0))
    return centre, np.where(scale > _CONSTANT * np.abs(centre), scale, np.inf)


def _powers(site: Blocks, means: Floats, centre: Floats, scale: Floats) -> Floats:
    """Powers of the features in common units, by the binomial theorem."""
    d = len(centre)
    count = sum(name in _POWERS for name, _ in site.segments)
    own = [np.ones((len(means), d))] + [means[:, k * d : (k + 1) * d] for k in range(count)]
    ratio, shift = site.scale / scale, np.where(np.isinf(scale), 0.0, site.centre - centre) / scale
    z = ratio * own[1] + shift
    square = ratio**2 * own[2] + 2 * ratio * shift * own[1] + shift**2
    if count == 2:
        return np.concatenate([z, square], axis=1)
    third = ratio**3 * own[3] + 3 * ratio**2 * shift * own[2] + 3 * ratio * shift**2 * own[1]
    third += shift**3
    fourth = ratio**4 * own[4] + 4 * ratio**3 * shift * own[3] + 6 * (ratio * shift) ** 2 * own[2]
    fourth += 4 * ratio * shift**3 * own[1] + shift**4
    return np.concatenate([z, square, third - 3 * z, fourth - 6 * square], axis=1)


def _projections(site: Blocks, means: Floats, centre: Floats) -> Floats:
    """Squares of projections about the common centre, in a unit that is the same for all."""
    d = len(centre)
    signs = directions(d)
    if not signs.shape[1]:
        return np.empty((len(means), 0))
    squares = means[:, -signs.shape[1] :] * float((site.scale**2).mean())
    along = (site.centre - centre) @ signs
    first = (means[:, :d] * site.scale) @ signs
    return np.asarray(squares + 2 * first * along + along**2)
