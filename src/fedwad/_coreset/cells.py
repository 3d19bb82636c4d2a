"""What the server computes from the cells of all sites: bounds, better atoms and potentials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedwad.federation import AtomsRequest, CellSums
from fedwad.ot import Floats, Measure, Plan, solve

__all__ = ["Cells"]

_ALMOST_EMPTY = 1e-2  # share of the wanted mass below which a derivative is unreliable
_NOTHING = 1e-13  # mass below rounding


@dataclass(frozen=True, eq=False)
class Cells:
    """The sites' replies to one request, averaged with each site's number of samples as weight.

    `weights` are the masses b that the atoms shall have. All quantities concern the measure mu,
    the union of the sites that answered, and nu = sum_s b_s dirac(z_s).
    """

    asked: AtomsRequest
    weights: Floats
    masses: Floats
    offsets: Floats
    squares: Floats
    overlap: Floats
    dual: float
    soft: float
    min_cell_size: int

    @classmethod
    def of(
        cls, asked: AtomsRequest, replies: Mapping[str, CellSums], weights: Floats | None
    ) -> Cells:
        """Average the replies; without `weights` each atom gets the mass of its cell."""
        parts = list(replies.values())
        counts = np.array([one.count for one in parts], dtype=np.float64)
        shares = counts / counts.sum()
        masses = sum(share * one.masses for share, one in zip(shares, parts, strict=True))
        masses = np.asarray(masses / masses.sum())
        return cls(
            asked=asked,
            weights=masses if weights is None else weights,
            masses=masses,
            offsets=np.asarray(
                sum(share * one.offsets for share, one in zip(shares, parts, strict=True))
            ),
            squares=np.asarray(
                sum(share * one.squares for share, one in zip(shares, parts, strict=True))
            ),
            overlap=np.asarray(
                sum(share * one.overlap for share, one in zip(shares, parts, strict=True))
            ),
            dual=_mean_dual(shares, parts),
            soft=math.fsum(share * one.soft for share, one in zip(shares, parts, strict=True)),
            min_cell_size=min(one.min_cell_size for one in parts),
        )

    @cached_property
    def lower(self) -> float:
        """Lower bound of W2: the root of the dual value.

        It is sum_i min_s(c_is - g_s) / n + sum_s b_s g_s. A site that closed a cell withholds its
        part, and then the bound is zero.
        """
        return math.sqrt(max(0.0, self.dual + float(self.weights @ self.asked.potentials)))

    @cached_property
    def upper(self) -> float:
        """Upper bound of W2: the root of the repaired plan's cost.

        The sites' plan gives atom s the mass m_s. To make it b_s, cell s sends part of its mass to
        other atoms, the same part of each sample. A unit of mass sent to atom r costs the mean of
        |x - z_r|^2 over the cell, |mean_s - z_r|^2 + variance_s, so the best repair is a transport
        between the S cell means and the S atoms.
        """
        return math.sqrt(self.within + self._repair.cost)

    @cached_property
    def within(self) -> float:
        """Sum over cells of mass times variance."""
        lengths = (self.offsets**2).sum(axis=1)
        return float(np.maximum(self.squares - lengths / self._divisor, 0.0).sum())

    @property
    def _divisor(self) -> Floats:
        return np.where(self.masses > 0, self.masses, 1.0)

    @cached_property
    def means(self) -> Floats:
        """Mean of each cell, (S, d); an empty one keeps its atom."""
        return np.asarray(self.asked.atoms + self.offsets / self._divisor[:, None])

    @cached_property
    def _repair(self) -> Plan:
        return solve(Measure(self.means, self.masses), Measure(self.asked.atoms, self.weights))

    @cached_property
    def gap(self) -> float:
        """Relative difference between the two bounds, squared distances."""
        cost = self.upper**2
        return max(0.0, cost - self.lower**2) / cost if cost > 0 else 0.0

    @cached_property
    def blur(self) -> float:
        """How much the regularisation adds to the gap: the plan's cost above the dual value."""
        dual = self.dual if math.isfinite(self.dual) else self.soft
        excess = float(self.squares.sum() - self.masses @ self.asked.potentials) - dual
        cost = self.upper**2
        return max(0.0, excess) / cost if cost > 0 else 0.0

    @cached_property
    def better_atoms(self) -> Floats:
        """Each atom at the mean of its mass in the repaired plan, which cannot cost more then."""
        atoms = self.asked.atoms.copy()
        atoms[self.weights > 0] = self._repair.target_means()
        return atoms

    @cached_property
    def gain(self) -> float:
        """The relative reduction of the repaired plan's cost when the atoms move there."""
        moved = float(self.weights @ ((self.better_atoms - self.asked.atoms) ** 2).sum(axis=1))
        cost = self.upper**2
        return moved / cost if cost > 0 else 0.0

    @property
    def soft_dual(self) -> float:
        """The soft dual value, which optimal potentials at this `reg` maximise."""
        return self.soft + float(self.weights @ self.asked.potentials)

    def better_potentials(self, longest: float) -> tuple[Floats, bool]:
        """Return potentials after a Newton step, and whether the step was cut.

        A step is at most `longest` times `reg` in each potential.

        The soft masses are the gradient of a concave function of g, and the crossings give their
        derivative: dm/dg = (diag(m) - overlap) / reg. An almost empty cell takes the longest
        step.
        """
        wanted = self.weights - self.masses
        values, vectors = np.linalg.eigh(np.diag(self.masses) - self.overlap)
        along = vectors.T @ wanted
        # The derivative vanishes between groups of cells that share almost no mass.
        steps = np.divide(
            along, values, out=np.sign(along) * longest, where=values > np.abs(along) / longest
        )
        step = vectors @ np.where(np.abs(along) > _NOTHING, steps, 0.0)
        largest = float(np.abs(step).max(initial=0.0))
        if largest > longest:
            step *= longest / largest
        empty = self.masses < _ALMOST_EMPTY * self.weights
        step[empty] = longest
        moved = self.asked.potentials + self.asked.reg * step
        return np.asarray(moved - self.weights @ moved), largest >= longest or bool(empty.any())


def _mean_dual(shares: Floats, parts: Sequence[CellSums]) -> float:
    """Mean of the dual values; minus infinity if a site withholds its own."""
    values = [-math.inf if one.dual is None else one.dual for one in parts]
    if not all(map(math.isfinite, values)):
        return -math.inf
    return math.fsum(share * value for share, value in zip(shares, values, strict=True))
