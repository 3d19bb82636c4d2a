"""The coreset of the union of the clients: atoms and potentials on the server, sums from the
clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedwad._coreset.cells import Cells
from fedwad._coreset.result import CoresetRound
from fedwad.federation import AtomsRequest, CellSums, MeteredFederation
from fedwad.ot import Floats, ground_cost

__all__ = ["Certified", "Union"]

_SOFTEST = (
    0.02  # softness to begin with, as a share of the cost W2^2; below _FINEST of it rounding shows
)
_FINEST = 1e-9
_LONGEST = 5.0  # step of a potential, in units of the softness
_SHARPEN, _BLUNT = 0.25, 3.0
_BLUNTEST = 0.25  # softness at most, as a share of the largest squared distance between atoms
_ENOUGH = 3.0  # atoms move once the gap is below so many times what moving gains
_BEYOND = 1.5  # how far atoms move, in units of the way to their cell's mean
_BACK = 0.3  # part of a step of potentials that is kept when it made the soft dual value worse
_K_MEANS = 0.1  # free weights come to rest slowly: so much less must be gained
_LAST_ROUNDS = 3  # in which atoms stay and only potentials are settled
_NOISY = 0.5  # step of potentials when only part of the clients answer
_APART = 1e-12
_ROUNDING = 1e-12
_JITTER = 0.1


@dataclass(frozen=True, eq=False)
class Certified:
    """Atoms whose distance from the union is known to lie between lower and upper."""

    atoms: Floats
    weights: Floats
    lower: float
    upper: float
    clients: tuple[str, ...]

    @property
    def value(self) -> float:
        """The dual value is flat around its best potentials, the cost of the plan is not: lower is
        the better guess."""
        return self.lower


@dataclass(eq=False)
class Union:
    """Atoms z and potentials g; each round asks all clients, or some, what falls to the atoms.

    Parameters
    ----------
    weights : the masses that the atoms shall have; None for those that their cells happen to have
        (k-means)
    gap : move atoms only when the bounds on the squared distance are closer than this fraction;
        None decides by what moving would gain
    scale : about W2^2 where that is known from the seeding; otherwise the first round is asked
        without softness
    """

    line: MeteredFederation
    names: tuple[str, ...]
    atoms: Floats
    potentials: Floats
    weights: Floats | None
    rng: np.random.Generator
    scale: float = 0.0
    gap: float | None = None
    tol: float = 1e-4
    callback: Callable[[CoresetRound], None] | None = None
    history: list[CoresetRound] = field(default_factory=list)
    best: Certified | None = None
    converged: bool = False
    min_cell_size: int | None = None
    _softness: float = 0.0
    _done: bool = False
    _steady: Cells | None = (
        None  # the last potentials at these atoms that were better than those before
    )

    def __post_init__(self) -> None:
        self._softness = 0.0 if self.weights is None else _SOFTEST * self.scale

    def run(self, rounds: int, clients_per_round: int | None) -> Certified:
        """At most so many rounds of messages; with `clients_per_round`, random clients until the
        last few, which ask all."""
        partial = clients_per_round is not None and clients_per_round < len(self.names)
        moving = 3 * rounds // 4 if partial else max(0, rounds - _LAST_ROUNDS)
        while len(self.history) < rounds and not self._done:
            number = len(self.history)
            if partial and number < moving:
                self._round(self._some(clients_per_round or 1), may_move=True, all_of_them=False)
            else:
                self._round(
                    self.names, may_move=not partial and (number < moving or rounds <= _LAST_ROUNDS)
                )
        assert self.best is not None, "the last rounds ask all clients"  # noqa: S101
        return self.best

    def settle(self, rounds: int) -> Certified:
        """Only certify the atoms as they are, in at most so many rounds, which do not enter the
        history."""
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
            clients=len(answered),
            lower=min(cells.lower, cells.upper),
            upper=cells.upper,
        )
        self.history.append(record)
        if self.callback is not None:
            self.callback(record)

    @property
    def _reach(self) -> float:
        return _BEYOND if self.gap is None else 1.0

    def _asks_the_same(self, before: AtomsRequest) -> bool:
        """Whether the next question would be the last one again, which nobody needs to answer
        twice."""
        same = np.array_equal(self.atoms, before.atoms) and np.array_equal(
            self.potentials, before.potentials
        )
        return same and self._softness == before.softness

    def _ask(self, names: Sequence[str]) -> tuple[Cells, tuple[str, ...]]:
        request = AtomsRequest(self.atoms, self.potentials, self._softness)
        replies = self.line.ask(dict.fromkeys(names, request), CellSums, tolerate=True)
        lost = [name for name in names if name not in replies]
        if lost:
            self.names = tuple(name for name in self.names if name not in lost)
            self.best = None  # what was certified is about another union
        return Cells.of(request, replies, self.weights), tuple(replies)

    def _keep(self, cells: Cells, answered: tuple[str, ...]) -> None:
        """Remember the atoms with the smallest upper bound, and the best bounds for those."""
        atoms, weights, lower, upper = cells.asked.atoms, cells.weights, cells.lower, cells.upper
        best = self.best
        if best is not None and best.atoms is atoms and np.array_equal(best.weights, weights):
            lower, upper = max(lower, best.lower), min(upper, best.upper)
        elif best is not None and best.upper <= upper:
            return
        self.best = Certified(atoms, weights, min(lower, upper), upper, answered)

    def _advance(self, cells: Cells, may_move: bool, all_of_them: bool) -> None:
        """Better potentials, better atoms when the plan is good enough for that, and the next
        softness."""
        if self.weights is None:
            if may_move:
                self.atoms = self._spread(
                    cells, self.atoms + self._reach * (cells.means - self.atoms)
                )
            return
        if (
            self._softness < _FINEST * cells.upper**2
        ):  # what was asked with next to no softness tells no derivative
            self._softness = _SOFTEST * cells.upper**2
            return
        if not all_of_them:
            rate = max(len(self.names) ** -0.5, 1 / (1 + len(self.history)))
            step = cells.better_potentials(_LONGEST)[0] - cells.asked.potentials
            self.potentials = cells.asked.potentials + _NOISY * step
            self.atoms = self._spread(cells, self.atoms + rate * (cells.better_atoms - self.atoms))
            return
        if self._steady is not None and _is_worse(cells, self._steady):
            back = self._steady.asked.potentials
            self.potentials = back + _BACK * (self.potentials - back)
            return
        self._steady = cells
        self.potentials, cut = cells.better_potentials(_LONGEST)
        enough = cells.gap <= (_ENOUGH * cells.gain if self.gap is None else self.gap)
        if may_move and enough and cells.gain > 0:
            self.atoms = self._spread(
                cells, self.atoms + self._reach * (cells.better_atoms - self.atoms)
            )
            self._steady = None
        self._sharpen(cells, cut)

    def _sharpen(self, cells: Cells, cut: bool) -> None:
        """Less softness once it is what keeps the bounds apart, more when potentials have far to
        go."""
        if cut:
            between = float(ground_cost(self.atoms, self.atoms).max())
            self._softness = min(
                self._softness * _BLUNT, max(_SOFTEST * cells.upper**2, _BLUNTEST * between)
            )
        elif cells.gap - cells.blur < cells.blur:
            self._softness = max(self._softness * _SHARPEN, 2 * _FINEST * cells.upper**2)

    def _spread(self, cells: Cells, atoms: Floats) -> Floats:
        """The atoms, those that fell together or that got nothing put a little apart: together they
        stay together."""
        atoms = np.array(atoms)
        scale = float(np.sqrt(cells.within / atoms.shape[1]))
        if scale == 0:
            return atoms
        empty = (
            np.flatnonzero(cells.masses == 0)
            if self.weights is None
            else np.zeros(0, dtype=np.int64)
        )
        if len(empty):  # beside the atoms that cost most
            atoms[empty] = atoms[np.argsort(-cells.squares)[np.arange(len(empty)) % len(atoms)]]
        near = ground_cost(atoms, atoms) <= _APART * cells.upper**2
        synthetic = np.flatnonzero(np.tril(near, -1).any(axis=1))
        atoms[synthetic] += (
            _JITTER * scale * self.rng.standard_normal((len(synthetic), atoms.shape[1]))
        )
        return atoms


def _is_worse(now: Cells, before: Cells) -> bool:
    """Whether the soft dual value fell; values of different softness do not compare."""
    if now.asked.softness != before.asked.softness:
        return False
    return now.height < before.height - _ROUNDING * (abs(before.height) + before.upper**2)
