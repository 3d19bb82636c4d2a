"""The coreset of the union of the sites: the server moves atoms and potentials, sites send sums."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedwad._coreset.cells import Cells
from fedwad._coreset.result import CoresetRound
from fedwad._coreset.task import CertifiedAtoms
from fedwad.federation import AtomsRequest, CellSums
from fedwad.ot import Floats, ground_cost

__all__ = ["Ask", "UnionSolver"]

Ask = Callable[[Sequence[str], AtomsRequest], Mapping[str, CellSums]]

_FIRST_REG = 0.02  # first regularisation, as a fraction of the cost W2^2
_SMALLEST_REG = 1e-9  # smallest one, as a fraction of the cost; rounding shows below it
_MAX_STEP = 5.0  # longest step of a potential, in units of the regularisation
_LOWER_REG, _RAISE_REG = 0.25, 3.0  # factors of the regularisation
_LARGEST_REG = 0.25  # largest one, as a fraction of the largest squared distance between atoms
_MOVE_GAP = 3.0  # atoms move once the gap is at most this multiple of the expected gain
_OVER_RELAXATION = 1.5  # length of an atom's step, in units of the distance to its better place
_STEP_BACK = 0.3  # fraction of a step of potentials that is kept when the soft dual value fell
_FREE_WEIGHTS_TOL = 0.1  # factor of `tol` for the gain; free weights converge slowly
_LAST_ROUNDS = 3  # final rounds, in which atoms stay and only potentials move
_PARTIAL_STEP = 0.5  # fraction of a step of potentials that is taken if only some sites are asked
_COINCIDING = 1e-12  # squared distance at which atoms coincide, as a fraction of the cost
_ROUNDING = 1e-12  # relative differences of soft dual values up to this are rounding
_JITTER = 0.1  # random moves of coinciding atoms, in standard deviations within cells


@dataclass(eq=False)
class UnionSolver:
    """Atoms z and potentials g; each round asks sites for the masses and sums of the atoms' cells.

    Atoms move when the gap between the bounds is at most three times the expected gain, with
    over-relaxation 1.5.

    Parameters
    ----------
    ask : function that sends one request to the named sites and returns the replies of those that
        answer
    names : sites to ask
    atoms, potentials : where to begin; they move in each round
    weights : the masses that the atoms shall have; None gives each atom the mass of its cell
        (k-means)
    rng : generator for the choice of sites and for moving coinciding atoms apart
    scale : an estimate of W2^2 at the first atoms; 0 if unknown, and then the first round has no
        regularisation
    tol : largest relative gap between the bounds, and largest gain, at which rounds end
    callback : called with each round

    Attributes
    ----------
    history : the rounds
    best : the atoms with the smallest upper bound so far; None before all sites were asked
    converged : whether `tol` was met
    min_cell_size : number of samples in the smallest cell of any reply
    """

    ask: Ask
    names: tuple[str, ...]
    atoms: Floats
    potentials: Floats
    weights: Floats | None
    rng: np.random.Generator
    scale: float = 0.0
    tol: float = 1e-4
    callback: Callable[[CoresetRound], None] | None = None
    history: list[CoresetRound] = field(default_factory=list)
    best: CertifiedAtoms | None = None
    converged: bool = False
    min_cell_size: int | None = None
    _reg: float = 0.0
    _done: bool = False
    _best_cells: Cells | None = None  # replies at the present atoms, for the best potentials so far

    def __post_init__(self) -> None:
        self._reg = 0.0 if self.weights is None else _FIRST_REG * self.scale

    def run(self, rounds: int, clients_per_round: int | None) -> CertifiedAtoms:
        """Run at most `rounds` rounds, and return the best atoms.

        With `clients_per_round`, the first three quarters of the rounds ask that many random sites
        each. Then atoms stay, and the other rounds ask all sites.
        """
        moving_rounds = rounds if rounds <= _LAST_ROUNDS else rounds - _LAST_ROUNDS
        if clients_per_round is not None and clients_per_round < len(self.names):
            moving_rounds = 0
            while len(self.history) < 3 * rounds // 4:
                self._round(
                    self._choose_sites(clients_per_round), atoms_may_move=True, all_sites=False
                )
        while len(self.history) < rounds and not self._done:
            self._round(self.names, atoms_may_move=len(self.history) < moving_rounds)
        assert self.best is not None, "the last rounds ask all sites"  # noqa: S101
        return self.best

    def certify(self, rounds: int) -> CertifiedAtoms:
        """Certify the atoms as they are in at most `rounds` rounds, which the history omits."""
        history = list(self.history)
        for _ in range(rounds):
            self._round(self.names, atoms_may_move=False)
            if self._done:
                break
        self.history = history
        assert self.best is not None  # noqa: S101
        return self.best

    def _choose_sites(self, count: int) -> tuple[str, ...]:
        chosen = self.rng.choice(len(self.names), min(count, len(self.names)), replace=False)
        return tuple(self.names[k] for k in sorted(chosen.tolist()))

    def _round(self, names: Sequence[str], atoms_may_move: bool, all_sites: bool = True) -> None:
        """Ask these sites, update the best atoms if they are all sites, and move."""
        started = time.perf_counter()
        cells, answered = self._ask(names)
        self.min_cell_size = min(cells.min_cell_size, self.min_cell_size or cells.min_cell_size)
        if all_sites:
            self._update_best(cells, answered)
            gain_tol = self.tol * (1.0 if self.weights is not None else _FREE_WEIGHTS_TOL)
            certain, at_rest = cells.gap <= self.tol, cells.gain <= gain_tol
            self.converged = certain and at_rest
            self._done = certain and (at_rest or not atoms_may_move)
        shift = 0.0
        if not self._done:
            before = self.atoms
            self._advance(cells, atoms_may_move, all_sites)
            self._done = all_sites and self._would_repeat(cells.request)
            shift = float(np.sqrt(cells.weights @ ((self.atoms - before) ** 2).sum(axis=1)))
        record = CoresetRound(
            number=len(self.history) + 1,
            seconds=time.perf_counter() - started,
            loss=cells.upper,
            shift=shift,
            sites=len(answered),
            lower=min(cells.lower, cells.upper),
            upper=cells.upper,
        )
        self.history.append(record)
        if self.callback is not None:
            self.callback(record)

    def _would_repeat(self, last: AtomsRequest) -> bool:
        """Whether the next request would repeat the last one."""
        return (
            np.array_equal(self.atoms, last.atoms)
            and np.array_equal(self.potentials, last.potentials)
            and self._reg == last.reg
        )

    def _ask(self, names: Sequence[str]) -> tuple[Cells, tuple[str, ...]]:
        """Return the averaged replies, and the sites that answered; others are not asked again."""
        request = AtomsRequest(self.atoms, self.potentials, self._reg)
        replies = self.ask(names, request)
        failed = [name for name in names if name not in replies]
        if failed:
            self.names = tuple(name for name in self.names if name not in failed)
            self.best = None  # its bounds are about a union with the sites that failed
        return Cells.of(request, replies, self.weights), tuple(replies)

    def _update_best(self, cells: Cells, answered: tuple[str, ...]) -> None:
        """Keep the atoms with the smallest upper bound, and the best bounds for these atoms."""
        atoms, weights, lower, upper = cells.request.atoms, cells.weights, cells.lower, cells.upper
        best = self.best
        if best is not None and best.atoms is atoms and np.array_equal(best.weights, weights):
            lower, upper = max(lower, best.lower), min(upper, best.upper)
        elif best is not None and best.upper <= upper:
            return
        self.best = CertifiedAtoms(atoms, weights, min(lower, upper), upper, answered)

    def _advance(self, cells: Cells, atoms_may_move: bool, all_sites: bool) -> None:
        """Improve the potentials, move the atoms if the plan is good enough, adapt `reg`."""
        if self.weights is None:
            if atoms_may_move:
                self._move_atoms(cells, cells.means, _OVER_RELAXATION)
            return
        if self._reg < _SMALLEST_REG * cells.upper**2:
            # Without regularisation, masses have no derivative in the potentials.
            self._reg = _FIRST_REG * cells.upper**2
            return
        if not all_sites:
            rate = max(len(self.names) ** -0.5, 1 / (1 + len(self.history)))
            step = cells.better_potentials(_MAX_STEP)[0] - cells.request.potentials
            self.potentials = cells.request.potentials + _PARTIAL_STEP * step
            self._move_atoms(cells, cells.better_atoms, rate)
            return
        if self._best_cells is not None and _soft_dual_fell(cells, self._best_cells):
            best = self._best_cells.request.potentials
            self.potentials = best + _STEP_BACK * (self.potentials - best)
            return
        self._best_cells = cells
        self.potentials, was_cut = cells.better_potentials(_MAX_STEP)
        if atoms_may_move and cells.gap <= _MOVE_GAP * cells.gain and cells.gain > 0:
            self._move_atoms(cells, cells.better_atoms, _OVER_RELAXATION)
            self._best_cells = None
        self._adapt_reg(cells, was_cut)

    def _adapt_reg(self, cells: Cells, step_was_cut: bool) -> None:
        """Lower the regularisation if it causes most of the gap; raise it if a step was cut."""
        if step_was_cut:
            between = float(ground_cost(self.atoms, self.atoms).max())
            self._reg = min(
                self._reg * _RAISE_REG, max(_FIRST_REG * cells.upper**2, _LARGEST_REG * between)
            )
        elif cells.gap - cells.blur < cells.blur:
            self._reg = max(self._reg * _LOWER_REG, 2 * _SMALLEST_REG * cells.upper**2)

    def _move_atoms(self, cells: Cells, targets: Floats, rate: float) -> None:
        """Move each atom by `rate` times the way to its target.

        Coinciding atoms would have the same cell for ever, so they are moved a little apart. With
        free weights, atoms of empty cells are moved next to the atoms whose cells cost most.
        """
        atoms = np.array(self.atoms + rate * (targets - self.atoms))
        scale = float(np.sqrt(cells.within / atoms.shape[1]))
        if scale > 0:
            if self.weights is None:
                empty = np.flatnonzero(cells.masses == 0)
                costly = np.argsort(-cells.squares)[np.arange(len(empty)) % len(atoms)]
                atoms[empty] = atoms[costly]
            near = ground_cost(atoms, atoms) <= _COINCIDING * cells.upper**2
            close = np.flatnonzero(np.tril(near, -1).any(axis=1))
            atoms[close] += _JITTER * scale * self.rng.standard_normal((len(close), atoms.shape[1]))
        self.atoms = atoms


def _soft_dual_fell(now: Cells, before: Cells) -> bool:
    """Whether the soft dual value fell; values of different `reg` are not comparable."""
    if now.request.reg != before.request.reg:
        return False
    return now.soft_dual < before.soft_dual - _ROUNDING * (abs(before.soft_dual) + before.upper**2)
