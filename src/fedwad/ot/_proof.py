"""The certificate of a solver's answer: primal against dual, and the marginals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedwad.errors import InputError
from fedwad.ot._cost import paired_squares
from fedwad.ot._measure import Measure
from fedwad.ot._plan import TOLERANCE, Plan, Solution

__all__ = ["Proof"]

_EPSILON = float(np.finfo(np.float64).eps)
# Masses are rounded: this fraction may be misplaced by up to the plan's longest move.
_MASS_ROUNDING = 16 * _EPSILON


@dataclass(frozen=True)
class Proof:
    """A solver's answer with its duality gap and marginal error.

    Potentials are in units of length^p.
    """

    solver: str
    solution: Solution
    length: float
    distance: float
    gap: float  # relative to the cost of the plan
    rounding_gap: float  # relative to the larger of that cost and the bound of `Plan.gap`
    marginal_error: float

    @classmethod
    def of(
        cls, x: Measure, y: Measure, p: float, solver: str, solution: Solution, length: float
    ) -> Proof:
        rows, cols, mass, f, g = solution
        moves = np.sqrt(paired_squares(x, y, rows, cols))
        longest = float(moves.max())
        sent, received = np.bincount(rows, mass, len(x)), np.bincount(cols, mass, len(y))
        error = max(np.abs(sent - x.weights).sum(), np.abs(received - y.weights).sum())
        if longest == 0:  # nothing moves: no plan is cheaper
            return cls(solver, solution, length, 0.0, 0.0, 0.0, float(error))
        # In units of the longest move: nothing overflows, and underflow is harmless.
        primal = float(mass @ (moves / longest) ** p)
        # primal - dual = sum of mass * (cost - f - g), with the masses of the plan. Their distance
        # from the weights is the marginal error.
        with np.errstate(all="ignore"):
            slack = float(mass @ ((moves / length) ** p - f[rows] - g[cols]))
            slack *= float(np.float64(length / longest) ** p)
            gap = slack / primal
        if solver == "sorted" and not abs(gap) <= TOLERANCE:
            gap = 0.0  # rounding dominates the potentials, but a monotone plan is always optimal
        if longest <= 4 * _EPSILON * math.sqrt(x.dimension) * max(x.max_abs, y.max_abs):
            # No move exceeds the rounding of coordinates, so no plan is measurably better.
            gap = 0.0
        rounding_gap = gap * primal / max(primal, _MASS_ROUNDING / TOLERANCE)
        distance = longest * primal ** (1 / p)
        return cls(solver, solution, length, distance, gap, rounding_gap, float(error))

    @property
    def holds(self) -> bool:
        return abs(self.gap) <= TOLERANCE and self.marginal_error <= TOLERANCE

    def plan(self, mu: Measure, nu: Measure, p: float, scale: float) -> Plan:
        """The plan in the units of the data.

        Raises CertificateError if neither `gap` nor `rounding_gap` proves it optimal.
        """
        distance = self.distance * scale
        try:
            unit, _ = (self.length * scale) ** p, distance**p
        except OverflowError:
            raise InputError(
                f"Costs |x - y|^{p:g} overflow at this scale; rescale the data or take a smaller p."
            ) from None
        rows, cols, mass, f, g = self.solution
        return Plan(
            source=mu,
            target=nu,
            p=p,
            rows=rows,
            cols=cols,
            mass=mass,
            distance=distance,
            f=f * unit,
            g=g * unit,
            gap=self.gap if self.holds else self.rounding_gap,
            marginal_error=self.marginal_error,
            solver=self.solver,
        )
