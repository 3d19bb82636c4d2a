"""k-means cells of one client's samples.

The client's Wasserstein coreset starts from them; its atoms are the means of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.transport.costs import ground_cost
from fedwad.transport.labels import samples_of
from fedwad.transport.measures import Floats, Indices, Measure, row_slices
from fedwad.transport.solving import solve

#: Whether all atoms have equal weight, or each the weight of its nearest samples.
Masses = Literal["equal", "free"]
#: Whether classes are distilled one by one, or all samples together.
AtomsPer = Literal["class", "site"]

_ROUNDING = 1e-9  # of numbers of samples


def kmeans_cells(
    measure: Measure,
    cells: int,
    min_size: int = 10,
    seed: int = 0,
    counted: Counted | None = None,
    iterations: int = 25,
    sampled: int = 4096,
) -> Indices:
    """Label each point with one of at most `cells` cells of at least `min_size` points (Kish's
    effective number if weighted), and of what else is `counted`.

    Lloyd's iterations begin with k-means++. Then cells of fewer than `min_size` points are merged
    into the nearest other cell. With fewer than 2 min_size points there is one cell. The same seed
    gives the same labels bit for bit, which threaded k-means implementations do not guarantee.

    Parameters
    ----------
    iterations : at most; cells after 12 or 50 estimate `value` as well
    sampled : points on which centres are found, if there are more, or 200 for each cell if that is
        more; each point is then given to the nearest centre
    """
    points, weights = measure.points, measure.weights
    cells = max(1, min(cells, len(points) // min_size))
    if cells == 1:
        return np.zeros(len(points), dtype=np.int64)
    rng = np.random.default_rng(seed)
    sampled = max(sampled, 200 * cells)
    if len(points) > sampled:
        rows = np.sort(rng.choice(len(points), sampled, replace=False, shuffle=False))
        points, weights = points[rows], weights[rows] / weights[rows].sum()
    middle = points.mean(axis=0)
    near = points - middle
    centres = _plusplus_start(near, weights, cells, rng)
    labels = nearest(near, centres)
    for _ in range(iterations):
        centres = _means(near, weights, labels, centres)
        moved = nearest(near, centres)
        if (moved == labels).all():
            break
        labels = moved
    centres = _means(near, weights, labels, centres)
    if len(measure) > len(points):
        labels = nearest(measure.points, centres, middle)
    return _merge_small(labels, measure.weights, centres, min_size, counted or Counted())


def nearest(points: Floats, centres: Floats, origin: Floats | float = 0.0) -> Indices:
    """The nearest centre of each point - origin, by |c|^2 - 2 x.c; near ties are broken by
    rounding."""
    labels = np.empty(len(points), dtype=np.int64)
    squares = np.einsum("jd,jd->j", centres, centres)
    for block in row_slices(len(points), max(centres.shape)):
        labels[block] = ((points[block] - origin) @ (-2 * centres.T) + squares).argmin(axis=1)
    return labels


def _plusplus_start(
    points: Floats, weights: Floats, cells: int, rng: np.random.Generator
) -> Floats:
    """k-means++: each further centre is drawn with probability proportional to its squared
    distance to the nearest centre."""
    chosen = [int(rng.choice(len(points), p=weights))]
    norms = np.einsum("id,id->i", points, points)
    squares = np.full(len(points), np.inf)
    while len(chosen) < cells:
        last = norms + norms[chosen[-1]] - 2 * (points @ points[chosen[-1]])
        np.minimum(squares, np.maximum(last, 0.0), out=squares)
        squares[chosen[-1]] = 0.0
        chances = weights * squares
        total = chances.sum()
        if not total > 0:  # fewer distinct points than cells
            break
        chosen.append(int(rng.choice(len(points), p=chances / total)))
    return points[chosen]


def _means(points: Floats, weights: Floats, labels: Indices, centres: Floats) -> Floats:
    """Mean of each cell; an empty cell keeps its centre."""
    mass = np.bincount(labels, weights, len(centres))[:, None]
    sums = group_sums(weights[:, None] * points, labels, len(centres))
    return np.where(mass > 0, sums / np.where(mass > 0, mass, 1.0), centres)


def cell_sums(
    points: Floats, weights: Floats, labels: Indices, groups: int, origin: Floats
) -> Floats:
    """Sums of weight times (point - origin) by label, shape (groups, d), without a copy of all
    points."""
    sums = np.zeros((groups, points.shape[1]))
    for block in row_slices(*points.shape):
        sums += group_sums(weights[block, None] * (points[block] - origin), labels[block], groups)
    return sums


def group_sums(values: Floats, labels: Indices, groups: int) -> Floats:
    """Sums of the rows of `values` by label, shape (groups, d)."""
    from scipy.sparse import csc_array

    ends = np.arange(len(labels) + 1)
    indicator = csc_array((np.ones(len(labels)), labels, ends), shape=(groups, len(labels)))
    return np.asarray(indicator @ values)


def effective_counts(labels: Indices, mass: Floats, groups: int = 0) -> Floats:
    """Kish's effective number of samples in each cell: (sum of masses)^2 / (sum of squares), 0 for
    an empty cell."""
    if mass.min() == mass.max():
        return np.bincount(labels, minlength=groups).astype(np.float64)
    groups = max(groups, int(labels.max()) + 1)
    heaviest = np.zeros(groups)  # of each cell, so that no square vanishes
    np.maximum.at(heaviest, labels, mass)
    share = mass / heaviest[labels]
    sums, squares = np.bincount(labels, share, groups), np.bincount(labels, share**2, groups)
    return np.asarray(sums**2 / np.where(squares > 0, squares, 1.0))


def effective_count(weights: Floats) -> int:
    """Kish's effective number of rows, rounded, at least 1."""
    return max(1, round(float(effective_counts(np.zeros(len(weights), np.int64), weights)[0])))


