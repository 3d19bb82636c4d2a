"""The paper's protocol: FedWaD, Algorithm 1, between two sites or between each two of many.

`FedWaDLoop` is the algorithm as a state machine: it makes the next request, and says what follows
from the replies. First there is a support, then rounds that move it, at last an estimate from the
cells that both sites transport to it. `estimate_by_pairs` asks the sites.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedwad._checks import format_value
from fedwad._words import to_printable
from fedwad.compare.answers import between_samples
from fedwad.compare.task import MatrixEstimates, MatrixRound, MatrixTask, Pair, Progress
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    Bundle,
    BundleReply,
    CellsRequest,
    ClassStatistics,
    DescribeRequest,
    Description,
    DistanceRequest,
    Failure,
    MeteredFederation,
    Moments,
    PrivateReply,
    PrivateRequest,
    SummaryReply,
    TransportReply,
    TransportRequest,
    ask_moments,
    check_same_features,
    draw_t,
    error_of,
    local,
    public_units,
)
from fedwad.messages.codec import digest
from fedwad.messages.message import MAX_BUNDLE
from fedwad.messages.samples import DistanceReply
from fedwad.methods import FedWaD, Pairs
from fedwad.privacy import DP, denoise, without_privacy_noise
from fedwad.statistics import SyntheticSample, estimate, lower_bounds, upper_bounds
from fedwad.transport import Floats, Interpolant, Measure, Plan, interpolate, reduce_support, solve

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Round:
    """What the server knows after one round.

    Attributes
    ----------
    number : int
        1 for the first round.
    t : float
        Position of the server's interpolating measure, between 0 and 1. It is also that of the
        sites, unless these draw their own.
    support : int
        Number of points of the support after this round.
    reduced : bool
        Whether the support was reduced to `max_support` points.
    running : float
        The server's own estimate W_p(xi_mu, xi_nu) / (1 - t), for which no site sends a distance;
        None if sites draw their own t, which the server does not know.
    seconds : float
    fedwad, upper : float or None
        The paper's estimate and a tighter upper bound at this round's support; None unless both
        sites revealed their distances from it.
    """

    number: int
    t: float
    support: int
    reduced: bool
    running: float | None
    seconds: float
    fedwad: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class OpenRound(Round):
    """A round as callbacks see it: with what travelled, which no result keeps.

    Attributes
    ----------
    points : Measure
        The support after the round.
    replies : mapping of str to TransportReply
        What each site sent in the round.
    """

    points: Measure = field(kw_only=True)
    replies: Mapping[str, TransportReply] = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Coupling:
    """A coupling of two measures by any solver and for any ground cost.

    matrix : array (n, m), the mass that goes from each point of `source` to each of `target`
    distance : what the solver takes for the distance
    """

    source: Measure
    target: Measure
    matrix: Floats
    distance: float

    def interpolate(self, t: float, interpolant: Interpolant = "barycentric") -> Measure:
        """Return the interpolating measure at t, equations (5) and (9) of the paper."""
        x, y = self.source, self.target
        if interpolant == "exact":
            rows, cols = np.nonzero(self.matrix)
            points = (1 - t) * x.points[rows] + t * y.points[cols]
            return Measure(points, self.matrix[rows, cols])
        if len(y) > len(x):
            return Coupling(y, x, self.matrix.T, self.distance).interpolate(1 - t)
        means = self.matrix.T @ x.points / self.matrix.sum(axis=0)[:, None]
        return Measure((1 - t) * means + t * y.points, y.weights)


#: Transport between two measures for the order p.
Solver = Callable[[Measure, Measure, float], Coupling]
#: The measure at t between the source (t = 0) and the target (t = 1) of a coupling.
Interpolate = Callable[[Coupling, float], Measure]
#: What a site sends in place of its interpolating measure.
Noise = Callable[[Measure, np.random.Generator], Measure]


class FedWaDLoop:
    """The server's side of FedWaD between two sites mu and nu.

    The request of `request()` holds the support xi^(k-1), for both sites. `advance()` takes their
    interpolating measures xi_mu^(k), xi_nu^(k) and moves the support to xi^(k), an interpolating
    measure between these two. `run` is a random name, which all requests of the loop carry.

    For research, all parties can be played in one process, with parts of your own: `reply(data)` is
    what a site would reply to the last request, and `estimate(mu, nu)` the paper's estimate at the
    present support.

    Parameters
    ----------
    start : the first support, a `Measure` or an array of points
    options : a `fedwad.methods.FedWaD`, of which `t`, `interpolant`, `reveal` and `max_support`
        count, and `tol` in `has_converged`. `start` is used in place of its `support` and `init`,
        and you decide how many rounds are played and what follows them.
    p, rng : the order, and the server's generator
    class_statistics : what the sites append to labelled samples
    solver : transport between two measures, which sets the ground cost too; exact by default
    interpolate : interpolating measure of a coupling, for the sites and for the server's step; by
        default that of `options`
    noise : what `reply` does to an interpolating measure before it is sent; nothing by default

    Data, and what `interpolate` and `noise` return, are measures, or arrays of equal weights.

    Examples
    --------
    >>> import numpy as np
    >>> from fedwad.compare import FedWaDLoop
    >>> from fedwad.transport import Measure
    >>> mu, nu = Measure([[0.0], [1.0]]), Measure([[2.0], [3.0]])
    >>> loop = FedWaDLoop(Measure([[0.0], [4.0]]))
    >>> for _ in range(20):
    ...     request = loop.request()
    ...     record = loop.advance(loop.reply(mu), loop.reply(nu))
    >>> round(loop.estimate(mu, nu), 6)
    2.0
    """

    def __init__(
        self,
        start: Measure | ArrayLike,
        options: FedWaD | None = None,
        p: float = 2.0,
        rng: np.random.Generator | None = None,
        class_statistics: ClassStatistics = "ignored",
        *,
        solver: Solver | None = None,
        interpolate: Interpolate | None = None,
        noise: Noise | None = None,
    ) -> None:
        if not isinstance(options, FedWaD | None):
            raise InputError(
                f"options is {format_value(options)}; give fedwad.methods.FedWaD(...).",
                "bad-option",
            )
        self.support = _as_measure(start, "start")
        self._solver, self._own_interpolate, self._noise = solver, interpolate, noise
        self.options = FedWaD() if options is None else options
        self.p = p
        self.class_statistics = class_statistics
        self.run = os.urandom(8).hex()
        self.history: list[Round] = []
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._request: TransportRequest | None = None
        self._t = 0.5  # of the server's next step
        self._potentials: Floats | None = None  # of the server's last transport, for a warm start
        self._started = 0.0  # when the last request was made

    def request(self) -> TransportRequest:
        """Return the next round's request, the same for both sites."""
        t_option, with_distance = self.options.t, self.options.reveal == "every"
        self._t = draw_t(self._rng) if isinstance(t_option, str) else t_option
        self._request = TransportRequest(
            self.run,
            self.support,
            self.p,
            None if t_option == "own" else self._t,
            self.options.interpolant,
            with_distance,
            class_statistics=self.class_statistics,
        )
        self._started = time.perf_counter()
        return self._request

    def advance(self, mu: TransportReply, nu: TransportReply) -> Round:
        """Move the support by one round, given both replies to the last request."""
        assert self._request is not None, "advance() follows request()"
        request, self._request = self._request, None
        if mu.distance is not None and nu.distance is not None and self.history:
            upper = _upper_from_messages(request, mu, nu) + mu.rounding + nu.rounding
            self.history[-1] = replace(
                self.history[-1], fedwad=mu.distance + nu.distance, upper=upper
            )
        coupling = self._couple(mu.interpolant, nu.interpolant, self._potentials)
        self._potentials = coupling.g if isinstance(coupling, Plan) else None
        new_support = self._between(coupling, self._t)
        max_support = self.options.max_support
        reduced = request.interpolant == "exact" and len(new_support) > max_support
        self.support = reduce_support(new_support, max_support) if reduced else new_support
        self.history.append(
            Round(
                number=len(self.history) + 1,
                t=self._t,
                support=len(self.support),
                reduced=reduced,
                running=None if request.t is None else coupling.distance / (1 - request.t),
                seconds=time.perf_counter() - self._started,
            )
        )
        return self.history[-1]

    def _couple(self, mu: Measure, nu: Measure, start: Floats | None = None) -> Plan | Coupling:
        if self._solver is not None:
            return _check_coupling(self._solver(mu, nu, self.p), mu, nu)
        plan = solve(mu, nu, self.p, start=start)
        if self._own_interpolate is None:
            return plan
        return Coupling(mu, nu, plan.matrix.toarray(), plan.distance)

    def _between(self, coupling: Plan | Coupling, t: float) -> Measure:
        if self._own_interpolate is not None:
            points = self._own_interpolate(coupling, t)  # type: ignore[arg-type]  # never a plan
            return _as_measure(points, "what interpolate returned")
        kind = self.options.interpolant
        if isinstance(coupling, Plan):
            return interpolate(coupling, t, kind)
        return coupling.interpolate(t, kind)

    def reply(self, data: Measure | ArrayLike) -> TransportReply:
        """Return what a site with these data replies to the last request, all in this process.

        Its own t and the noise are drawn from the loop's generator.
        """
        assert self._request is not None, "reply() follows request()"
        t = draw_t(self._rng) if self._request.t is None else self._request.t
        coupling = self._couple(_as_measure(data, "data"), self._request.support)
        sent = self._between(coupling, t)
        if self._noise is not None:
            sent = _as_measure(self._noise(sent, self._rng), "what noise returned")
        return TransportReply(sent, coupling.distance if self._request.with_distance else None)

    def estimate(self, mu: Measure | ArrayLike, nu: Measure | ArrayLike) -> float:
        """Return d_mu + d_nu at the present support, by the loop's solver."""
        sites = _as_measure(mu, "mu"), _as_measure(nu, "nu")
        return sum(self._couple(data, self.support).distance for data in sites)

    def has_converged(self) -> bool:
        """Whether the estimate changed by at most `tol` in each of the last two rounds.

        One round is not enough: the estimate can stay constant while the support still moves. It is
        the running estimate, or that of the sites' distances where these draw their own t.
        """
        tol, own_t = self.options.tol, self.options.t == "own"
        found = [record.fedwad if own_t else record.running for record in self.history]
        estimates = [one for one in found if one is not None][-3:]
        if tol == 0 or len(estimates) < 3:
            return False
        return all(abs(b - a) <= tol * max(b, a) for a, b in pairwise(estimates))


