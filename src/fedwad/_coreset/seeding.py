"""The first atoms of a coreset: from one summary of each site, from moments, or given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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

__all__ = ["Seed", "ask_moments", "ask_summaries", "distilled", "seed_atoms", "synthetic_union"]

_RESTARTS = 3  # of Lloyd's algorithm on the synthetic union
_MIN_UNION_POINTS, _POINTS_PER_ATOM = 2000, 50  # of the synthetic union; the larger size counts
_FIRST_REG = 12.5  # first regularisation, as a multiple of the largest cost between atoms
_CENTRAL_TOL, _CENTRAL_ROUNDS = 1e-3, 30  # for the potentials of the synthetic union
_CELLS = 10  # largest number of cells of a summary; more atoms do not need more cells


@dataclass(frozen=True, eq=False)
class Seed:
    """First atoms (S, d) and potentials (S,), and what they were made from.

    `scale` is an estimate of W2^2 between the atoms and the union of all samples; 0 if unknown.
    """

    atoms: Floats
    potentials: Floats
    origin: Literal["given", "summaries", "moments"]
    scale: float = 0.0


def seed_atoms(
    metered: MeteredFederation,
    names: Sequence[str],
    size: int,
    init: Measure | str,
    masses: Masses,
    seed: int,
    moments: Sequence[Moments] | None = None,
) -> Seed:
    """Return atoms to begin with: given ones, from summaries, or from moments.

    From summaries: the server draws a synthetic sample of the union and makes its coreset, with no
    further message. This sample is the synthetic union. Sites that refuse a summary are not part of
    it; if all refuse, atoms are drawn around the pooled mean of the sites' moments. `moments` are
    those of sites that were asked before; without them, sites are asked if need be.
    """
    if isinstance(init, Measure):
        if len(init) != size:
            raise InputError(
                f"init has {len(init)} points and the coreset {size}; give as many as its size."
            )
        return Seed(np.array(init.points), np.zeros(size), "given")
    found = _from_summaries(metered, names, size, masses, seed) if init == "summaries" else None
    return found or _from_moments(
        ask_moments(metered, names) if moments is None else moments, size, seed
    )


def _from_summaries(
    metered: MeteredFederation, names: Sequence[str], size: int, masses: Masses, seed: int
) -> Seed | None:
    try:
        summaries = ask_summaries(metered, names, size, seed, record_failures=False)
    except (PolicyError, FederationError):  # all sites refuse
        return None
    best, sample = distilled(summaries, size, masses, seed)
    points = best.measure.points
    if len(points) < size:  # the sample has fewer distinct points
        points = points[np.arange(size) % len(points)]
    potentials = np.zeros(size)
    if masses == "equal" and len(best.measure) == size:
        potentials = _central_potentials(sample, np.array(points))
    return Seed(np.array(points), potentials, "summaries", best.distance**2)


def ask_summaries(
    metered: MeteredFederation,
    names: Sequence[str],
    size: int,
    seed: int,
    record_failures: bool = True,
) -> dict[str, Summary]:
    """Return one summary of each site that does not refuse."""
    request = SummaryRequest(min(size, _CELLS), "diag", 2.0, seed, calibration=False)
    replies = metered.ask(
        dict.fromkeys(names, request),
        SummaryReply,
        allow_failures=True,
        record_failures=record_failures,
    )
    summaries = {
        name: reply.summary for name, reply in replies.items() if isinstance(reply.summary, Summary)
    }
    return metered.keep_majority(
        summaries, {name: summary.dimension for name, summary in summaries.items()}
    )


def distilled(
    summaries: dict[str, Summary], size: int, masses: Masses, seed: int
) -> tuple[Atoms, Measure]:
    """Return the best coreset of a synthetic union over a few restarts, and that sample."""
    sample = synthetic_union(summaries, max(_MIN_UNION_POINTS, _POINTS_PER_ATOM * size), seed)
    coresets = [distil(sample, size, masses, 1, seed + k) for k in range(_RESTARTS)]
    return min(coresets, key=lambda coreset: coreset.distance), sample


def _central_potentials(sample: Measure, atoms: Floats) -> Floats:
    """Return optimal potentials of the transport from the synthetic union to the atoms.

    Often many potentials are optimal, and those of the real data may differ from them in any
    direction. So the centre of the optimal set is the best start. Large regularisation, for which
    potentials are unique, leads there.
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
        scale=_FIRST_REG * float(ground_cost(atoms, atoms).max()),
        tol=_CENTRAL_TOL,
    )
    union.certify(_CENTRAL_ROUNDS)
    return union.potentials


def synthetic_union(summaries: dict[str, Summary], size: int, seed: int) -> Measure:
    """Draw about `size` points, from each site in proportion to its samples and at least one."""
    counts = np.array([summary.count for summary in summaries.values()], dtype=np.float64)
    total = min(size, max(int(counts.sum()), len(counts)))
    points, weights = [], []
    for (name, summary), count in zip(summaries.items(), counts, strict=True):
        share = count / counts.sum()
        drawn = max(1, round(share * total))
        rng = np.random.default_rng([seed, client_seed(name)])
        points.append(SyntheticSample.of(summary).draw(drawn, rng).points)
        weights.append(np.full(drawn, share / drawn))
    all_weights = np.concatenate(weights)
    # Nearly equal weights are made equal, because transport of equal weights is faster.
    nearly_equal = float(all_weights.max()) <= 1.5 * float(all_weights.min())
    return Measure(np.concatenate(points), None if nearly_equal else all_weights)


def _from_moments(moments: Sequence[Moments], size: int, seed: int) -> Seed:
    drawn = draw_support(moments, size, np.random.default_rng(seed))
    return Seed(np.array(drawn.points), np.zeros(size), "moments")


def ask_moments(metered: MeteredFederation, names: Sequence[str]) -> list[Moments]:
    """Return count, mean and scale of all sites that do not refuse."""
    requests = dict.fromkeys(names, MomentsRequest())
    try:
        replies = metered.ask(requests, Moments, allow_failures=True, record_failures=False)
    except PolicyError as error:
        raise PolicyError(
            f"All sites refuse their moments ({error}); give the first atoms as init."
        ) from None
    agreed = metered.keep_majority(
        replies, {name: len(reply.mean) for name, reply in replies.items()}
    )
    return list(agreed.values())
