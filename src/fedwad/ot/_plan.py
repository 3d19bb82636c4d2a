"""A transport plan with its certificate: the duality gap that proves it optimal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedwad.errors import CertificateError
from fedwad.ot._measure import Floats, Indices, Measure

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["TOLERANCE", "Plan", "Solution"]

#: Largest relative duality gap and marginal error that a plan may have.
TOLERANCE = 1e-9


class Solution(NamedTuple):
    """The result of a solver: the plan in coordinate form and a pair of potentials."""

    rows: Indices
    cols: Indices
    mass: Floats
    f: Floats
    g: Floats

    def transposed(self) -> Solution:
        return Solution(self.cols, self.rows, self.mass, self.g, self.f)


@dataclass(frozen=True, eq=False)
class Plan:
    """An optimal plan between `source` and `target` for the cost |x - y|^p.

    Attributes
    ----------
    rows, cols, mass : arrays (k,), k <= n + m - 1
        The positive entries: `mass[e]` goes from `source` point `rows[e]` to `target` point
        `cols[e]`.
    distance : float
        W_p, the p-th root of the transport cost.
    f, g : arrays (n,), (m,)
        Kantorovich potentials: f_i + g_j <= |x_i - y_j|^p for all i, j, and
        sum_i a_i f_i + sum_j b_j g_j >= cost * (1 - gap), which proves that no plan is cheaper.
    gap : float
        Relative duality gap: sum of mass * (cost - f - g) over the plan, divided by its cost. If
        that is above 1e-9, the divisor is at least 1e9 times the cost of moving the rounding error
        of masses (4e-15) over the longest move of the plan.
    marginal_error : float
        Largest l1 distance of the plan's marginals from the weights.
    solver : str
        The exact solver that found it.
    """

    source: Measure
    target: Measure
    p: float
    rows: Indices
    cols: Indices
    mass: Floats
    distance: float
    f: Floats
    g: Floats
    gap: float
    marginal_error: float
    solver: str

    def __post_init__(self) -> None:
        # Written so that a NaN fails too.
        if not (abs(self.gap) <= TOLERANCE and self.marginal_error <= TOLERANCE):
            raise CertificateError(
                f"The {self.solver} solver's plan is not proven optimal (relative duality gap"
                f" {self.gap:.2g}, marginal error {self.marginal_error:.2g}, both must stay below"
                f" {TOLERANCE:g}); please report the data that caused it."
            )

    @property
    def cost(self) -> float:
        """The transport cost W_p^p."""
        return float(self.distance**self.p)

    @property
    def matrix(self) -> csr_array:
        """The plan as a sparse (n, m) matrix."""
        from scipy.sparse import coo_array, csr_array

        shape = (len(self.source), len(self.target))
        return csr_array(coo_array((self.mass, (self.rows, self.cols)), shape=shape))

    def target_means(self) -> Floats:
        """The barycentric map, (m, d): for each target point the mean of the source mass it gets.

        A target whose weight was lost in rounding receives nothing and keeps its position.
        """
        return self._target_means

    @cached_property
    def _target_means(self) -> Floats:
        received = self.received[:, None]
        source, origin = self.source, np.zeros(self.source.dimension)
        if source.norms is None:  # a large common offset would cost digits
            origin = source.rows(0)
            source = source.moved(origin)
        sums = source.sums_by_target(self.rows, self.cols, self.mass, len(self.target))
        means = origin + sums / np.where(received > 0, received, 1.0)
        return np.where(received > 0, means, self.target.rows(slice(None)))

    @property
    def received(self) -> Floats:
        """Mass that arrives at each target point: its weight up to rounding."""
        return np.asarray(np.bincount(self.cols, self.mass, len(self.target)), dtype=np.float64)

    def reversed(self) -> Plan:
        """The same plan from target to source."""
        return replace(
            self,
            source=self.target,
            target=self.source,
            rows=self.cols,
            cols=self.rows,
            f=self.g,
            g=self.f,
        )