def _as_measure(points: Measure | ArrayLike, name: str) -> Measure:
    return points if isinstance(points, Measure) else Measure(points, name=name)


def _check_coupling(found: Any, mu: Measure, nu: Measure) -> Plan | Coupling:
    """Return what a user's solver returned; InputError if it is no coupling of mu and nu, whose
    marginals may be off by 1% of the largest weight, as those of an entropic solver are."""
    if isinstance(found, Plan):
        return found
    if not isinstance(found, Coupling):
        raise InputError(
            f"The solver returned {format_value(found)}; return a Coupling.", "wrong-coupling"
        )
    plan, shape = found.matrix, (len(mu), len(nu))
    if not isinstance(plan, np.ndarray) or plan.shape != shape:
        what = f"of shape {plan.shape}" if isinstance(plan, np.ndarray) else format_value(plan)
        raise InputError(
            f"The solver returned a plan that is {what}; give an array of shape {shape}.",
            "wrong-coupling",
        )
    marginals = (plan.sum(axis=1), mu.weights), (plan.sum(axis=0), nu.weights)
    if not all(np.abs(sums - w).max() <= 0.01 * w.max() for sums, w in marginals):
        raise InputError(
            "The solver returned a plan whose rows and columns do not sum to the weights of the"
            " two measures; each has sum 1.",
            "wrong-coupling",
        )
    return found