@dataclass(frozen=True, eq=False)
class Counted:
    """What a minimum counts in a cell besides rows.

    Attributes
    ----------
    present : bool array (n, c) or None
        Where columns that may have missing values have one. A missing value is 0, so the mean of a
        cell with one value of a column would tell it.
    units : array (n,) or None
        The unit, such as a patient, of each row.
    """

    present: NDArray[np.bool_] | None = None
    units: NDArray[np.int64] | None = None

    def of(self, rows: Any) -> Counted:
        """The same for some of the rows."""
        return Counted(
            None if self.present is None else self.present[rows],
            None if self.units is None else self.units[rows],
        )

    def counts(self, labels: Indices, mass: Floats) -> Floats:
        """For each cell the smallest effective number of rows, of the present values of a column,
        and of different units; a column without any value in a cell does not count, and an empty
        cell has infinitely many."""
        groups = int(labels.max()) + 1
        smallest = np.full(groups, np.inf)
        masks: list[Any] = [slice(None)]
        masks += [] if self.present is None else [mask for mask in self.present.T if mask.any()]
        for mask in masks:
            found = [effective_counts(labels[mask], mass[mask], groups)]
            if self.units is not None:
                pairs = np.unique(np.column_stack([labels[mask], self.units[mask]]), axis=0)
                found.append(np.bincount(pairs[:, 0], minlength=groups).astype(np.float64))
            for counts in found:
                smallest = np.minimum(smallest, np.where(counts > 0, counts, np.inf))
        return smallest

    def fewest(self, labels: Indices, mass: Floats) -> int:
        """The smallest of `counts`."""
        return int(self.counts(labels, mass).min() + _ROUNDING)


def _merge_small(
    labels: Indices, weights: Floats, centres: Floats, min_size: int, counted: Counted
) -> Indices:
    """Merge the smallest cell into its nearest neighbour until none is below `min_size`; renumber
    from 0."""
    mass, centres = np.bincount(labels, weights, len(centres)), centres.copy()
    while True:
        counts = counted.counts(labels, weights)
        present = np.flatnonzero(np.isfinite(counts))
        smallest = int(counts.argmin())
        if counts[smallest] >= min_size - _ROUNDING or len(present) == 1:
            return np.asarray(np.searchsorted(present, labels), dtype=np.int64)
        squares = ((centres[present] - centres[smallest]) ** 2).sum(axis=1)
        squares[present == smallest] = np.inf
        home = int(present[squares.argmin()])
        mass[home] += mass[smallest]
        centres[home] += (centres[smallest] - centres[home]) * (mass[smallest] / mass[home])
        labels = np.where(labels == smallest, home, labels)


