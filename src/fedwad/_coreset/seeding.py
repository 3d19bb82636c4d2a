"""Where the atoms begin: from one summary of each client, from moments, or as the user says."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedwad._coreset.union import Union
from fedwad._distance.api import pooled_start
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Dataset,
    MeteredFederation,
    Moments,
    MomentsRequest,
    SummaryReply,
    SummaryRequest,
    local,
)
from fedwad.ot import (
    Atoms,
    Floats,
    Measure,
    Summary,
    SyntheticSample,
    as_points,
    distil,
    ground_cost,
)

__all__ = ["Seed", "ask_moments", "ask_summaries", "distilled", "seed_atoms", "stand_in_of"]

_STARTS = 3  # of Lloyd's steps on the stand-in, of which the best is kept
_STAND_IN = 2000  # points of the stand-in at least, and so many for each atom
_PER_ATOM = 50
_WIDE = 12.5
_CENTRAL, _SETTLING = (
    1e-3,
    30,
)  # gap, and rounds without messages, in which its potentials are centred
_CELLS = 10  # of a summary, at most: more atoms than that do not need more from each client


@dataclass(frozen=True, eq=False)
class Seed:
    """Atoms (S, d) and potentials (S,) to begin with, where they come from, and about W2^2 (0 when
    unknown)."""

    atoms: Floats
    potentials: Floats
    origin: Literal["given", "summaries", "moments"]
    scale: float = 0.0


def seed_atoms(
    line: MeteredFederation,
    names: Sequence[str],
    size: int,
    start: Any,
    masses: Literal["equal", "free"],
    seed: int,
    moments: Sequence[Moments] | None = None,
) -> Seed:
    """Begin from `start` if those are points, else from what the clients tell.

    From summaries: the server draws a stand-in of the union from them and makes the coreset of
    that, with no further message. Clients that refuse a summary are not part of the stand-in; if
    all do, points are drawn around the pooled mean. `moments` are given where they were asked for
    before.
    """
    if not isinstance(start, str):
        atoms = np.array(as_points(start, "start"))
        if len(atoms) != size:
            raise InputError(
                f"start has {len(atoms)} points where a coreset of {size} was asked for; give as many."
            )
        return Seed(atoms, np.zeros(size), "given")
    found = _from_summaries(line, names, size, masses, seed) if start == "summaries" else None
    return found or _from_moments(
        ask_moments(line, names) if moments is None else moments, size, seed
    )


def _from_summaries(
    line: MeteredFederation, names: Sequence[str], size: int, masses: Any, seed: int
) -> Seed | None:
    before = dict(line.failed)
    try:
        summaries = ask_summaries(line, names, size, seed)
    except (PolicyError, FederationError):  # nobody tells one
        return None
    finally:
        line.failed = before  # whoever did not answer this is still asked for cells
    best, stand_in = distilled(summaries, size, masses, seed)
    points = best.measure.points
    if len(points) < size:  # a stand-in of few different points
        points = points[np.arange(size) % len(points)]
    potentials = np.zeros(size)
    if masses == "equal" and len(best.measure) == size:
        potentials = _central(stand_in, np.array(points))
    return Seed(np.array(points), potentials, "summaries", best.distance**2)


def ask_summaries(
    line: MeteredFederation, names: Sequence[str], size: int, seed: int
) -> dict[str, Summary]:
    """One summary of each client that tells it."""
    request = SummaryRequest(min(size, _CELLS), "diag", 2.0, seed)
    replies = line.ask(dict.fromkeys(names, request), SummaryReply, tolerate=True)
    summaries = {
        name: reply.summary for name, reply in replies.items() if isinstance(reply.summary, Summary)
    }
    same_features({name: summary.dimension for name, summary in summaries.items()})
    return summaries


def distilled(
    summaries: dict[str, Summary], size: int, masses: Any, seed: int
) -> tuple[Atoms, Measure]:
    """The coreset of a stand-in of the union, the best of a few starts, and that stand-in."""
    stand_in = stand_in_of(summaries, max(_STAND_IN, _PER_ATOM * size), seed)
    tries = [distil(stand_in, size, masses, 1, seed + k) for k in range(_STARTS)]
    return min(tries, key=lambda one: one.distance), stand_in


def _central(stand_in: Measure, atoms: Floats) -> Floats:
    """Potentials of the stand-in's transport, in the middle where many are optimal: the union's may
    be on any side."""
    weights, line = (
        np.full(len(atoms), 1 / len(atoms)),
        MeteredFederation(local({"stand-in": Dataset(stand_in)})),
    )
    # From the softest, where potentials are unique, so that they come to the middle on the way.
    wide = _WIDE * float(ground_cost(atoms, atoms).max())
    begin = np.zeros(len(atoms))
    union = Union(
        line, ("stand-in",), atoms, begin, weights, np.random.default_rng(0), wide, tol=_CENTRAL
    )
    union.settle(_SETTLING)
    return union.potentials


def stand_in_of(summaries: dict[str, Summary], size: int, seed: int) -> Measure:
    """About `size` points, from each client in proportion to its samples and at least one."""
    counts = np.array([summary.count for summary in summaries.values()], dtype=np.float64)
    total = min(size, max(int(counts.sum()), len(counts)))
    points, weights = [], []
    for (name, summary), count in zip(summaries.items(), counts, strict=True):
        share = count / counts.sum()
        drawn = max(1, round(share * total))
        # By name, so that a client's points do not depend on who else is there.
        key = int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "little")
        points.append(
            SyntheticSample.of(summary).draw(drawn, np.random.default_rng([seed, key])).points
        )
        weights.append(np.full(drawn, share / drawn))
    joined = np.concatenate(weights)
    even = float(joined.max()) <= 1.5 * float(
        joined.min()
    )  # then equal weights, whose transport is faster
    return Measure(np.concatenate(points), None if even else joined)


def _from_moments(moments: Sequence[Moments], size: int, seed: int) -> Seed:
    drawn = pooled_start(moments, size, np.random.default_rng(seed))
    return Seed(np.array(drawn.points), np.zeros(size), "moments")


def ask_moments(line: MeteredFederation, names: Sequence[str]) -> list[Moments]:
    """Count, mean and scale of all clients that tell them."""
    before = dict(line.failed)
    try:
        replies = line.ask(dict.fromkeys(names, MomentsRequest()), Moments, tolerate=True)
    except PolicyError as error:
        raise PolicyError(
            f"No client tells where to begin ({error}); give the atoms to begin with as start."
        ) from None
    finally:
        line.failed = before  # whoever did not answer this is still asked for cells
    same_features({name: len(reply.mean) for name, reply in replies.items()})
    return list(replies.values())


def same_features(dimensions: dict[str, int]) -> None:
    """InputError unless all clients have equally many features."""
    first, expected = next(iter(dimensions.items()))
    for name, dimension in dimensions.items():
        if dimension != expected:
            raise InputError(
                f"{first} has {expected} features and {name} has {dimension}; a coreset needs the same at all clients."
            )