def _upper_from_messages(
    request: TransportRequest, mu: TransportReply, nu: TransportReply
) -> float:
    """Return an upper bound from the paper's own messages: both plans are composed at the support.

    The point s of a barycentric reply at t is (1 - t) x_s + t z_s, with the point z_s of the
    support, so the cell means x_s follow. With the distance d of the site from the support, the
    trace of the covariance within cells is d^2 - sum_s w_s |x_s - z_s|^2. For p other than 2, for
    other interpolants, for a t that the server does not know, and for replies with another number
    of points, the paper's estimate is the bound. Dividing by 1 - t magnifies rounding errors, which
    are added to the bound.
    """
    fedwad = (mu.distance or 0.0) + (nu.distance or 0.0)
    on_support = len(mu.interpolant) == len(nu.interpolant) == len(request.support)
    t, z, weights = request.t, request.support.points, request.support.weights
    if t is None or request.p != 2 or request.interpolant != "barycentric" or not on_support:
        return fedwad
    within_stds, cells, rounding_error = [], [], 0.0
    for reply in (mu, nu):
        means: Floats = (reply.interpolant.points - t * z) / (1 - t)
        between = float(weights @ ((means - z) ** 2).sum(axis=1))
        max_abs = max(np.abs(points).max() for points in (reply.interpolant.points, z))
        rounding = 8 * _EPSILON * float(max_abs) * math.sqrt(means.shape[1]) / (1 - t)
        rounding_error += rounding
        distance = reply.distance or 0.0
        within = max(0.0, distance**2 - between)
        within_stds.append(math.sqrt(within + 2 * distance * rounding + rounding**2))
        cells.append(Measure(means, weights))
    between_means = solve(cells[0], cells[1]).distance + rounding_error
    return min(fedwad, math.hypot(between_means, *within_stds))


