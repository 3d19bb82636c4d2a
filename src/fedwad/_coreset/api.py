"""A few points that stand for the data of all clients, learnt without bringing the data
together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_choice, check_whole
from fedwad._coreset.from_summaries import from_summaries
from fedwad._coreset.paper import Direct, Paper, Puller, epochs
from fedwad._coreset.result import CoresetResult, CoresetRound
from fedwad._coreset.seeding import Seed, ask_moments, ask_summaries, seed_atoms
from fedwad._coreset.union import Certified, Union
from fedwad._distance.api import pooled_start
from fedwad.errors import InputError
from fedwad.federation import Federation, MeteredFederation, Moments, Site, choose_sites, local
from fedwad.ot import Measure

__all__ = ["coreset"]

Method = Literal["union", "summary", "fedwad", "direct"]
Masses = Literal["equal", "free"]
Steps = Literal["adam", "plain"]

_CLOSING = 15  # rounds that certify what the paper's methods found
_ACTIVE = 10
_ADAM, _PLAIN = 0.1, 0.5
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class _Options:
    """The options of one coreset, checked."""

    names: tuple[str, ...]
    size: int
    method: Method
    rounds: int
    seed: int
    masses: Masses
    start: Any
    clients_per_round: int | None
    tol: float
    gap: float | None
    callback: Callable[[CoresetRound], None] | None


def coreset(
    fed: Federation | Mapping[str, Any] | Any,
    size: int = 10,
    method: Method = "union",
    rounds: int = 50,
    seed: int = 0,
    *,
    weights: Masses = "equal",
    start: Any = None,
    clients_per_round: int | None = None,
    tol: float | None = None,
    gap: float | None = None,
    support: int = 10,
    inner_rounds: int = 20,
    steps: Steps = "adam",
    rate: float | None = None,
    clients: Sequence[str] | None = None,
    callback: Callable[[CoresetRound], None] | None = None,
) -> CoresetResult:
    """Learn a few points that are as close as possible in W2 to the union of all clients' samples.

    Parameters
    ----------
    fed : a federation, one client of it (`fed["paris"]`), a mapping from names to data, or one
        array
    size : number of points S
    method : "union": the server holds atoms and potentials, clients tell masses and sums of the
        atoms' power cells; the answer is the coreset of all samples together, with a certified
        distance. "summary": one summary from each client and nothing else; less exact, with a wider
        interval, and less told. "fedwad": the paper's; in each epoch FedWaD between the coreset and
        some random clients, and a step down the mean distance to them. "direct": the same with the
        coreset itself as the support that travels.
    rounds : most rounds of "union", epochs of the others
    seed : the same seed gives the same bits
    weights : "equal" masses 1/S, or "free" for "union": each point weighs what is nearest to it
        (k-means)
    start : points (S, d) to begin with; "summaries", one summary from each client, of which the
        server makes a stand-in of the union; or "moments", points drawn around the pooled mean.
        When left out: summaries for "union" (moments where clients refuse them), moments for the
        others
    clients_per_round : how many random clients are asked in a round; all for "union" when left out,
        10 for the others
    tol : stop when the bounds on the squared distance are closer than this fraction and moving the
        atoms gains less than it (1e-4 when left out); for the others when an epoch moves atoms by
        less than this fraction of the distance (0 when left out: never)
    gap : for "union", move atoms only when the bounds are closer than this fraction; small values
        follow the centralised algorithm step by step and need more rounds. When left out: three
        times what moving gains, and atoms move half as far again as the means of their cells, which
        saves rounds
    support, inner_rounds : points and rounds of each FedWaD
    steps, rate : "adam", by default at a rate of a tenth of the data's scale, or "plain", at 0.5
    clients : names of those to ask; all when left out
    callback : called with each finished `CoresetRound`, for progress bars

    Returns
    -------
    CoresetResult
        `points`, `weights`, the distance `value` with its certified `lower` and `upper`, `history`,
        `lost`, `traffic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> c = fedwad.coreset({"paris": rng.normal(0, 1, (90, 2)), "oslo": rng.normal(9, 1, (30, 2))}, size=4)
    # one of four points where a quarter of the data is
    >>> sorted((c.points.mean(axis=1) > 4.5).tolist())
    [False, False, False, True]
    >>> c.upper / c.lower < 1.001
    True

    References
    ----------
    Rakotomamonjy, Nadjahi, Ralaivola, Federated Wasserstein Distance, ICLR 2024.
    Claici, Genevay, Solomon, Wasserstein Measure Coresets, 2018.
    """
    federation, only = _federation(fed)
    check_choice(method, "method", get_args(Method))
    check_choice(weights, "weights", ("equal", "free"))
    check_choice(steps, "steps", ("adam", "plain"))
    if weights == "free" and method not in ("union", "summary"):
        raise InputError(
            f"weights are 'free' with method '{method}'; only 'union' and 'summary' find weights."
        )
    if method == "summary" and (start is not None or clients_per_round is not None):
        raise InputError(
            "start and active are not for method 'summary', which asks each client once; leave them out."
        )
    if start is None:
        start = "summaries" if method == "union" else "moments"
    elif isinstance(start, str):
        check_choice(start, "start", ("summaries", "moments"))
    options = _Options(
        names=choose_sites(federation, only if clients is None else clients, "a coreset"),
        size=check_whole(size, "size"),
        method=method,
        rounds=check_whole(rounds, "rounds"),
        seed=check_whole(seed, "seed", 0),
        masses=weights,
        start=start,
        clients_per_round=None
        if clients_per_round is None
        else check_whole(clients_per_round, "clients_per_round"),
        tol=_fraction(tol, "tol", _TOLERANCE if method == "union" else 0.0),
        gap=None if gap is None else _fraction(gap, "gap", 0.0),
        callback=callback,
    )
    line = MeteredFederation(federation)
    with single_threaded_blas():
        if method == "union":
            found = _by_union(line, options)
        elif method == "summary":
            found = _by_summary(line, options)
        else:
            support, inner_rounds = (
                check_whole(support, "support"),
                check_whole(inner_rounds, "inner_rounds"),
            )
            found = _by_epochs(line, options, support, inner_rounds, steps, _positive(rate))
    return replace(found, features=getattr(federation, "features", None))


def _federation(fed: Any) -> tuple[Federation, tuple[str, ...] | None]:
    if isinstance(fed, Site):
        return fed.federation, (fed.name,)
    if isinstance(fed, Mapping):
        return local(fed), None
    if hasattr(fed, "ask") and hasattr(fed, "names"):
        return fed, None
    return local({"data": fed}), None


def _fraction(number: Any, name: str, default: float) -> float:
    if number is None:
        return default
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float | np.floating)
        or not 0 <= number < np.inf
    ):
        raise InputError(f"{name} is {number!r}; give a number of at least 0.")
    return float(number)


def _positive(rate: Any) -> float | None:
    found = None if rate is None else _fraction(rate, "rate", 0.0)
    if found == 0:
        raise InputError("rate is 0; give a positive number.")
    return found


def _by_union(line: MeteredFederation, options: _Options) -> CoresetResult:
    seed = seed_atoms(
        line, options.names, options.size, options.start, options.masses, options.seed
    )
    union = _union(line, options, seed)
    found = union.run(options.rounds, options.clients_per_round)
    return _result(line, options, found, tuple(union.history), union.converged, union.min_cell_size)


def _by_summary(line: MeteredFederation, options: _Options) -> CoresetResult:
    since = time.perf_counter()
    summaries = ask_summaries(line, options.names, options.size, options.seed)
    found, value = from_summaries(summaries, options.size, options.masses, options.seed)
    record = CoresetRound(
        1,
        time.perf_counter() - since,
        value,
        0.0,
        len(summaries),
        lower=found.lower,
        upper=found.upper,
    )
    if options.callback is not None:
        options.callback(record)
    min_cell_size = min(summary.min_cell_size for summary in summaries.values())
    return replace(_result(line, options, found, (record,), True, min_cell_size), value=value)


def _union(line: MeteredFederation, options: _Options, seed: Seed) -> Union:
    equal = np.full(options.size, 1 / options.size)
    return Union(
        line=line,
        names=options.names,
        atoms=seed.atoms,
        potentials=seed.potentials,
        weights=equal if options.masses == "equal" else None,
        rng=np.random.default_rng([options.seed, 1]),
        scale=seed.scale,
        gap=options.gap,
        tol=options.tol,
        callback=options.callback,
    )


def _by_epochs(
    line: MeteredFederation,
    options: _Options,
    support: int,
    inner_rounds: int,
    steps: Steps,
    rate: float | None,
) -> CoresetResult:
    moments = ask_moments(line, options.names)
    seed = seed_atoms(
        line, options.names, options.size, options.start, "equal", options.seed, moments
    )
    rng = np.random.default_rng([options.seed, 2])
    within_std = pooled_start(moments, max(support, 2), rng)
    puller: Puller = (
        Paper(support, inner_rounds, within_std, rng)
        if options.method == "fedwad"
        else Direct.new()
    )
    if rate is None:
        rate = _ADAM * _scale(moments, within_std) if steps == "adam" else _PLAIN
    atoms, history, converged, min_cell_size = epochs(
        line,
        options.names,
        seed.atoms,
        puller,
        options.rounds,
        options.clients_per_round or _ACTIVE,
        rate,
        steps,
        options.tol,
        rng,
        options.callback,
    )
    left = tuple(name for name in options.names if name not in line.failed)
    closing = Union(
        line=line,
        names=left,
        atoms=atoms,
        potentials=np.zeros(options.size),
        weights=np.full(options.size, 1 / options.size),
        rng=rng,
        tol=_TOLERANCE,
    )
    found = closing.settle(_CLOSING)
    return _result(line, options, found, tuple(history), converged, min_cell_size)


def _scale(moments: Sequence[Moments], within_std: Measure) -> float:
    """Root mean square of the features' standard deviations over the union."""
    counts = np.array([one.count for one in moments], dtype=np.float64)
    mean = (
        within_std.mean
        if len(moments) == 1
        else np.average([one.mean for one in moments], axis=0, weights=counts)
    )
    squares = [float((one.scale**2 + (one.mean - mean) ** 2).mean()) for one in moments]
    return float(np.sqrt(np.average(squares, weights=counts))) or 1.0


def _result(
    line: MeteredFederation,
    options: _Options,
    found: Certified,
    history: tuple[CoresetRound, ...],
    converged: bool,
    min_cell_size: int | None,
) -> CoresetResult:
    held = found.weights > 0
    return CoresetResult(
        points=found.atoms[held],
        weights=found.weights[held],
        value=found.value,
        lower=found.lower,
        upper=found.upper,
        method=options.method,
        history=history,
        clients=found.clients,
        converged=converged,
        seed=options.seed,
        masses=options.masses,
        min_cell_size=min_cell_size,
        lost=dict(line.failed),
        traffic=line.traffic,
    )
