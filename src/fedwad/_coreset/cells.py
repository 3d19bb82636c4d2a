"""What the server computes from the cells of all sites: bounds, better atoms and potentials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedwad.federation import AtomsRequest, CellSums
from fedwad.ot import Floats, Measure, Plan, solve

__all__ = ["Cells"]

_ALMOST_EMPTY = 1e-2  # a cell with a smaller part of its atom's mass has no reliable derivative
_ROUNDING = 1e-13  # masses up to this are rounding


@dataclass(frozen=True, eq=False)
class Cells:
    """The sites' replies to one request, averaged with each site's number of samples as weight.

    All bounds are about the distance between mu, the union of the samples of the sites that
    answered, and nu = sum_s b_s dirac(z_s), with the atoms z and masses b.

    Attributes
    ----------
    request : the atoms z, the potentials g and the regularisation `reg` that the sites received
    weights : the masses b that the atoms shall have
    masses, offsets, squares, overlap, soft : means over sites, see `CellSums`
    dual : mean over sites, see `CellSums`; minus infinity if a site withheld it
    min_cell_size : number of samples in the smallest cell of any site
    """

    request: AtomsRequest
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
        cls, request: AtomsRequest, replies: Mapping[str, CellSums], weights: Floats | None
    ) -> Cells:
        """Average the replies; without `weights` each atom gets the mass of its cell."""
        counts = np.array([one.count for one in replies.values()], dtype=np.float64)
        site_weights = counts / counts.sum()
        weighted = list(zip(site_weights, replies.values(), strict=True))
        dual, duals = -math.inf, [one.dual for one in replies.values() if one.dual is not None]
        if len(duals) == len(counts):
            dual = math.fsum(weight * one for weight, one in zip(site_weights, duals, strict=True))
        masses = np.asarray(sum(weight * one.masses for weight, one in weighted))
        masses = np.asarray(masses / masses.sum())
        return cls(
            request=request,
            weights=masses if weights is None else weights,
            masses=masses,
            offsets=np.asarray(sum(weight * one.offsets for weight, one in weighted)),
            squares=np.asarray(sum(weight * one.squares for weight, one in weighted)),
            overlap=np.asarray(sum(weight * one.overlap for weight, one in weighted)),
            dual=dual,
            soft=math.fsum(weight * one.soft for weight, one in weighted),
            min_cell_size=min(one.min_cell_size for _, one in weighted),
        )

    @cached_property
    def lower(self) -> float:
        """Lower bound of W2: the root of the dual value.

        The dual value is the mean over samples i of min_s(c_is - g_s), with the cost c_is, plus
        sum_s b_s g_s. A site that removed a cell with too few samples withholds its part of the
        mean, and then the bound is zero.
        """
        return math.sqrt(max(0.0, self.dual + float(self.weights @ self.request.potentials)))

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
        """Mean of each cell, (S, d); of an empty cell, its atom."""
        return np.asarray(self.request.atoms + self.offsets / self._divisor[:, None])

    @cached_property
    def _repair(self) -> Plan:
        return solve(Measure(self.means, self.masses), Measure(self.request.atoms, self.weights))

    @cached_property
    def gap(self) -> float:
        """Difference between the squares of the two bounds, relative to the square of `upper`."""
        return self._part_of_cost(max(0.0, self.upper**2 - self.lower**2))

    def _part_of_cost(self, difference: float) -> float:
        cost = self.upper**2
        return difference / cost if cost > 0 else 0.0

    @cached_property
    def blur(self) -> float:
        """What the regularisation adds to the gap: how far the cost of the sites' plan lies above
        the dual value for the masses of this plan."""
        dual = self.dual if math.isfinite(self.dual) else self.soft
        excess = float(self.squares.sum() - self.masses @ self.request.potentials) - dual
        return self._part_of_cost(max(0.0, excess))

    @cached_property
    def better_atoms(self) -> Floats:
        """Each atom moved to the mean of the mass that it gets in the repaired plan.

        The plan cannot cost more then.
        """
        atoms = self.request.atoms.copy()
        atoms[self.weights > 0] = self._repair.target_means()
        return atoms

    @cached_property
    def gain(self) -> float:
        """The relative reduction of the repaired plan's cost by `better_atoms`."""
        shifts = ((self.better_atoms - self.request.atoms) ** 2).sum(axis=1)
        return self._part_of_cost(float(self.weights @ shifts))

    @property
    def soft_dual(self) -> float:
        """The soft dual value, which optimal potentials at this `reg` maximise."""
        return self.soft + float(self.weights @ self.request.potentials)

    def better_potentials(self, max_step: float) -> tuple[Floats, bool]:
        """Return potentials after a Newton step, and whether the step was cut.

        A step is at most `max_step` times `reg` in each potential.

        The soft dual value is concave in g, with gradient b - m for the masses m of the cells. The
        overlaps give the derivative of these: dm/dg = (diag(m) - overlap) / reg. An almost empty
        cell takes the longest step.
        """
        missing = self.weights - self.masses
        values, vectors = np.linalg.eigh(np.diag(self.masses) - self.overlap)
        along = vectors.T @ missing
        # The derivative vanishes between groups of cells that share almost no mass.
        steps = np.divide(
            along, values, out=np.sign(along) * max_step, where=values > np.abs(along) / max_step
        )
        step = vectors @ np.where(np.abs(along) > _ROUNDING, steps, 0.0)
        largest = float(np.abs(step).max(initial=0.0))
        if largest > max_step:
            step *= max_step / largest
        empty = self.masses < _ALMOST_EMPTY * self.weights
        step[empty] = max_step
        potentials = self.request.potentials + self.request.reg * step
        was_cut = largest >= max_step or bool(empty.any())
        return np.asarray(potentials - self.weights @ potentials), was_cut
