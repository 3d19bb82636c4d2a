"""One coreset to learn: for which sites, how many points, by which method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedwad._coreset.result import CoresetResult, CoresetRound
from fedwad._options import Method
from fedwad.federation import MeteredFederation
from fedwad.ot import Floats

__all__ = ["Certified", "CoresetTask"]


@dataclass(frozen=True, eq=False)
class Certified:
    """Atoms whose distance from the union lies between `lower` and `upper`."""

    atoms: Floats
    weights: Floats
    lower: float
    upper: float
    sites: tuple[str, ...]


@dataclass(frozen=True)
class CoresetTask:
    """The checked options of one coreset that do not depend on the method."""

    names: tuple[str, ...]
    size: int
    method: Method
    seed: int
    callback: Callable[[CoresetRound], None] | None = None

    def result(
        self,
        metered: MeteredFederation,
        found: Certified,
        history: tuple[CoresetRound, ...],
        converged: bool,
        min_cell_size: int | None,
        value: float | None = None,
    ) -> CoresetResult:
        """Return a result with what was found, and with the options that led to it.

        Without another estimate `value` is the lower bound: the dual value is flat around the
        optimal potentials, the cost of a plan is not.
        """
        held = found.weights > 0
        return CoresetResult(
            points=found.atoms[held],
            weights=found.weights[held],
            value=(found.lower or found.upper) if value is None else value,
            lower=found.lower,
            upper=found.upper,
            method=self.method.name,
            options=self.method.to_dict(),
            history=history,
            sites=found.sites,
            converged=converged,
            seed=self.seed,
            min_cell_size=min_cell_size,
            failed=dict(metered.failed),
            traffic=metered.traffic,
        )
