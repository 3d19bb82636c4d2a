"""Masses and sums over the power cells of a few atoms: one round of the coreset of all sites' data
(method `union`).

With atoms z_s, potentials g_s and entropic regularisation e (`reg`), atom s receives of sample x_i
the fraction

    p_is = exp(-(|x_i - z_s|^2 - g_s) / e) / sum_r exp(-(|x_i - z_r|^2 - g_r) / e),

and all of it goes to the smallest |x_i - z_s|^2 - g_s when e = 0. For any potentials p is a
transport plan from the data to the masses that the atoms receive. Every number in the reply is a
sum over samples, so the replies of many clients can be added before anybody sees them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedwad.errors import InputError
from fedwad.federation.context import ClientContext
from fedwad.federation.message import MAX_ABS, Reply, Request, is_count, is_finite, require
from fedwad.federation.needs import Needs
from fedwad.ot import Floats, Measure, ground_cost

__all__ = ["AtomsRequest", "CellSums"]

_SMALLEST_FRACTION = 1e-9  # of a sample; smaller ones are set to zero
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class CellSums(Reply):
    """Weighted sums over the samples x_i of a client, with weights w_i (sum one) and fractions
    p_is.

    Attributes
    ----------
    count : number of samples, the weight of the client in the union
    masses : (S,), sum_i w_i p_is
    offsets : (S, d), sum_i w_i p_is (x_i - z_s)
    squares : (S,), sum_i w_i p_is |x_i - z_s|^2
    overlap : (S, S), sum_i w_i p_is p_ir: the mass that atoms s and r share (the Hessian term)
    dual : at most sum_i w_i min_s (|x_i - z_s|^2 - g_s) over all atoms, and equal to it if each
        atom is best for no sample or for at least `min_cell_size`; None if a cell with too few
        samples was removed
    soft : sum_i w_i (-e log sum_s exp(-(|x_i - z_s|^2 - g_s) / e)) over the atoms whose cells were
        not removed; its gradient in g is minus the masses
    min_cell_size : Kish's effective number of samples in the smallest cell that is not empty
    """

    count: int
    masses: Floats
    offsets: Floats
    squares: Floats
    overlap: Floats
    dual: float | None
    soft: float
    min_cell_size: int

    def check_values(self) -> None:
        require(
            is_count(self.count) and is_count(self.min_cell_size),
            "samples are not counted by positive integers.",
        )
        arrays = ((self.masses, 1), (self.offsets, 2), (self.squares, 1), (self.overlap, 2))
        require(
            all(is_finite(array, ndim, MAX_ABS**2) for array, ndim in arrays),
            "its sums are not finite.",
        )
        size = len(self.masses)
        shapes = (
            self.squares.shape == (size,)
            and self.overlap.shape == (size, size)
            and len(self.offsets) == size
        )
        require(shapes and size > 0, "its sums differ in size.")
        self._check_masses()
        values = (self.soft,) if self.dual is None else (self.dual, self.soft)
        require(
            all(isinstance(one, float) and math.isfinite(one) for one in values),
            "a dual value is not finite.",
        )

    def _check_masses(self) -> None:
        require(
            bool((self.masses >= 0).all()) and bool((self.squares >= 0).all()),
            "a mass or a square is negative.",
        )
        require(abs(float(self.masses.sum()) - 1) <= _ROUNDING, "its masses do not sum to one.")
        inside = (self.overlap >= 0).all() and (self.overlap <= self.masses + _ROUNDING).all()
        require(bool(inside), "more mass overlaps than there is.")


@dataclass(frozen=True, eq=False)
class AtomsRequest(Request):
    """Ask for the masses and sums of the cells of these atoms.

    `reg` is the entropic regularisation e.
    """

    kind: ClassVar[str] = "atoms"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = CellSums
    atoms: Floats
    potentials: Floats
    reg: float

    def validate(self) -> AtomsRequest:
        atoms, potentials = _plain_array(self.atoms), _plain_array(self.potentials)
        if atoms.ndim != 2 or potentials.shape != (len(atoms),):
            raise InputError("atoms (S, d) need one potential each.")
        if type(self.reg) is not float or not 0 <= self.reg < math.inf:
            raise InputError("reg must be a number of at least 0.")
        if not np.isfinite(potentials).all():
            raise InputError("potentials must be finite.")
        return AtomsRequest(np.array(Measure(atoms, name="the atoms").points), potentials, self.reg)

    def needs(self) -> Needs:
        """No minimum number of atoms is checked: a server could meet it with far atoms that receive
        no mass."""
        return Needs(size=len(self.atoms))

    def check_shape(self, context: ClientContext) -> None:
        features = context.data.measure.dimension
        if self.atoms.shape[1] != features:
            raise InputError(
                f"Atoms with {self.atoms.shape[1]} features arrived where the data have {features};"
                " all sites need the same features."
            )

    def execute(self, context: ClientContext) -> tuple[CellSums, int]:
        sums = self.sums(context.data.measure, context.policy.min_cell_size)
        return sums, sums.min_cell_size

    def sums(self, measure: Measure, min_cell_size: int = 1) -> CellSums:
        """Return the sums over the atoms' cells; cells with too few samples are removed."""
        cost = ground_cost(measure.points, self.atoms)
        reduced = cost - self.potentials  # the reduced costs |x_i - z_s|^2 - g_s
        fractions, soft, smallest, removed = _fractions(
            reduced, self.reg, measure.weights, min_cell_size
        )
        dual = None if removed else _dual(reduced, soft, measure.weights, min_cell_size)
        weighted = measure.weights[:, None] * fractions
        masses = weighted.sum(axis=0)
        origin = self.atoms[0]  # avoids cancellation if all points share a large offset
        offsets = weighted.T @ (measure.points - origin) - masses[:, None] * (self.atoms - origin)
        squares = np.einsum("is,is->s", weighted, cost)
        overlap = _overlap(weighted, fractions, min_cell_size)
        return CellSums(len(measure), masses, offsets, squares, overlap, dual, soft, smallest)

    def check(self, reply: CellSums) -> None:
        require(reply.offsets.shape == self.atoms.shape, "it is about different atoms.")
        # |mean of x - z|^2 is never above the mean of |x - z|^2, and a plan never costs less than
        # the dual value.
        divisors = np.where(reply.masses > 0, reply.masses, 1.0)  # no division by an empty cell
        largest_norm = float(
            np.abs(self.atoms - self.atoms[0]).max() + np.sqrt((reply.squares / divisors).max())
        )
        lengths = np.sqrt((reply.offsets**2).sum(axis=1))
        limits = np.sqrt(reply.masses * reply.squares) * (1 + 1e-6) + _ROUNDING * largest_norm
        require(bool((lengths <= limits).all()), "its sums contradict each other.")
        primal = float(reply.squares.sum() - reply.masses @ self.potentials)
        scale = float(reply.squares.sum() + np.abs(self.potentials).max())
        require(
            reply.dual is None or reply.dual <= primal + _ROUNDING * scale,
            "its dual value is above its plan.",
        )


