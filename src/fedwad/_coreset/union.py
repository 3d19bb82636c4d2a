"""The coreset of the union of the sites: the server holds atoms and potentials, sites send sums."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedwad._coreset.cells import Cells
from fedwad._coreset.result import CoresetRound
from fedwad._coreset.task import Certified
from fedwad.federation import AtomsRequest, CellSums
from fedwad.ot import Floats, ground_cost

__all__ = ["Ask", "UnionSolver"]

Ask = Callable[[Sequence[str], AtomsRequest], Mapping[str, CellSums]]

_FIRST_REG = 0.02  # first regularisation, as a fraction of the cost W2^2
_SMALLEST_REG = 1e-9  # smallest one, as a fraction of the cost; rounding shows below it
_LONGEST_STEP = 5.0  # longest step of a potential, in units of the regularisation
_LOWER_REG, _RAISE_REG = 0.25, 3.0  # factors of the regularisation
_LARGEST_REG = 0.25  # largest one, as a fraction of the largest squared distance between atoms
_ENOUGH = 3.0  # atoms move once the gap is below this multiple of the expected gain
_OVER_RELAXATION = 1.5  # length of an atom's step, in units of the distance to its cell's mean
_STEP_BACK = 0.3  # fraction of a step of potentials that is kept when the soft dual value fell
_K_MEANS = 0.1  # free weights converge slowly, so their tolerance for the gain is smaller
_LAST_ROUNDS = 3  # final rounds, in which atoms stay and only potentials move
_NOISY = 0.5  # step of potentials when only some sites answer
_APART = 1e-12  # squared distance at which atoms coincide, as a fraction of the cost
_ROUNDING = 1e-12
_JITTER = 0.1  # random moves of coinciding atoms, in standard deviations within cells


@dataclass(eq=False)
class UnionSolver:
    """Atoms z and potentials g; each round asks sites for the masses and sums of the atoms' cells.

    Atoms move when the gap between the bounds is below three times the expected gain, with
    over-relaxation 1.5.

    Parameters
    ----------
    ask : sends one request to the named sites and returns the replies of those that answer
    weights : the masses that the atoms shall have; None gives each atom the mass of its cell
        (k-means)
    scale : an estimate of W2^2 from the seeding; 0 if unknown, and then the first round has no
        regularisation
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
    best: Certified | None = None
    converged: bool = False
    min_cell_size: int | None = None
    _reg: float = 0.0
    _done: bool = False
    _best_cells: Cells | None = None  # at these atoms, for the best potentials so far

    def __post_init__(self) -> None:
        self._reg = 0.0 if self.weights is None else _FIRST_REG * self.scale

    def run(self, rounds: int, clients_per_round: int | None) -> Certified:
        """Run at most `rounds` rounds.

        With `clients_per_round` each round asks random sites; the last ones ask all.
        """
        some = clients_per_round or len(self.names)
        moving = rounds if rounds <= _LAST_ROUNDS else rounds - _LAST_ROUNDS
        if some < len(self.names):
            self._run_partial(rounds, some)
            moving = 0
        while len(self.history) < rounds and not self._done:
            self._round(self.names, may_move=len(self.history) < moving)
        assert self.best is not None, "the last rounds ask all sites"  # noqa: S101
        return self.best

    def _run_partial(self, rounds: int, some: int) -> None:
        """Ask `some` random sites in each of the first three quarters of the rounds."""
        while len(self.history) < 3 * rounds // 4:
            self._round(self._some(some), may_move=True, all_of_them=False)

    def certify(self, rounds: int) -> Certified:
        """Certify the atoms as they are in at most `rounds` rounds, which the history omits."""
        before = list(self.history)
        for _ in range(rounds):
            self._round(self.names, may_move=False)
            if self._done:
                break
        self.history = before
        assert self.best is not None  # noqa: S101
        return self.best

    def _some(self, clients_per_round: int) -> tuple[str, ...]:
        chosen = self.rng.choice(
            len(self.names), min(clients_per_round, len(self.names)), replace=False
        )
        return tuple(self.names[k] for k in sorted(chosen.tolist()))

    def _round(self, names: Sequence[str], may_move: bool, all_of_them: bool = True) -> None:
        since = time.perf_counter()
        cells, answered = self._ask(names)
        self.min_cell_size = min(cells.min_cell_size, self.min_cell_size or cells.min_cell_size)
        if all_of_them:
            self._keep(cells, answered)
            rest = self.tol * (1.0 if self.weights is not None else _K_MEANS)
            certain, at_rest = cells.gap <= self.tol, cells.gain <= rest
            self.converged, self._done = certain and at_rest, certain and (at_rest or not may_move)
        shift = 0.0
        if not self._done:
            before = self.atoms
            self._advance(cells, may_move, all_of_them)
            self._done = all_of_them and self._asks_the_same(cells.asked)
            shift = float(np.sqrt(cells.weights @ ((self.atoms - before) ** 2).sum(axis=1)))
        record = CoresetRound(
            number=len(self.history) + 1,
            seconds=time.perf_counter() - since,
            loss=cells.upper,
            shift=shift,
            sites=len(answered),
            lower=min(cells.lower, cells.upper),
            upper=cells.upper,
        )
        self.history.append(record)
        if self.callback is not None:
            self.callback(record)

    def _asks_the_same(self, before: AtomsRequest) -> bool:
        """Whether the next request would repeat the last one."""
        same = np.array_equal(self.atoms, before.atoms) and np.array_equal(
            self.potentials, before.potentials
        )
        return same and self._reg == before.reg

    def _ask(self, names: Sequence[str]) -> tuple[Cells, tuple[str, ...]]:
        request = AtomsRequest(self.atoms, self.potentials, self._reg)
        replies = self.ask(names, request)
        failed = [name for name in names if name not in replies]
        if failed:
            self.names = tuple(name for name in self.names if name not in failed)
            self.best = None  # it certified the distance to another union
        return Cells.of(request, replies, self.weights), tuple(replies)

    def _keep(self, cells: Cells, answered: tuple[str, ...]) -> None:
        """Keep the atoms with the smallest upper bound, and the best bounds for those."""
        atoms, weights, lower, upper = cells.asked.atoms, cells.weights, cells.lower, cells.upper
        best = self.best
        if best is not None and best.atoms is atoms and np.array_equal(best.weights, weights):
            lower, upper = max(lower, best.lower), min(upper, best.upper)
        elif best is not None and best.upper <= upper:
            return
        self.best = Certified(atoms, weights, min(lower, upper), upper, answered)

    def _advance(self, cells: Cells, may_move: bool, all_of_them: bool) -> None:
        """Improve the potentials, move the atoms if the plan is good enough, set `reg`."""
        if self.weights is None:
            if may_move:
                self.atoms = self._separated(
                    cells, self.atoms + _OVER_RELAXATION * (cells.means - self.atoms)
                )
            return
        if (
            self._reg < _SMALLEST_REG * cells.upper**2
        ):  # without regularisation there is no derivative
            self._reg = _FIRST_REG * cells.upper**2
            return
        if not all_of_them:
            rate = max(len(self.names) ** -0.5, 1 / (1 + len(self.history)))
            step = cells.better_potentials(_LONGEST_STEP)[0] - cells.asked.potentials
            self.potentials = cells.asked.potentials + _NOISY * step
            self.atoms = self._separated(
                cells, self.atoms + rate * (cells.better_atoms - self.atoms)
            )
            return
        if self._best_cells is not None and _is_worse(cells, self._best_cells):
            back = self._best_cells.asked.potentials
            self.potentials = back + _STEP_BACK * (self.potentials - back)
            return
        self._best_cells = cells
        self.potentials, cut = cells.better_potentials(_LONGEST_STEP)
        enough = cells.gap <= _ENOUGH * cells.gain
        if may_move and enough and cells.gain > 0:
            self.atoms = self._separated(
                cells, self.atoms + _OVER_RELAXATION * (cells.better_atoms - self.atoms)
            )
            self._best_cells = None
        self._sharpen(cells, cut)

    def _sharpen(self, cells: Cells, cut: bool) -> None:
        """Lower the regularisation if it causes most of the gap; raise it if a step was cut."""
        if cut:
            between = float(ground_cost(self.atoms, self.atoms).max())
            self._reg = min(
                self._reg * _RAISE_REG, max(_FIRST_REG * cells.upper**2, _LARGEST_REG * between)
            )
        elif cells.gap - cells.blur < cells.blur:
            self._reg = max(self._reg * _LOWER_REG, 2 * _SMALLEST_REG * cells.upper**2)

    def _separated(self, cells: Cells, atoms: Floats) -> Floats:
        """Return the atoms with coinciding and empty ones moved a little apart.

        Coinciding atoms would have the same cell for ever.
        """
        atoms = np.array(atoms)
        scale = float(np.sqrt(cells.within / atoms.shape[1]))
        if scale == 0:
            return atoms
        empty = (
            np.flatnonzero(cells.masses == 0)
            if self.weights is None
            else np.zeros(0, dtype=np.int64)
        )
        if len(empty):  # next to the atoms whose cells cost most
            atoms[empty] = atoms[np.argsort(-cells.squares)[np.arange(len(empty)) % len(atoms)]]
        near = ground_cost(atoms, atoms) <= _APART * cells.upper**2
        close = np.flatnonzero(np.tril(near, -1).any(axis=1))
        atoms[close] += _JITTER * scale * self.rng.standard_normal((len(close), atoms.shape[1]))
        return atoms


def _is_worse(now: Cells, before: Cells) -> bool:
    """Whether the soft dual value fell; values of different `reg` are not comparable."""
    if now.asked.reg != before.asked.reg:
        return False
    return now.soft_dual < before.soft_dual - _ROUNDING * (abs(before.soft_dual) + before.upper**2)