def draw_support(moments: Sequence[Moments], size: int, rng: np.random.Generator) -> Measure:
    """Draw a support of `size` points around the sites' pooled mean with their pooled scale."""
    counts = np.array([one.count for one in moments], dtype=np.float64)
    site_weights = counts / counts.sum()
    origin = moments[0].mean  # sums relative to it keep digits when data have a large offset
    mean = origin + sum(
        weight * (one.mean - origin) for weight, one in zip(site_weights, moments, strict=True)
    )
    scale = np.zeros_like(mean)
    for weight, one in zip(site_weights, moments, strict=True):
        # hypot neither overflows nor underflows at extreme scales, unlike a root of squares.
        scale = np.hypot(scale, math.sqrt(weight) * np.hypot(one.scale, one.mean - mean))
    return Measure(mean + scale * rng.standard_normal((size, len(mean))))


def estimate_from_cells(
    mu: SummaryReply, nu: SummaryReply, p: float, seed: int, total_pairs: int | None = None
) -> tuple[tuple[float, float, float, float], Floats | None]:
    """Return our estimate, its certified bounds and the paper's estimate from the final replies,
    and for p = 2 the contributions of features to our estimate.

    For p other than 2, our estimate is the paper's within our bounds. `total_pairs` is the number
    of pairs of a matrix; the more there are, the fewer synthetic samples are drawn for each.
    """
    fedwad = (mu.distance or 0.0) + (nu.distance or 0.0)  # replies to CellsRequest have distances
    # Rounding depends on the order of the two, so their content decides it.
    a, b = sorted((mu.summary, nu.summary), key=lambda summary: summary.key)
    contributions = None
    if p == 2:
        own = estimate([a, b], 2.0, seed, total_pairs=total_pairs)
        value, lower, upper = (float(x[0, 1]) for x in (own.value, own.lower, own.upper))
        lower, contributions = min(lower, upper), own.columns[0, 1]
        value = min(max(value, lower), upper)
    else:
        value = fedwad
        lower, upper = (float(f([a, b], p)[0, 1]) for f in (lower_bounds, upper_bounds))
    # The composed coupling never costs more than fedwad in exact arithmetic; the minimum keeps that
    # in floating point. Sites may have moved their samples before they replied.
    moved = mu.rounding + nu.rounding
    upper = min(fedwad, upper) + moved
    lower = min(max(0.0, lower - moved), upper)
    return (min(max(value, lower), upper), lower, upper, fedwad), contributions