def _plain_array(array: Any) -> Floats:
    if type(array) is not np.ndarray or array.dtype != np.float64:
        raise InputError(f"A {type(array).__name__} came where an array of numbers was expected.")
    return np.array(array)


def _fractions(
    reduced: Floats, reg: float, weights: Floats, min_size: int
) -> tuple[Floats, float, int, bool]:
    """Fractions (n, S) for the `reduced` costs (n, S), the soft dual value, the effective number of
    samples in the smallest cell that is not empty, and whether a cell was removed.

    While a cell holds fewer samples than `min_size`, the smallest is removed and its samples go to
    their next best cells. This is a different plan, of slightly higher cost, in which no sum is
    over few samples. One cell always stays.
    """
    fractions = np.zeros_like(reduced)
    cells = np.arange(reduced.shape[1])
    while True:
        cell_fractions, softmin = _soft(reduced[:, cells], reg)
        counts = _effective(weights[:, None] * cell_fractions)
        used = np.flatnonzero(counts > 0)
        smallest = used[counts[used].argmin()]
        if counts[smallest] >= min_size - _ROUNDING or len(used) == 1:
            fractions[:, cells] = cell_fractions
            removed = len(cells) < reduced.shape[1]
            min_count = int(counts[smallest] + _ROUNDING)
            return fractions, float(weights @ softmin), min_count, removed
        cells = np.delete(cells, smallest)


def _dual(reduced: Floats, soft: float, weights: Floats, min_size: int) -> float:
    """The dual value over all atoms, or the soft one, which is never above it, if a cell is small.

    The dual value is a sum over the cells without regularisation, so each cell that is not empty
    needs at least `min_size` samples. Otherwise a server could choose atoms for which only a few
    samples change the value.
    """
    hard, minimum = _soft(reduced, 0.0)
    counts = _effective(weights[:, None] * hard)
    large = bool(((counts == 0) | (counts >= min_size - _ROUNDING)).all())
    return float(weights @ minimum) if large else soft


def _overlap(weighted: Floats, fractions: Floats, min_size: int) -> Floats:
    """The mass that two cells share. Where fewer than `min_size` samples make it up, it is set to
    zero and added to the diagonal, as if each cell had it alone."""
    overlap = weighted.T @ fractions
    squares = (weighted**2).T @ (fractions**2)
    few = (overlap > 0) & (overlap**2 < (min_size - _ROUNDING) * squares)
    np.fill_diagonal(few, False)
    hidden = np.where(few, overlap, 0.0)
    return np.asarray(overlap - hidden + np.diag(hidden.sum(axis=1)))


def _soft(reduced: Floats, reg: float) -> tuple[Floats, Floats]:
    """The fractions of each sample, and its soft minimum of the reduced costs."""
    minimum = reduced.min(axis=1)
    if reg == 0:
        fractions = np.zeros_like(reduced)
        fractions[np.arange(len(reduced)), reduced.argmin(axis=1)] = 1.0
        return fractions, minimum
    with np.errstate(under="ignore", over="ignore"):
        fractions = np.exp(-(reduced - minimum[:, None]) / reg)
    total = fractions.sum(axis=1)
    fractions /= total[:, None]
    fractions[fractions < _SMALLEST_FRACTION] = 0.0
    fractions /= fractions.sum(axis=1, keepdims=True)
    return np.asarray(fractions), minimum - reg * np.log(total)


def _effective(weighted: Floats) -> Floats:
    """Kish's effective number of samples in each cell, 0 for an empty one."""
    heaviest = weighted.max(axis=0)
    relative = weighted / np.where(heaviest > 0, heaviest, 1.0)
    squares = (relative**2).sum(axis=0)
    return np.asarray(relative.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0))
