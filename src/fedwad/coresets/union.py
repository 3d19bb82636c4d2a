"""The coreset of the union of the sites: the server moves atoms and potentials, sites send sums."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fedwad.coresets.result import CoresetRound, Learned
from fedwad.federation import AtomsRequest, CellSums, MeteredFederation
from fedwad.statistics import Masses
from fedwad.transport import Floats, Measure, Plan, ground_cost, solve


def smallest(*sizes: int | None) -> int | None:
    """Return the smallest of the sizes that are known."""
    return min((size for size in sizes if size is not None), default=None)


def draw_sites(names: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    """Return so many random sites in the order of `names`, or all if they are not more."""
    chosen = rng.choice(len(names), min(count, len(names)), replace=False)
    return [names[k] for k in sorted(chosen.tolist())]


@dataclass(frozen=True, eq=False)
class Cells:
    """The sites' replies to one request, averaged with each site's number of samples as weight.

    All bounds are about the distance between mu, the union of the samples of the sites that
    answered, and nu = sum_s b_s dirac(z_s), with the atoms z and masses b.

    Attributes
    ----------
    request : the atoms z, the potentials g and the regularisation `reg` that the sites received
    weights : the masses b that the atoms shall have
    masses, offsets, squares, overlap : means over sites, see `CellSums`
    dual : mean over sites, see `CellSums`; minus infinity if a site withheld it
    min_cell_size : number of samples in the smallest cell of any site
    rounding : largest W2 between the union and the moved samples that the sums are about
    """

    request: AtomsRequest
    weights: Floats
    masses: Floats
    offsets: Floats
    squares: Floats
    overlap: Floats
    dual: float
    min_cell_size: int
    rounding: float = 0.0

    @classmethod
    def of(
        cls, request: AtomsRequest, replies: Mapping[str, CellSums], weights: Floats | None
    ) -> Cells:
        """Average the replies; without `weights` each atom gets the mass of its cell.

        They are added in the order of what they hold, whatever the order of the sites.
        """
        ordered = sorted(replies.values(), key=_content)
        counts = np.array([one.count for one in ordered], dtype=np.float64)
        site_weights = counts / counts.sum()
        weighted = list(zip(site_weights, ordered, strict=True))
        duals = [-math.inf if one.dual is None else w * one.dual for w, one in weighted]
        masses = np.asarray(sum(weight * one.masses for weight, one in weighted))
        masses = np.asarray(masses / masses.sum())
        return cls(
            request=request,
            weights=masses if weights is None else weights,
            masses=masses,
            offsets=np.asarray(sum(weight * one.offsets for weight, one in weighted)),
            squares=np.asarray(sum(weight * one.squares for weight, one in weighted)),
            overlap=np.asarray(sum(weight * one.overlap for weight, one in weighted)),
            dual=math.fsum(duals),
            min_cell_size=min(one.min_cell_size for _, one in weighted),
            rounding=math.sqrt(math.fsum(weight * one.rounding**2 for weight, one in weighted)),
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
        return math.sqrt(self.within + self._repair.cost) + self.rounding

    @cached_property
    def within(self) -> float:
        """Sum over cells of mass times variance."""
        lengths = (self.offsets**2).sum(axis=1)
        divisor = np.where(self.masses > 0, self.masses, 1.0)
        return float(np.maximum(self.squares - lengths / divisor, 0.0).sum())

    @cached_property
    def means(self) -> Floats:
        """Mean of each cell, (S, d); of an empty cell, its atom."""
        divisor = np.where(self.masses > 0, self.masses, 1.0)
        return np.asarray(self.request.atoms + self.offsets / divisor[:, None])

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
        if not math.isfinite(self.dual):
            return 0.0
        excess = float(self.squares.sum() - self.masses @ self.request.potentials) - self.dual
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

    def soft_dual_since(self, before: Cells) -> float:
        """By how much the soft dual value, which optimal potentials maximise, has risen.

        Its gradient in g is b - m, and the mean of both gradients along the step tells it.
        """
        slope = self.weights - 0.5 * (self.masses + before.masses)
        return float(slope @ (self.request.potentials - before.request.potentials))

    def better_potentials(
        self, max_step: float = 5.0, almost_empty: float = 1e-2
    ) -> tuple[Floats, bool]:
        """Return potentials after a Newton step, and whether the step was cut.

        A step is at most `max_step` times `reg` in each potential.

        The soft dual value is concave in g, with gradient b - m for the masses m of the cells. The
        overlaps give the derivative of these: dm/dg = (diag(m) - overlap) / reg. A cell with less
        than the part `almost_empty` of its atom's mass has no reliable derivative, and takes the
        longest step.
        """
        missing = self.weights - self.masses
        values, vectors = np.linalg.eigh(np.diag(self.masses) - self.overlap)
        along = vectors.T @ missing
        # The derivative vanishes between groups of cells that share almost no mass.
        steps = np.divide(
            along, values, out=np.sign(along) * max_step, where=values > np.abs(along) / max_step
        )
        step = vectors @ np.where(np.abs(along) > 1e-13, steps, 0.0)  # else rounding
        largest = float(np.abs(step).max(initial=0.0))
        if largest > max_step:
            step *= max_step / largest
        empty = self.masses < almost_empty * self.weights
        step[empty] = max_step
        potentials = self.request.potentials + self.request.reg * step
        was_cut = largest >= max_step or bool(empty.any())
        return np.asarray(potentials - self.weights @ potentials), was_cut


def _content(reply: CellSums) -> tuple[int, bytes, bytes]:
    return reply.count, reply.masses.tobytes(), reply.offsets.tobytes()


@dataclass(frozen=True, eq=False)
class InitialAtoms:
    """First atoms (S, d) and potentials (S,), which are zero if None.

    `scale` is an estimate of W2^2 between the atoms and the union of all samples; 0 if unknown, and
    then the first round has no regularisation. `min_cell_size` is the smallest cell of which sites
    sent the mean before; None if they sent none. `names` are the sites in an order that depends on
    what they sent, if they sent anything.
    """

    atoms: Floats
    potentials: Floats | None = None
    scale: float = 0.0
    min_cell_size: int | None = None
    names: tuple[str, ...] = ()


@dataclass(eq=False)
class UnionSolver:
    """Atoms z and potentials g; each round asks sites for the masses and sums of the atoms' cells.

    Parameters
    ----------
    metered : the federation
    names : sites to ask
    start : where to begin; atoms and potentials move in each round
    rng : generator for the choice of sites and for moving coinciding atoms apart
    masses : those that the atoms shall have, "equal", or "free": each that of its cell (k-means)
    tol : largest relative gap between the bounds, and largest gain, at which rounds end
    callback : called with each round
    first_reg, smallest_reg : the first and the smallest regularisation, as fractions of the cost
        W2^2; rounding shows below the smallest
    over_relaxation : length of an atom's step, in units of the distance to its better place

    Attributes
    ----------
    atoms, potentials : the present ones
    weights : the masses that the atoms shall have; None if they are free
    history : the rounds
    best : the atoms with the smallest upper bound so far; None before all sites were asked
    converged : whether `tol` was met
    min_cell_size : number of samples in the smallest cell of any reply
    """

    metered: MeteredFederation
    names: tuple[str, ...]
    start: InitialAtoms
    rng: np.random.Generator
    masses: Masses = "equal"
    tol: float = 1e-4
    callback: Callable[[CoresetRound], None] | None = None
    first_reg: float = 0.02
    smallest_reg: float = 1e-9
    over_relaxation: float = 1.5
    history: list[CoresetRound] = field(default_factory=list)
    best: Learned | None = None
    converged: bool = False
    _done: bool = False
    _best_cells: Cells | None = None  # replies at the present atoms, for the best potentials so far

    def __post_init__(self) -> None:
        start, size = self.start, len(self.start.atoms)
        self.atoms, self.min_cell_size = start.atoms, start.min_cell_size
        self.potentials = np.zeros(size) if start.potentials is None else start.potentials
        self.weights = np.full(size, 1 / size) if self.masses == "equal" else None
        self._reg = 0.0 if self.weights is None else self.first_reg * start.scale

    def run(self, rounds: int, clients_per_round: int | None, last: int = 3) -> Learned:
        """Run at most `rounds` rounds, and return the best atoms.

        With `clients_per_round`, the first three quarters of the rounds ask that many random sites
        each. Then atoms stay, and the other rounds ask all sites. Without it atoms stay in the
        `last` rounds.
        """
        moving_rounds = rounds if rounds <= last else rounds - last
        if clients_per_round is not None and clients_per_round < len(self.names):
            moving_rounds = 0
            while len(self.history) < 3 * rounds // 4:
                chosen = draw_sites(self.names, clients_per_round, self.rng)
                self._round(chosen, atoms_may_move=True, all_sites=False)
        while len(self.history) < rounds and not self._done:
            self._round(self.names, atoms_may_move=len(self.history) < moving_rounds)
        return self._learned()

    def certify(self, rounds: int) -> Learned:
        """Certify the atoms as they are in at most `rounds` more rounds."""
        for _ in range(rounds):
            self._round(self.names, atoms_may_move=False)
            if self._done:
                break
        return self._learned()

    def _learned(self) -> Learned:
        assert self.best is not None, "the last rounds ask all sites"  # noqa: S101
        history, size = tuple(self.history), self.min_cell_size
        return replace(self.best, history=history, converged=self.converged, min_cell_size=size)

    def _round(self, names: Sequence[str], atoms_may_move: bool, all_sites: bool = True) -> None:
        """Ask these sites, update the best atoms if they are all sites, and move.

        A site that fails is not asked again.
        """
        started = time.perf_counter()
        request = AtomsRequest(self.atoms, self.potentials, self._reg)
        requests = dict.fromkeys(names, request)
        replies = self.metered.ask(requests, CellSums, allow_failures=True)
        failed = [name for name in names if name not in replies]
        if failed:
            self.names = tuple(name for name in self.names if name not in failed)
            self.best = None  # its bounds are about a union with the sites that failed
        cells = Cells.of(request, replies, self.weights)
        self.min_cell_size = smallest(cells.min_cell_size, self.min_cell_size)
        if all_sites:
            self._update_best(cells, tuple(replies))
            # The gain of free weights converges slowly.
            gain_tol = self.tol * (1.0 if self.weights is not None else 0.1)
            certain, at_rest = cells.gap <= self.tol, cells.gain <= gain_tol
            self.converged = certain and at_rest
            self._done = certain and (at_rest or not atoms_may_move)
        shift = 0.0
        if not self._done:
            self._advance(cells, atoms_may_move, all_sites)
            self._done = (  # the next request would repeat this one
                all_sites
                and np.array_equal(self.atoms, request.atoms)
                and np.array_equal(self.potentials, request.potentials)
                and self._reg == request.reg
            )
            moved = ((self.atoms - request.atoms) ** 2).sum(axis=1)
            shift = float(np.sqrt(cells.weights @ moved))
        record = CoresetRound(
            number=len(self.history) + 1,
            seconds=time.perf_counter() - started,
            loss=cells.upper,
            shift=shift,
            sites=len(replies),
            lower=min(cells.lower, cells.upper),
            upper=cells.upper,
        )
        self.history.append(record)
        if self.callback is not None:
            self.callback(record)

    def _update_best(self, cells: Cells, answered: tuple[str, ...]) -> None:
        """Keep the atoms with the smallest upper bound, and the best bounds for these atoms."""
        atoms, weights, lower, upper = cells.request.atoms, cells.weights, cells.lower, cells.upper
        best = self.best
        if best is not None and best.atoms is atoms and np.array_equal(best.weights, weights):
            lower, upper = max(lower, best.lower), min(upper, best.upper)
        elif best is not None and best.upper <= upper:
            return
        self.best = Learned(atoms, weights, min(lower, upper), upper, answered)

    def _advance(self, cells: Cells, atoms_may_move: bool, all_sites: bool) -> None:
        """Improve the potentials, move the atoms if the plan is good enough, adapt `reg`.

        The regularisation is raised if a step of potentials was cut, and lowered if it causes most
        of the gap. If only some sites are asked, half a step is taken. A step after which the soft
        dual value is lower (values of different `reg` are not comparable) is mostly taken back.
        """
        cost, request = cells.upper**2, cells.request
        if self.weights is None:
            if atoms_may_move:
                self._move_atoms(cells, cells.means, self.over_relaxation)
            return
        if self._reg < self.smallest_reg * cost:
            # Without regularisation, masses have no derivative in the potentials.
            self._reg = self.first_reg * cost
            return
        if not all_sites:
            rate = max(len(self.names) ** -0.5, 1 / (1 + len(self.history)))
            step = cells.better_potentials()[0] - request.potentials
            self.potentials = request.potentials + 0.5 * step
            self._move_atoms(cells, cells.better_atoms, rate)
            return
        best = self._best_cells
        comparable = best is not None and best.request.reg == request.reg
        if best is not None and comparable and cells.soft_dual_since(best) < -1e-12 * cost:
            start = best.request.potentials
            self.potentials = start + 0.3 * (self.potentials - start)
            return
        self._best_cells = cells
        self.potentials, was_cut = cells.better_potentials()
        if atoms_may_move and cells.gap <= 3.0 * cells.gain and cells.gain > 0:
            self._move_atoms(cells, cells.better_atoms, self.over_relaxation)
            self._best_cells = None
        if was_cut:
            between = float(ground_cost(self.atoms, self.atoms).max())
            self._reg = min(self._reg * 3.0, max(self.first_reg * cost, 0.25 * between))
        elif cells.gap - cells.blur < cells.blur:
            self._reg = max(self._reg * 0.25, 2 * self.smallest_reg * cost)

    def _move_atoms(self, cells: Cells, targets: Floats, rate: float) -> None:
        """Move each atom by `rate` times the way to its target.

        Coinciding atoms would have the same cell for ever, so they are moved apart by a tenth of
        the standard deviation within cells. With free weights, atoms of empty cells are moved next
        to the atoms whose cells cost most.
        """
        atoms = np.array(self.atoms + rate * (targets - self.atoms))
        scale = float(np.sqrt(cells.within / atoms.shape[1]))
        if scale > 0:
            if self.weights is None:
                empty = np.flatnonzero(cells.masses == 0)
                costly = np.argsort(-cells.squares)[np.arange(len(empty)) % len(atoms)]
                atoms[empty] = atoms[costly]
            near = ground_cost(atoms, atoms) <= 1e-12 * cells.upper**2
            close = np.flatnonzero(np.tril(near, -1).any(axis=1))
            atoms[close] += 0.1 * scale * self.rng.standard_normal((len(close), atoms.shape[1]))
        self.atoms = atoms
