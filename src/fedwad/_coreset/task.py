"""One coreset to learn: for which sites, how many points, by which method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedwad._coreset.result import CoresetResult, CoresetRound
from fedwad._options import Method
from fedwad.federation import MeteredFederation
from fedwad.ot import Floats

__all__ = ["CertifiedAtoms", "CoresetTask"]


@dataclass(frozen=True, eq=False)
class CertifiedAtoms:
    """Atoms whose W2 from the union of the samples of `sites` lies between `lower` and `upper`."""

    atoms: Floats
    weights: Floats
    lower: float
    upper: float
    sites: tuple[str, ...]


@dataclass(frozen=True)
class CoresetTask:
    """The checked options of one coreset; `names` are the sites to ask."""

    names: tuple[str, ...]
    size: int
    method: Method
    seed: int
    callback: Callable[[CoresetRound], None] | None = None

    def result(
        self,
        metered: MeteredFederation,
        certified: CertifiedAtoms,
        history: tuple[CoresetRound, ...],
        converged: bool,
        min_cell_size: int | None,
        value: float | None = None,
    ) -> CoresetResult:
        """Return a result with these atoms, and with the options of this task.

        Without an estimate `value`, the lower bound is the estimate, or the upper bound if the
        lower one is zero. The lower bound is closer because the dual value is flat around the
        optimal potentials, while the cost of a plan is not. Atoms without mass are left out.
        """
        has_mass = certified.weights > 0
        return CoresetResult(
            points=certified.atoms[has_mass],
            weights=certified.weights[has_mass],
            value=(certified.lower or certified.upper) if value is None else value,
            lower=certified.lower,
            upper=certified.upper,
            method=self.method.name,
            options=self.method.to_dict(),
            history=history,
            sites=certified.sites,
            converged=converged,
            seed=self.seed,
            min_cell_size=min_cell_size,
            failed=dict(metered.failed),
            traffic=metered.traffic,
            features=metered.features,
        )