@dataclass(frozen=True, eq=False)
class Atoms:
    """A coreset.

    Attributes
    ----------
    measure : Measure
        The atoms, each the mean of a cell of samples.
    distance : float
        Root mean square distance of samples from the atom of their cell: W2 between samples and
        atoms, or more if k-means has not converged or small cells were merged.
    min_cell_size : int
        Samples in the smallest cell (Kish's effective number if they are weighted).
    """

    measure: Measure
    distance: float
    min_cell_size: int


@dataclass(frozen=True, eq=False)
class LabelledAtoms:
    """Coresets of a client with the class of each atom.

    Attributes
    ----------
    points, weights : arrays (S, d) and (S,)
        The atoms and their masses, sum one.
    codes : array (S,)
        The class of each atom.
    min_cell_size : int
        Fewest samples behind an atom or its label.
    complete : bool
        False if classes with fewer samples than `min_size` were left out.
    """

    points: Floats
    weights: Floats
    codes: NDArray[np.int64]
    min_cell_size: int
    complete: bool


def distil(
    measure: Measure,
    size: int,
    masses: Masses = "equal",
    min_size: int = 1,
    seed: int = 0,
    counted: Counted | None = None,
) -> Atoms:
    """At most `size` atoms z that are close to the samples in W2, each the mean of at least
    `min_size` samples, and of as many units and present values of a column, or of none.

    If an atom has fewer, there are half as many atoms, and so on down to one, whose number is then
    `min_cell_size` of the result, however small.

    With free masses this is k-means. With equal masses 1/S two steps alternate, and neither can
    increase W2: find the exact optimal plan P from the samples to the atoms, and move each atom to
    the mean of its mass, z_s <- S sum_i P_is x_i. The first atoms come from k-means, from which the
    result is closer to the samples, after fewer rounds, than from k-means++. There are fewer than
    `size` atoms if samples are few or repeated.

    Examples
    --------
    >>> sorted(distil(Measure([[0.0], [1.0], [10.0], [11.0]]), 2).measure.points.ravel().tolist())
    [0.5, 10.5]
    """
    while True:
        atoms = _distil(measure, size, masses, min_size, seed, counted or Counted())
        if size == 1 or atoms.min_cell_size >= min_size:
            return atoms
        size //= 2


def _distil(
    measure: Measure, size: int, masses: Masses, min_size: int, seed: int, counted: Counted
) -> Atoms:
    if masses == "free":
        return _atoms_of_cells(measure, kmeans_cells(measure, size, min_size, seed), counted)
    # A sample has at most the largest weight w in a cell of mass 1/S, so the cell averages at least
    # 1 / (S w) samples.
    max_size = int(1 / (min_size * float(measure.weights.max())) + _ROUNDING)
    size = max(1, min(size, max_size))
    if size == 1:
        return _atoms_of_cells(measure, np.zeros(len(measure), dtype=np.int64), counted)
    start = _atoms_of_cells(measure, kmeans_cells(measure, size, 1, seed), Counted())
    plan = solve(measure, Measure(start.measure.points))
    for _ in range(100):  # about 20 are needed
        better = solve(measure, Measure(plan.target_means()), start=plan.g)
        gain = 1 - (better.distance / plan.distance) ** 2 if plan.distance > 0 else 0.0
        if gain <= 0:
            break
        plan = better
        if gain <= 1e-4:
            break
    fewest = counted.of(plan.rows).fewest(plan.cols, plan.mass)
    return Atoms(plan.target, plan.distance, fewest)


def cell_means(points: Floats, mass: Floats, labels: Indices) -> tuple[Floats, Floats]:
    """Mass and mean of each cell; `labels` are the cells of the points."""
    groups = int(labels.max()) + 1
    origin = points[0]  # so that a large common offset costs no digits
    weights = np.asarray(np.bincount(labels, mass, groups), dtype=np.float64)
    sums = group_sums(mass[:, None] * (points - origin), labels, groups)
    return weights, origin + sums / np.where(weights > 0, weights, 1.0)[:, None]


