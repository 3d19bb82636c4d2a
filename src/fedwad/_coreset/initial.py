"""The first atoms of a coreset: from one summary of each site, from moments, or given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwad._coreset.union import UnionSolver
from fedwad._distance.run import draw_support
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    AtomsRequest,
    CellSums,
    Dataset,
    MeteredFederation,
    Moments,
    MomentsRequest,
    SummaryReply,
    SummaryRequest,
    client_seed,
)
from fedwad.ot import Atoms, Floats, Masses, Measure, Summary, SyntheticSample, distil, ground_cost

__all__ = [
    "InitialAtoms",
    "ask_moments",
    "ask_summaries",
    "distil_summaries",
    "initial_atoms",
    "synthetic_union",
]

_RESTARTS = 3  # of Lloyd's algorithm on the synthetic union
_MIN_UNION_POINTS, _POINTS_PER_ATOM = 2000, 50  # of the synthetic union; the larger size counts
_CENTRAL_SCALE = 12.5  # scale of the solver for central potentials, in largest costs between atoms
_CENTRAL_TOL, _CENTRAL_ROUNDS = 1e-3, 30  # of this solver
_MAX_CELLS = 10  # of a summary; more atoms do not need more cells


@dataclass(frozen=True, eq=False)
class InitialAtoms:
    """First atoms (S, d) and potentials (S,).

    `scale` is an estimate of W2^2 between the atoms and the union of all samples; 0 if unknown.
    `min_cell_size` is that of the summaries that sites sent; None if they sent none.
    """

    atoms: Floats
    potentials: Floats
    scale: float = 0.0
    min_cell_size: int | None = None


def initial_atoms(
    metered: MeteredFederation,
    names: Sequence[str],
    size: int,
    init: Measure | str,
    masses: Masses,
    seed: int,
    moments: Sequence[Moments] | None = None,
) -> InitialAtoms:
    """Return atoms to begin with: those of `init`, from summaries, or from moments.

    From summaries: the server draws a synthetic sample of the union, the synthetic union, and takes
    the coreset of this sample. Sites that refuse a summary are not part of it. If all refuse, or if
    `init` says so, atoms are drawn around the pooled mean of the sites' moments. `moments` are
    those of sites that were asked before; without them, sites are asked if need be.
    """
    if isinstance(init, Measure):
        if len(init) != size:
            raise InputError(
                f"init has {len(init)} points and the coreset {size}; give as many as its size."
            )
        return InitialAtoms(np.array(init.points), np.zeros(size))
    atoms = _from_summaries(metered, names, size, masses, seed) if init == "summaries" else None
    if atoms is not None:
        return atoms
    moments = ask_moments(metered, names) if moments is None else moments
    drawn = draw_support(moments, size, np.random.default_rng(seed))
    return InitialAtoms(np.array(drawn.points), np.zeros(size))


def _from_summaries(
    metered: MeteredFederation, names: Sequence[str], size: int, masses: Masses, seed: int
) -> InitialAtoms | None:
    """Return the coreset of a synthetic union and its potentials; None if all sites refuse."""
    try:
        summaries = ask_summaries(metered, names, size, seed, record_failures=False)
    except (PolicyError, FederationError):
        return None
    best, sample = distil_summaries(summaries, size, masses, seed)
    points = best.measure.points
    if len(points) < size:  # the sample has fewer distinct points
        points = points[np.arange(size) % len(points)]
    potentials = np.zeros(size)
    if masses == "equal" and len(best.measure) == size:
        potentials = _central_potentials(sample, np.array(points))
    min_cell_size = min(summary.min_cell_size for summary in summaries.values())
    return InitialAtoms(np.array(points), potentials, best.distance**2, min_cell_size)


def ask_summaries(
    metered: MeteredFederation,
    names: Sequence[str],
    size: int,
    seed: int,
    record_failures: bool = True,
) -> dict[str, Summary]:
    """Return one summary of each site that does not refuse; `record_failures` lists others."""
    request = SummaryRequest(min(size, _MAX_CELLS), "diag", 2.0, seed, calibration=False)
    replies = metered.ask(
        dict.fromkeys(names, request),
        SummaryReply,
        allow_failures=True,
        record_failures=record_failures,
    )
    summaries = {
        name: reply.summary for name, reply in replies.items() if isinstance(reply.summary, Summary)
    }
    return metered.keep_most_frequent_dimension(
        summaries, {name: summary.dimension for name, summary in summaries.items()}
    )


def distil_summaries(
    summaries: dict[str, Summary], size: int, masses: Masses, seed: int
) -> tuple[Atoms, Measure]:
    """Return the best coreset of a synthetic union over a few restarts, and the synthetic union."""
    sample = synthetic_union(summaries, max(_MIN_UNION_POINTS, _POINTS_PER_ATOM * size), seed)
    coresets = [distil(sample, size, masses, 1, seed + k) for k in range(_RESTARTS)]
    return min(coresets, key=lambda coreset: coreset.distance), sample


def _central_potentials(sample: Measure, atoms: Floats) -> Floats:
    """Return optimal potentials of the transport from the synthetic union to the atoms.

    Often many potentials are optimal, and those of the real data may differ from them in any
    direction. So the centre of the set of optimal potentials is the best start. A solver that
    begins with large regularisation, for which potentials are unique, ends there.
    """
    measure = Dataset(sample).canonical().measure

    def ask(names: Sequence[str], request: AtomsRequest) -> dict[str, CellSums]:
        return dict.fromkeys(names, request.sums(measure))

    union = UnionSolver(
        ask=ask,
        names=("union",),
        atoms=atoms,
        potentials=np.zeros(len(atoms)),
        weights=np.full(len(atoms), 1 / len(atoms)),
        rng=np.random.default_rng(0),
        scale=_CENTRAL_SCALE * float(ground_cost(atoms, atoms).max()),
        tol=_CENTRAL_TOL,
    )
    union.certify(_CENTRAL_ROUNDS)
    return union.potentials


def synthetic_union(summaries: dict[str, Summary], size: int, seed: int) -> Measure:
    """Draw about `size` points in all, from each site in proportion to its samples, at least one.

    The total is at most the number of samples.
    """
    counts = np.array([summary.count for summary in summaries.values()], dtype=np.float64)
    total = min(size, max(int(counts.sum()), len(counts)))
    points, weights = [], []
    for (name, summary), count in zip(summaries.items(), counts, strict=True):
        site_weight = count / counts.sum()
        site_size = max(1, round(site_weight * total))
        rng = np.random.default_rng([seed, client_seed(name)])
        points.append(SyntheticSample.of(summary).draw(site_size, rng).points)
        weights.append(np.full(site_size, site_weight / site_size))
    all_weights = np.concatenate(weights)
    # Nearly equal weights are made equal, because transport of equal weights is faster.
    nearly_equal = float(all_weights.max()) <= 1.5 * float(all_weights.min())
    return Measure(np.concatenate(points), None if nearly_equal else all_weights)


def ask_moments(metered: MeteredFederation, names: Sequence[str]) -> list[Moments]:
    """Return count, mean and scale of all sites that do not refuse."""
    requests = dict.fromkeys(names, MomentsRequest())
    try:
        replies = metered.ask(requests, Moments, allow_failures=True, record_failures=False)
    except PolicyError as error:
        raise PolicyError(
            f"All sites refuse their moments ({error}); give the first atoms as init."
        ) from None
    agreed = metered.keep_most_frequent_dimension(
        replies, {name: len(reply.mean) for name, reply in replies.items()}
    )
    return list(agreed.values())