R = TypeVar("R", TransportReply, SummaryReply)
NamedPair = tuple[str, str]
Loops = dict[NamedPair, FedWaDLoop]
PairReplies = dict[NamedPair, dict[str, R]]  # by pair, and by the name of a site


def estimate_by_pairs(
    metered: MeteredFederation,
    task: MatrixTask,
    method: Pairs | FedWaD,
    callback: Callable[[OpenRound], None] | None = None,
) -> MatrixEstimates:
    """Run one FedWaD for each pair, then ask once more: for cells, or for distances alone.

    All requests of a round to a site are in one message. `callback` is called with each finished
    round of each pair.
    """
    names, loops = _start_loops(metered, task, method)
    history: list[MatrixRound] = []
    for number in range(1, method.rounds + 1):
        if all(loop.has_converged() for loop in loops.values()):
            break
        task.report(Progress("rounds", number - 1, method.rounds))
        started = time.perf_counter()
        requests = {pair: loop.request() for pair, loop in loops.items()}
        replies, names = _ask_pairs(metered, names, requests, TransportReply)
        if number == 1 and isinstance(method, FedWaD) and method.init is not None:
            # Nothing came before these replies, so their content decides the order of both sites.
            (loop,), (both,) = loops.values(), replies.values()
            first, second = names = tuple(sorted(names, key=lambda name: digest(both[name])))
            loops, replies = {(first, second): loop}, {(first, second): both}
        loops = {pair: loop for pair, loop in loops.items() if set(pair) <= set(names)}
        before = [loop.support for loop in loops.values()]
        for pair, loop in loops.items():
            finished = loop.advance(*(replies[pair][name] for name in pair))
            if callback is not None:
                callback(OpenRound(**vars(finished), points=loop.support, replies=replies[pair]))
        if isinstance(method, Pairs):
            after = [loop.support for loop in loops.values()]
            shift = math.sqrt(
                np.mean([_shift(*one) ** 2 for one in zip(before, after, strict=True)])
            )
            history.append(MatrixRound(number, time.perf_counter() - started, shift))
    task.report(Progress("rounds", method.rounds, method.rounds))
    if isinstance(method, FedWaD) and method.reveal == "distance":
        return _finish_with_distances(metered, task, loops)
    centre, scale = public_units(metered, names) if task.p == 2 else (np.zeros(0), np.zeros(0))
    final_requests = {
        pair: CellsRequest(
            loop.run,
            loop.support,
            task.p,
            method.covariance_type,
            class_statistics=task.class_statistics,
            calibration=task.p == 2,
            blocks=True,
            centre=centre,
            scale=scale,
        )
        for pair, loop in loops.items()
    }
    final_replies, names = _ask_pairs(metered, names, final_requests, SummaryReply)
    loops = {pair: loop for pair, loop in loops.items() if set(pair) <= set(names)}
    estimates = estimate_pairs({pair: final_replies[pair] for pair in loops}, names, task)
    return _with_loops(replace(estimates, history=tuple(history)), loops)