def _atoms_of_cells(measure: Measure, labels: Indices, counted: Counted) -> Atoms:
    """The mean of each cell as an atom; `labels` are the cells of the samples."""
    weights, means = cell_means(measure.points, measure.weights, labels)
    squares = ((measure.points - means[labels]) ** 2).sum(axis=1)
    distance = float(np.sqrt(measure.weights @ squares))
    return Atoms(Measure(means, weights), distance, counted.fewest(labels, measure.weights))


def distil_labelled(
    measure: Measure,
    codes: NDArray[np.int64],
    size: int,
    atoms_per: AtomsPer = "class",
    masses: Masses = "equal",
    min_size: int = 1,
    seed: int = 0,
    counted: Counted | None = None,
) -> LabelledAtoms:
    """Atoms of a client's samples, at most about `size` of them, each with one of its classes.

    atoms_per="class" distils each class by itself, with atoms in proportion to its samples and at
    least one. atoms_per="site" distils all samples together and gives each atom the class of its
    nearest sample, or of most of its `min_size` nearest samples. Classes with fewer samples than
    `min_size` are left out, or have no vote.

    Raises
    ------
    InputError
        If no class has `min_size` samples.
    """
    counted = counted or Counted()
    large = large_classes(measure, codes, min_size, counted.units)
    if not len(large):
        raise InputError(
            f"No class has {min_size} samples, the fewest that an atom may average.", "too-few-rows"
        )
    complete = len(large) > int(codes.max())
    if atoms_per == "site":
        atoms = distil(measure, size, masses, min_size, seed, counted)
        points, weights = atoms.measure.points, atoms.measure.weights
        classes = _nearest_classes(points, measure, codes, large, min_size)
        return LabelledAtoms(points, weights, classes, min(atoms.min_cell_size, min_size), complete)
    mass = np.bincount(codes, measure.weights)[large]
    mass = mass / mass.sum()
    parts = [
        distil(
            samples_of(measure, codes, code),
            int(atoms),
            masses,
            min_size,
            seed,
            counted.of(codes == code),
        )
        for code, atoms in zip(large, _apportion(size, mass), strict=True)
    ]
    weights = np.concatenate(
        [part.measure.weights * of_class for part, of_class in zip(parts, mass, strict=True)]
    )
    return LabelledAtoms(
        points=np.concatenate([part.measure.points for part in parts]),
        weights=weights / weights.sum(),
        codes=np.repeat(large, [len(part.measure) for part in parts]),
        min_cell_size=min(part.min_cell_size for part in parts),
        complete=complete,
    )


def large_classes(
    measure: Measure,
    codes: NDArray[np.int64],
    min_size: int,
    units: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Codes of the classes of at least `min_size` samples (Kish's effective number if weighted), of
    as many different units."""
    counts = Counted(units=units).counts(codes, measure.weights)
    return np.flatnonzero(np.isfinite(counts) & (counts >= min_size - _ROUNDING))


def _apportion(size: int, mass: Floats) -> NDArray[np.int64]:
    """`size` divided in proportion to the masses by largest remainders, with at least one each."""
    quotas = size * mass
    counts = np.maximum(np.floor(quotas + _ROUNDING), 1).astype(np.int64)
    unassigned = max(0, size - int(counts.sum()))
    counts[np.argsort(-(quotas - counts), kind="stable")[:unassigned]] += 1
    return counts


def _nearest_classes(
    atoms: Floats, measure: Measure, codes: NDArray[np.int64], large: NDArray[np.int64], voters: int
) -> NDArray[np.int64]:
    """The most common class among the `voters` nearest samples of each atom.

    In a tie it is the class of the nearest. Only samples of the classes `large` vote.
    """
    may_vote = np.flatnonzero(np.isin(codes, large))
    cost = ground_cost(atoms, measure.points[may_vote])
    order = np.argsort(cost, axis=1, kind="stable")[:, :voters]
    classes = np.empty(len(atoms), dtype=np.int64)
    for atom, votes in enumerate(codes[may_vote][order]):
        tally = np.bincount(votes)
        classes[atom] = votes[np.argmax(tally[votes] == tally.max())]
    return classes
