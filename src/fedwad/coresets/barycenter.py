"""The Wasserstein barycenter of all sites' data: a few points between the sites."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_integer, check_number
from fedwad._options import check_points
from fedwad.compare import cell_means, draw_support
from fedwad.coresets.initial import ask_moments
from fedwad.coresets.result import PointsResult
from fedwad.errors import InputError
from fedwad.federation import (
    CellsRequest,
    Federation,
    MeteredFederation,
    SummaryReply,
    as_federation,
    choose_sites,
)
from fedwad.statistics import lower_bounds
from fedwad.transport import Floats, Measure


@dataclass(frozen=True)
class BarycenterRound:
    """What the server knew after one round.

    Attributes
    ----------
    objective : float
        The weighted mean of the squared distances of the sites from the points before the round.
    shift : float
        Root mean square distance by which the points moved in the round.
    sites : int
        Number of sites that answered.
    """

    number: int
    seconds: float
    objective: float
    shift: float
    sites: int


@dataclass(frozen=True, eq=False, kw_only=True)
class BarycenterResult(PointsResult):
    """A few points whose weighted mean squared distance W2^2 from all sites is small.

    Attributes
    ----------
    points : array (S, d)
    weights : array (S,)
        Masses of the points, all equal.
    objective : float
        sum_k weight_k W2^2(site k, points).
    lower, upper : float
        Certified bounds of the smallest objective that any measure has, with however many points,
        given honest sites and up to rounding (1e-9 relative). The upper one is that of the points.
    site_weights : dict
        The weight of each site; they sum to one.
    distances : dict
        W2 of each site from the points.
    history : tuple of BarycenterRound
    converged : bool
        Whether the tolerance `tol` was met before the rounds ran out.
    failed : mapping
        Sites that did not answer, each with the reason.
    min_cell_size : int
        Number of samples in the smallest cell whose mean a site sent at last.
    traffic : Traffic
    features : tuple of str or None
        Names of the columns of `points`; None if unknown.
    """

    _format: ClassVar[str] = "fedwad barycenter 1"
    _noun: ClassVar[str] = "barycenter"

    objective: float
    site_weights: dict[str, float]
    distances: dict[str, float]
    history: tuple[BarycenterRound, ...]
    min_cell_size: int

    def __repr__(self) -> str:
        return (
            f"<barycenter of {len(self)} points for {len(self.distances)} sites, objective"
            f" {self.objective:.6g}, the smallest one in [{self.lower:.6g}, {self.upper:.6g}]>"
        )


def barycenter(
    fed: Federation | Mapping[str, Any],
    weights: Mapping[str, float] | Sequence[float] | None = None,
    size: int = 10,
    rounds: int = 50,
    seed: int = 0,
    *,
    init: Any = None,
    tol: float = 1e-6,
    sites: Sequence[str] | None = None,
    callback: Callable[[BarycenterRound], None] | None = None,
) -> BarycenterResult:
    """Find a few points between the sites: their free-support Wasserstein barycenter.

    In each round all sites transport their data to the points and send the means of the cells, and
    the weighted mean of these over sites becomes the new points. No round increases the objective,
    sum_k weight_k W2^2(site k, points). It may end in a local minimum, as on pooled data.

    Parameters
    ----------
    fed : a federation, or a mapping from names to data
    weights : the weight of each site, by name or in the order of the sites; equal when left out
    size : number of points S, of equal mass
    rounds : largest number of rounds
    seed : seed of the first points; the same seed gives the same result, bit for bit
    init : first points, an array (size, features); by default drawn around the pooled mean
    tol : stop when the points move by less than this part of the root objective
    sites : names of the sites to ask; all when left out
    callback : called with each finished `BarycenterRound`

    Returns
    -------
    BarycenterResult
        `points`, `weights`, the `objective`, certified bounds `lower` and `upper` of the smallest
        one, `history`, `traffic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> b = fedwad.barycenter({"paris": X, "oslo": X + 6}, size=5)
    >>> bool(np.abs(b.points.mean(axis=0) - X.mean(axis=0) - 3).max() < 0.1)
    True

    References
    ----------
    Cuturi, Doucet, Fast Computation of Wasserstein Barycenters, ICML 2014.
    Álvarez-Esteban et al., A fixed-point approach to barycenters in Wasserstein space, 2016.
    """
    size, rounds = check_integer(size, "size"), check_integer(rounds, "rounds")
    seed, tol = check_integer(seed, "seed", 0), check_number(tol, "tol")
    check_callback(callback)
    federation = as_federation(fed)
    names = choose_sites(federation, sites, "a barycenter")
    site_weights = _site_weights(weights, names)
    metered = MeteredFederation(federation)
    with single_threaded_blas():
        support = _first_points(metered, names, size, seed, init)
        run, history, converged = os.urandom(8).hex(), list[BarycenterRound](), False
        while len(history) < rounds and not converged:
            started = time.perf_counter()
            replies = _ask(metered, site_weights, CellsRequest(run, support, 2.0, "spherical"))
            shares = _shares(site_weights, replies)
            means = [cell_means(reply, support) for reply in replies.values()]
            points = np.tensordot(shares, np.array(means), 1)
            shift = math.sqrt(float(((points - support.points) ** 2).sum(axis=1).mean()))
            objective = _objective(shares, replies)
            support = Measure(points)
            seconds = time.perf_counter() - started
            history.append(
                BarycenterRound(len(history) + 1, seconds, objective, shift, len(replies))
            )
            if callback is not None:
                callback(history[-1])
            converged = shift <= tol * math.sqrt(objective)
        replies = _ask(metered, site_weights, CellsRequest(run, support, 2.0, "auto"))
    shares = _shares(site_weights, replies)
    share_of = dict(zip(replies, shares.tolist(), strict=True))
    answered = [name for name in names if name in replies]
    return BarycenterResult(
        points=np.array(support.points),
        weights=np.array(support.weights),
        objective=_objective(shares, replies),
        lower=_lower(shares, replies),
        upper=_objective(shares, replies, moved=True),
        site_weights={name: share_of[name] for name in answered},
        distances={name: replies[name].distance or 0.0 for name in answered},
        history=tuple(history),
        converged=converged,
        seed=seed,
        min_cell_size=min(reply.summary.min_cell_size for reply in replies.values()),
        failed=dict(metered.failed),
        traffic=metered.traffic,
        features=metered.features,
    )


def _ask(
    metered: MeteredFederation, weights: Mapping[str, float], request: CellsRequest
) -> dict[str, SummaryReply]:
    """Return the replies of the sites that have not failed, in the order of what these hold, so
    that sums over them depend neither on names nor on the order of sites."""
    remaining = [name for name in weights if name not in metered.failed]
    replies = metered.ask(dict.fromkeys(remaining, request), SummaryReply, allow_failures=True)
    by_content = sorted(replies, key=lambda name: (replies[name].summary.key, weights[name]))
    return {name: replies[name] for name in by_content}


def _first_points(
    metered: MeteredFederation, names: Sequence[str], size: int, seed: int, init: Any
) -> Measure:
    if init is None:
        moments = ask_moments(metered, names).values()
        return draw_support(list(moments), size, np.random.default_rng(seed))
    points = check_points(init, "init")
    assert isinstance(points, Measure)  # noqa: S101
    if len(points) != size:
        raise InputError(
            f"init has {len(points)} points and the barycenter {size}; give as many as its size.",
            "bad-option",
        )
    return Measure(points.points)


def _site_weights(weights: Any, names: Sequence[str]) -> dict[str, float]:
    """Return the weight of each site as it was given; InputError unless they are positive."""
    if weights is None:
        return dict.fromkeys(names, 1.0)
    if not isinstance(weights, Mapping):
        values = np.asarray(weights, dtype=object).ravel().tolist()
        weights = dict(zip(names, values, strict=True)) if len(values) == len(names) else {}
    if set(names) != set(weights):
        raise InputError(
            f"weights are not those of the sites; give a weight for each of {', '.join(names)}.",
            "bad-option",
        )
    return {
        name: check_number(weights[name], f"the weight of {name}", positive=True) for name in names
    }


def _shares(weights: Mapping[str, float], replies: Mapping[str, SummaryReply]) -> Floats:
    """Return the weights of the sites that answered, sum one."""
    shares = np.array([weights[name] for name in replies])
    return np.asarray(shares / shares.sum())


def _objective(shares: Floats, replies: Mapping[str, SummaryReply], moved: bool = False) -> float:
    """Return the weighted mean of the sites' squared distances; with `moved`, an upper bound of it
    for sites that moved their samples before they replied."""
    distances = [
        (reply.distance or 0.0) + (reply.rounding if moved else 0.0) for reply in replies.values()
    ]
    return float(shares @ np.square(distances))


def _lower(shares: Floats, replies: Mapping[str, SummaryReply]) -> float:
    """Return a lower bound of the objective of any measure.

    Let X_k be coupled with a point Y of the measure as the optimal plans are. The weighted mean of
    |X_k - Y|^2 is at least that of |X_k - mean X|^2, which is half the weighted mean of
    |X_k - X_l|^2 over pairs, and this is at least half that of W2^2(site k, site l).
    """
    lower = lower_bounds([reply.summary for reply in replies.values()], 2.0)
    moved = np.array([reply.rounding for reply in replies.values()])
    lower = np.maximum(lower - moved[:, None] - moved, 0.0)
    np.fill_diagonal(lower, 0.0)
    bound = float(shares @ lower**2 @ shares) / 2
    return min(bound, _objective(shares, replies, moved=True))