def estimate_by_private_rounds(
    metered: MeteredFederation,
    task: MatrixTask,
    method: FedWaD,
    guarantee: DP,
    callback: Callable[[OpenRound], None] | None = None,
) -> MatrixEstimates:
    """Run FedWaD between synthetic rows that are drawn from one private release of each site.

    Whatever is computed from a release keeps its guarantee, so any number of rounds costs no more
    than the release. The synthetic rows are in this process. `lower` and `upper` are a range in
    which the distance is likely to lie; they are not certified. With labels the cells of a release
    are its classes, and their pooled covariance is that of each class.
    """
    replies = metered.ask(dict.fromkeys(task.names, PrivateRequest.of(guarantee)), PrivateReply)
    replies = dict(sorted(replies.items(), key=lambda item: digest(item[1])))
    check_same_features({name: len(reply.mean) for name, reply in replies.items()})
    denoised = [denoise(reply) for reply in replies.values()]
    rows: dict[str, Any] = {}
    for number, (name, one) in enumerate(zip(replies, denoised, strict=True)):
        rng, summary = np.random.default_rng([task.seed, number]), one.summary
        if task.class_statistics == "ignored":
            rows[name] = SyntheticSample.of(summary).draw(summary.count, rng).points
        else:
            classes = rng.choice(len(summary.weights), summary.count, p=summary.weights)
            spread = rng.multivariate_normal(
                np.zeros(len(one.mean)), summary.covariance, summary.count, method="eigh"
            )
            rows[name] = summary.means[classes] + spread, classes
    played = estimate_by_pairs(MeteredFederation(local(rows)), task, method, callback)
    between, _, _ = between_samples(played)
    value, lower, upper = without_privacy_noise(float(between[0, 1]), denoised, task.seed)
    apart = 1.0 - np.eye(2)
    return MatrixEstimates(
        sites=played.sites,
        value=value * apart,
        lower=lower * apart,
        upper=upper * apart,
        fedwad=played.fedwad,
        loops=played.loops,
    )


def _finish_with_distances(
    metered: MeteredFederation, task: MatrixTask, loops: Loops
) -> MatrixEstimates:
    """Return the paper's estimate, with the bounds that two distances prove.

    By the triangle inequality |d_mu - d_nu| <= W(mu, nu) <= d_mu + d_nu.
    """
    ((names, loop),) = loops.items()
    request = DistanceRequest(
        loop.run, loop.support, task.p, class_statistics=task.class_statistics
    )
    replies = metered.ask(dict.fromkeys(names, request), DistanceReply)
    mu, nu = (replies[name].distance for name in names)
    moved = sum(replies[name].rounding for name in names)
    apart = 1.0 - np.eye(2)
    fedwad = (mu + nu) * apart
    estimates = MatrixEstimates(
        sites=names,
        value=fedwad,
        lower=max(0.0, abs(mu - nu) - moved) * apart,
        upper=fedwad + moved * apart,
        fedwad=fedwad,
    )
    return _with_loops(estimates, loops)


def _with_loops(estimates: MatrixEstimates, loops: Loops) -> MatrixEstimates:
    """Return the estimates with the FedWaD of each pair, whose last round they complete."""
    fedwad, upper, by_index = estimates.fedwad, estimates.upper, {}
    assert fedwad is not None
    for (a, b), loop in loops.items():
        pair = estimates.sites.index(a), estimates.sites.index(b)
        loop.history[-1] = replace(
            loop.history[-1], fedwad=float(fedwad[pair]), upper=float(upper[pair])
        )
        by_index[pair] = loop
    return replace(estimates, loops=by_index)


def _start_loops(
    metered: MeteredFederation, task: MatrixTask, method: Pairs | FedWaD
) -> tuple[tuple[str, ...], Loops]:
    """Return the names of the sites that answer, and a FedWaD for each two of them.

    A support is drawn around the pooled mean of its two sites, or from N(0, 1), unless one is
    given. All supports come from the same normal numbers, which depend on no site.
    """
    names, loops = task.names, Loops()
    options = method if isinstance(method, FedWaD) else FedWaD(t=method.t)
    if options.init is not None:
        rng = np.random.default_rng(task.seed)
        start = options.init
        if not isinstance(start, Measure):
            width = _count_coordinates(metered, task)
            start = Measure(rng.standard_normal((options.support, width)))
        loop = FedWaDLoop(start, options, task.p, rng, task.class_statistics)
        return names, {(names[0], names[1]): loop}
    moments = ask_moments(metered, names, task.class_statistics, at_least=2)
    for pair in combinations(moments, 2):
        rng = np.random.default_rng(task.seed)
        start = draw_support([moments[name] for name in pair], method.support, rng)
        loops[pair] = FedWaDLoop(start, options, task.p, rng, task.class_statistics)
    return tuple(moments), loops


