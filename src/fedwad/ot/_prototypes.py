"""The Wasserstein coreset of one client's samples, class by class or all together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.ot._cells import effective_counts, group_sums, kmeans_cells
from fedwad.ot._cost import ground_cost
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._solve import solve
from fedwad.ot._summary import min_cell_size

__all__ = [
    "Atoms",
    "AtomsPer",
    "LabelledAtoms",
    "Masses",
    "distil",
    "distil_labelled",
    "large_classes",
]

#: Whether all atoms have equal weight, or each the weight of its nearest samples.
Masses = Literal["equal", "free"]
#: Whether classes are distilled one by one, or all samples together.
AtomsPer = Literal["class", "site"]

_MAX_ROUNDS = 100
_CONVERGED = 1e-4  # relative gain of a round in squared distance
_ROUNDING = 1e-9  # of numbers of samples


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
    measure: Measure, size: int, masses: Masses = "equal", min_size: int = 1, seed: int = 0
) -> Atoms:
    """At most `size` atoms z that are close to the samples in W2, each the mean of at least
    `min_size` samples.

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
    if masses == "free":
        return _atoms_of_cells(measure, kmeans_cells(measure, size, min_size, seed))
    # A sample has at most the largest weight w in a cell of mass 1/S, so the cell averages at least
    # 1 / (S w) samples.
    max_size = int(1 / (min_size * float(measure.weights.max())) + _ROUNDING)
    size = max(1, min(size, max_size))
    if size == 1:
        return _atoms_of_cells(measure, np.zeros(len(measure), dtype=np.int64))
    start = _atoms_of_cells(measure, kmeans_cells(measure, size, 1, seed))
    plan = solve(measure, Measure(start.measure.points))
    for _ in range(_MAX_ROUNDS):
        better = solve(measure, Measure(plan.target_means()), start=plan.g)
        gain = plan.distance**2 - better.distance**2
        if gain <= 0:
            break
        is_converged, plan = gain <= _CONVERGED * plan.distance**2, better
        if is_converged:
            break
    return Atoms(plan.target, plan.distance, min_cell_size(plan.cols, plan.mass))


def _atoms_of_cells(measure: Measure, labels: NDArray[np.int64]) -> Atoms:
    """The mean of each cell as an atom; `labels` are the cells of the samples."""
    groups = int(labels.max()) + 1
    origin = measure.points[0]  # so that a large common offset costs no digits
    weights = np.asarray(np.bincount(labels, measure.weights, groups), dtype=np.float64)
    sums = group_sums(measure.weights[:, None] * (measure.points - origin), labels, groups)
    means = origin + sums / weights[:, None]
    squares = ((measure.points - means[labels]) ** 2).sum(axis=1)
    distance = float(np.sqrt(measure.weights @ squares))
    return Atoms(Measure(means, weights), distance, min_cell_size(labels, measure.weights))


def distil_labelled(
    measure: Measure,
    codes: NDArray[np.int64],
    size: int,
    atoms_per: AtomsPer = "class",
    masses: Masses = "equal",
    min_size: int = 1,
    seed: int = 0,
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
    large = large_classes(measure, codes, min_size)
    if not len(large):
        raise InputError(f"No class has {min_size} samples, the fewest that an atom may average.")
    complete = len(large) > int(codes.max())
    if atoms_per == "site":
        atoms = distil(measure, size, masses, min_size, seed)
        points, weights = atoms.measure.points, atoms.measure.weights
        classes = _nearest_classes(points, measure, codes, large, min_size)
        return LabelledAtoms(points, weights, classes, min(atoms.min_cell_size, min_size), complete)
    mass = np.bincount(codes, measure.weights)[large]
    mass = mass / mass.sum()
    parts = [
        distil(
            Measure(measure.points[codes == code], measure.weights[codes == code]),
            int(atoms),
            masses,
            min_size,
            seed,
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


def large_classes(measure: Measure, codes: NDArray[np.int64], min_size: int) -> NDArray[np.int64]:
    """Codes of the classes of at least `min_size` samples (Kish's effective number if weighted)."""
    return np.flatnonzero(effective_counts(codes, measure.weights) >= min_size - _ROUNDING)


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
