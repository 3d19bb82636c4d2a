"""How different the sites of a federation are on the whole, and which of them lies apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedwad._matrix.odd import mean_weights, odd_pvalues, weighted_sum_error
from fedwad.errors import InputError
from fedwad.ot import ColumnMoments, Floats

__all__ = ["Eccentricity", "Health", "Heterogeneity", "require_health"]

_ALPHA = 0.05  # sites with p-values up to this are odd ones out


@dataclass(frozen=True)
class Heterogeneity:
    """How different the sites are on the whole.

    Attributes
    ----------
    value : float
        Mean over all pairs of sites of the squared distance between their populations. Sampling
        noise is subtracted, so it can be negative if all populations agree.
    error : float
        Standard error of `value`, because the rows of each site are a sample.
    fraction : float
        The part of the total variance that lies between sites, at most 1; negative if `value`
        is. Half the mean squared distance between sites is their variance, as in the
        intraclass correlation.
    """

    value: float
    error: float
    fraction: float

    def __repr__(self) -> str:
        return (
            f"<heterogeneity {self.value:.4g} +- {self.error:.2g}, {self.fraction:.1%} of the"
            " total variance>"
        )

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers."""
        return {"value": self.value, "error": self.error, "fraction": self.fraction}


@dataclass(frozen=True, eq=False)
class Eccentricity:
    """How far each site lies from the rest.

    Attributes
    ----------
    sites : tuple of str
    value : array (N,)
        Mean squared distance between the population of a site and those of the others. The mean
        over sites is the heterogeneity.
    error : array (N,)
        Standard errors of `value`, because the rows of each site are a sample.
    fraction : array (N,)
        Half of `value` as a part of the total variance.
    pvalue : array (N,)
        p-values of the hypothesis that a site differs from the rest no more than they differ from
        each other, adjusted for the number of sites. All are 1 if there are fewer than three sites.
    """

    sites: tuple[str, ...]
    value: Floats
    error: Floats
    fraction: Floats
    pvalue: Floats

    @property
    def farthest(self) -> str:
        """The site that is farthest from the rest, even if only by chance."""
        return self.sites[int(np.argmax(self.value))]

    @property
    def odd(self) -> tuple[str, ...]:
        """Sites that lie apart by more than chance at the 5% level, the farthest first."""
        farthest_first = np.argsort(-self.value, kind="stable")
        return tuple(self.sites[i] for i in farthest_first if self.pvalue[i] <= _ALPHA)

    def __repr__(self) -> str:
        if self.odd:
            return f"<eccentricity of {len(self.sites)} sites, odd one out: {', '.join(self.odd)}>"
        return f"<eccentricity of {len(self.sites)} sites, no odd one out>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists."""
        arrays = ("value", "error", "fraction", "pvalue")
        content: dict[str, Any] = {name: getattr(self, name).tolist() for name in arrays}
        return content | {"sites": list(self.sites), "odd": list(self.odd)}


@dataclass(frozen=True, eq=False)
class Health:
    """The tables from which heterogeneity and eccentricity are computed.

    Attributes
    ----------
    square, error : arrays (N, N)
        Squared distances between populations, and their standard errors. An estimate of a square
        may be negative by chance.
    variance : array (N,)
        Total variance of each site.
    """

    square: Floats
    error: Floats
    variance: Floats

    def among(self, sites: Sequence[int]) -> Health:
        """Return the tables of some of the sites, by their numbers."""
        some = np.ix_(sites, sites)
        return Health(self.square[some], self.error[some], self.variance[sites])

    def heterogeneity(self) -> Heterogeneity:
        """Return the mean of the squared distances over all pairs of sites."""
        value = float(self.square[self._pairs].mean())
        error = weighted_sum_error(mean_weights(len(self.square)), self.error)
        return Heterogeneity(value, error, value / 2 / self._total_variance)

    def eccentricity(
        self, sites: tuple[str, ...], moments: Sequence[ColumnMoments] | None = None
    ) -> Eccentricity:
        """Return the mean squared distance of each site from the others.

        `moments` has the moments of the features at each site; without them, the p-values are of
        distances alone.
        """
        count = len(sites)
        value = self.square.sum(axis=1) / (count - 1)
        errors = []
        for site in range(count):
            weights = np.zeros((count, count))
            weights[site] = weights[:, site] = 0.5 / (count - 1)
            weights[site, site] = 0.0
            errors.append(weighted_sum_error(weights, self.error))
        pvalue = odd_pvalues(self.square, self.error, moments)
        fraction = np.asarray(value / 2 / self._total_variance)
        return Eccentricity(sites, np.asarray(value), np.array(errors), fraction, pvalue)

    @property
    def _pairs(self) -> tuple[Any, ...]:
        """Indices of the entries (i, j) with i < j."""
        return np.triu_indices(len(self.square), 1)

    @property
    def _total_variance(self) -> float:
        """The mean variance within sites plus the variance between sites; 1 if both are zero."""
        between = max(float(self.square[self._pairs].mean()) / 2, 0.0)
        return float(self.variance.mean()) + between or 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return lists of numbers."""
        return {name: getattr(self, name).tolist() for name in ("square", "error", "variance")}

    @classmethod
    def from_dict(cls, content: dict[str, Any], count: int) -> Health:
        """Read what `to_dict` wrote; ValueError unless its tables have `count` sites."""
        tables = {name: np.array(table, dtype=np.float64) for name, table in content.items()}
        health = cls(**tables)
        shapes = (health.square.shape, health.error.shape, health.variance.shape)
        if shapes != ((count, count), (count, count), (count,)):
            raise ValueError("tables have the wrong number of sites")
        if not all(np.isfinite(table).all() for table in tables.values()):
            raise ValueError("tables are not finite")
        return health


def require_health(health: Health | None) -> Health:
    """Return `health`; if it is None, raise an InputError that says what it needs."""
    if health is None:
        raise InputError(
            "Distances between populations are unknown here, so heterogeneity and eccentricity are"
            " too; they need p = 2, no privacy, and sites whose policies have"
            " calibration = true."
        )
    return health