def _count_coordinates(metered: MeteredFederation, task: MatrixTask) -> int:
    """Ask how many features the sites have; return as many, and those of class statistics."""
    replies = metered.ask(dict.fromkeys(task.names, DescribeRequest()), Description)
    features = {}
    for name in task.names:
        schema = metered.schema_of(name)
        features[name] = replies[name].features if schema is None else len(schema.feature_names)
    check_same_features(features)
    d = features[task.names[0]]
    return {"ignored": d, "diag": 3 * d, "full": d + d + d * d}[task.class_statistics]


def _shift(before: Measure, after: Measure) -> float:
    """Return the root mean square shift of the points, or W2 if their number changed."""
    if before.points.shape != after.points.shape:
        return solve(before, after).distance
    return math.sqrt(float(after.weights @ ((after.points - before.points) ** 2).sum(axis=1)))


def estimate_pairs(
    replies: Mapping[NamedPair, Mapping[str, SummaryReply]],
    names: tuple[str, ...],
    task: MatrixTask,
) -> MatrixEstimates:
    """Return bounds and estimates for all pairs from the final replies."""
    tables = np.zeros((4, len(names), len(names)))
    first_replies: dict[str, SummaryReply] = {}
    contributions: dict[Pair, Floats] = {}
    for done, (pair, both) in enumerate(replies.items(), 1):
        mu, nu = both[pair[0]], both[pair[1]]
        numbers, columns = estimate_from_cells(mu, nu, task.p, task.seed, len(replies))
        i, j = names.index(pair[0]), names.index(pair[1])
        tables[:, i, j] = tables[:, j, i] = numbers
        if columns is not None:
            contributions[i, j] = columns
        first_replies = {pair[0]: mu, pair[1]: nu} | first_replies
        task.report(Progress("estimating distances", done, len(replies)))
    value, lower, upper, fedwad = tables
    return MatrixEstimates(
        sites=names,
        value=value,
        lower=lower,
        upper=upper,
        replies=[first_replies[name] for name in names],
        min_cell_size=min(
            one.summary.min_cell_size for both in replies.values() for one in both.values()
        ),
        fedwad=fedwad,
        contributions=contributions,
    )


def _ask_pairs(
    metered: MeteredFederation,
    names: tuple[str, ...],
    requests: Mapping[NamedPair, Any],
    expected: type[R],
) -> tuple[PairReplies[R], tuple[str, ...]]:
    """Ask both sites of each pair, with all requests to a site in one message, or in a few.

    Return the replies, and the sites that answered. A site that refuses one of its requests counts
    as failed.
    """
    if len(requests) == 1:
        ((pair, request),) = requests.items()
        return {pair: metered.ask(dict.fromkeys(pair, request), expected)}, names
    replies: PairReplies[R] = {pair: {} for pair in requests}
    by_site = {name: [pair for pair in requests if name in pair] for name in names}
    for start in range(0, max(map(len, by_site.values())), MAX_BUNDLE):
        parts = {name: pairs[start : start + MAX_BUNDLE] for name, pairs in by_site.items()}
        bundles = {
            name: Bundle(tuple(requests[pair] for pair in part))
            for name, part in parts.items()
            if part
        }
        answered = metered.ask(
            bundles, BundleReply, allow_failures=True, at_least=min(2, len(bundles))
        )
        for name in bundles:
            answers = answered[name].replies if name in answered else ()
            wrong = next((one for one in answers if not isinstance(one, expected)), None)
            if isinstance(wrong, Failure) and wrong.code == "input":  # the request is wrong
                raise error_of(wrong, name)
            if wrong is not None:
                came = f"a {type(wrong).__name__} came."
                said = wrong.sentence if isinstance(wrong, Failure) else came
                metered.failed[name] = to_printable(said)
            if wrong is not None or name not in answered:
                del by_site[name]
                continue
            for pair, reply in zip(parts[name], answers, strict=True):
                if isinstance(reply, expected):
                    replies[pair][name] = reply
        if len(by_site) < 2:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in metered.failed.items())
            raise FederationError(f"Fewer than two sites are left: {reasons}", "too-few-sites")
    return replies, tuple(by_site)
