"""The first atoms of a coreset: from one summary of each site, from moments, or given."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedwad.compare import draw_support
from fedwad.coresets.union import InitialAtoms, UnionSolver
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    MeteredFederation,
    Moments,
    SummaryReply,
    SummaryRequest,
    as_federation,
)
from fedwad.federation import ask_moments as ask_site_moments
from fedwad.statistics import Atoms, Masses, Summary, SyntheticSample, distil
from fedwad.transport import Floats, Measure, ground_cost


def initial_atoms(
    metered: MeteredFederation,
    names: Sequence[str],
    size: int,
    init: Measure | str,
    masses: Masses,
    seed: int,
    moments: Mapping[str, Moments] | None = None,
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
                f"init has {len(init)} points and the coreset {size}; give as many as its size.",
                "wrong-shape",
            )
        return InitialAtoms(np.array(init.points), names=tuple(names))
    summaries: dict[str, Summary] = {}
    if init == "summaries":
        with contextlib.suppress(PolicyError, FederationError):
            summaries = ask_summaries(metered, names, size, seed, record_failures=False)
    if not summaries:
        moments = ask_moments(metered, names) if moments is None else moments
        drawn = draw_support(list(moments.values()), size, np.random.default_rng(seed))
        return InitialAtoms(np.array(drawn.points), names=_first(moments, names))
    best, sample = distil_summaries(summaries, size, masses, seed)
    points = best.measure.points
    if len(points) < size:  # the sample has fewer distinct points
        points = points[np.arange(size) % len(points)]
    points, potentials = np.array(points), None
    if masses == "equal" and len(best.measure) == size:
        potentials = _central_potentials(sample, points)
    min_cell_size = min(summary.min_cell_size for summary in summaries.values())
    order = _first(summaries, names)
    return InitialAtoms(points, potentials, best.distance**2, min_cell_size, order)


def _first(known: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return the sites whose order is known, and then the others."""
    return tuple(dict.fromkeys([*known, *names]))


def ask_summaries(
    metered: MeteredFederation,
    names: Sequence[str],
    size: int,
    seed: int,
    record_failures: bool = True,
) -> dict[str, Summary]:
    """Return one summary of each site that does not refuse; `record_failures` lists others.

    Sites come in the order of what they sent, as in `ask_moments`. Atoms do not need more than ten
    cells of each site.
    """
    request = SummaryRequest(min(size, 10), "diag", 2.0, seed, calibration=False)
    replies = metered.ask(
        dict.fromkeys(names, request),
        SummaryReply,
        allow_failures=True,
        record_failures=record_failures,
    )
    found = {name: one.summary for name, one in replies.items()}
    summaries = {
        name: summary
        for name, summary in sorted(found.items(), key=lambda item: item[1].key)
        if isinstance(summary, Summary)
    }
    return metered.keep_most_frequent_dimension(
        summaries, {name: summary.dimension for name, summary in summaries.items()}
    )


def distil_summaries(
    summaries: dict[str, Summary], size: int, masses: Masses, seed: int
) -> tuple[Atoms, Measure]:
    """Return the best coreset of a synthetic union over three restarts of Lloyd's algorithm, and
    the synthetic union, of 2000 points, or 50 for each atom if those are more."""
    sample = synthetic_union(summaries, max(2000, 50 * size), seed)
    coresets = [distil(sample, size, masses, 1, seed + k) for k in range(3)]
    return min(coresets, key=lambda coreset: coreset.distance), sample


def _central_potentials(sample: Measure, atoms: Floats) -> Floats:
    """Return optimal potentials of the transport from the synthetic union to the atoms.

    Often many potentials are optimal, and those of the real data may differ from them in any
    direction. So the centre of the set of optimal potentials is the best start. A solver that
    begins with large regularisation, for which potentials are unique, ends there: a quarter of the
    largest cost between atoms.
    """
    metered = MeteredFederation(as_federation({"union": sample}))
    start = InitialAtoms(atoms, scale=12.5 * float(ground_cost(atoms, atoms).max()))
    union = UnionSolver(metered, ("union",), start, np.random.default_rng(0), tol=1e-3)
    union.certify(rounds=30)
    return union.potentials


def synthetic_union(summaries: dict[str, Summary], size: int, seed: int) -> Measure:
    """Draw about `size` points in all, from each site in proportion to its samples, at least one.

    The total is at most the number of samples.
    """
    counts = np.array([summary.count for summary in summaries.values()], dtype=np.float64)
    total = min(size, max(int(counts.sum()), len(counts)))
    points, weights = [], []
    for number, (summary, count) in enumerate(zip(summaries.values(), counts, strict=True)):
        site_weight = count / counts.sum()
        site_size = max(1, round(site_weight * total))
        rng = np.random.default_rng([seed, number])
        points.append(SyntheticSample.of(summary).draw(site_size, rng).points)
        weights.append(np.full(site_size, site_weight / site_size))
    all_weights = np.concatenate(weights)
    # Nearly equal weights are made equal, because transport of equal weights is faster.
    nearly_equal = float(all_weights.max()) <= 1.5 * float(all_weights.min())
    return Measure(np.concatenate(points), None if nearly_equal else all_weights)


def ask_moments(metered: MeteredFederation, names: Sequence[str]) -> dict[str, Moments]:
    """Return count, mean and scale of all sites that do not refuse, in the order of these."""
    try:
        return ask_site_moments(metered, names, record_failures=False)
    except PolicyError as error:
        raise PolicyError(
            f"All sites refuse their moments ({error}); give the first atoms as init.", "withheld"
        ) from None
