"""All distances between many clients: from one summary each, through a hub, or pair by pair as in the paper."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from fedwad._checks import check_choice, check_whole
from fedwad._fedwad import FedWaD
from fedwad._matrix_result import MatrixResult, MatrixRound
from fedwad._steady import steady
from fedwad.distance import check_private, conclude, features_of, pooled_start
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    Bundle,
    BundleReply,
    CellsRequest,
    Classes,
    Failure,
    Federation,
    Line,
    Moments,
    MomentsRequest,
    PrivateReply,
    PrivateRequest,
    SummaryReply,
    SummaryRequest,
    TransportReply,
    error_of,
    local,
)
from fedwad.ot import (
    ClassCovariance,
    Floats,
    Form,
    LabelledSummary,
    Measure,
    Summary,
    check_order,
    ground_cost,
    lower_bounds,
    pair_distances,
    rounding,
    same,
    solve,
    twin_distances,
    twin_transports,
    upper_bounds,
)
from fedwad.privacy import DP, noise_effect, picture

__all__ = ["Progress", "matrix"]

Method = Literal["summary", "hub", "pairs"]
Pair = tuple[int, int]
R = TypeVar("R", TransportReply, SummaryReply)

# Of a hub: twins of so many pairs of so many clients tell what samples of this kind need inside cells.
_CALIBRATION_CLIENTS, _CALIBRATION_PAIRS, _ONE_DRAW = 5, 6, 500
_FULL_UP_TO = 64  # features up to which all clients of a hub tell full covariances
_BEST_COUPLINGS = 1000


@dataclass(frozen=True)
class Progress:
    """How far a matrix is: what is being done, and how much of it."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class _Plan:
    """The options of one matrix, checked."""

    names: tuple[str, ...]
    support: int
    rounds: int
    seed: int
    p: float
    classes: Classes
    form: Form
    threads: int
    tell: Callable[[Progress], None]


def matrix(
    fed: Federation | Mapping[str, Any],
    method: Method = "summary",
    support: int = 10,
    rounds: int = 5,
    labels: bool = False,
    seed: int = 0,
    *,
    covariance: ClassCovariance = "diagonal",
    form: Form = "auto",
    p: float = 2.0,
    clients: Sequence[str] | None = None,
    privacy: DP | Mapping[str, Any] | None = None,
    threads: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> MatrixResult:
    """Estimate the distances between all clients without bringing their data together.

    Parameters
    ----------
    fed : a federation, or a mapping from names to data, which become local clients
    method : "summary": one message from each client serves all pairs. "hub": all clients transport to one shared
        support. "pairs": the paper's protocol for each pair, all pairs of a round in one message to each client.
    support : cells of a summary, or points of each support
    rounds : rounds of "hub" and "pairs"
    labels : dataset distance between labelled data: W2 under |x-x'|^2 + |m_y-m_y'|^2 + |s_y-s_y'|^2 with mean m_y
        and standard deviations s_y of the class y of x
    seed : the same seed gives the same bits
    covariance : "full" compares classes by the Frobenius norm between root covariances instead of |s_y-s_y'|
    form : what clients tell of covariances, see `fedwad.distance`; with labels "auto" is full up to 64 features,
        beyond that 40 main directions and the diagonal of each class
    p : order of the distance, at least 1; 2 for labelled data, "hub" and "pairs"
    clients : some of the names, if not all
    privacy : `fedwad.DP`: one release from each client under differential privacy serves all pairs, see
        `fedwad.distance`
    threads : that work on pairs at the same time; as many as cores when left out. They change no number.
    on_progress : called with each bit of progress

    Returns
    -------
    MatrixResult
        `ids`, `value`, the certified `lower` and `upper`, `traffic`, `lost`; `.cluster`, `.nearest`, `.save`.
        A client that does not answer is left out and listed in `lost`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> data = {f"site{k}": rng.normal(k // 2, 1, (200, 3)) for k in range(4)}
    >>> fedwad.matrix(data).cluster(2).tolist()
    [0, 0, 1, 1]
    """
    federation: Federation = fed if hasattr(fed, "ask") else local(fed)  # type: ignore[assignment]
    check_choice(method, "method", ("summary", "hub", "pairs"))
    check_choice(covariance, "covariance", ("diagonal", "full"))
    check_choice(form, "form", get_args(Form))
    if type(labels) is not bool:
        raise InputError(f"labels is {labels!r}; give True or False.")
    if check_order(p) != 2 and (labels or method != "summary"):
        raise InputError(f"p is {p!r}; dataset distances and methods 'hub' and 'pairs' have p = 2.")
    plan = _Plan(
        names=_chosen(federation, clients),
        support=check_whole(support, "support"),
        rounds=check_whole(rounds, "rounds"),
        seed=check_whole(seed, "seed", 0),
        p=check_order(p),
        classes=covariance if labels else "ignored",
        form=form,
        threads=(os.cpu_count() or 1) if threads is None else check_whole(threads, "threads"),
        tell=on_progress or (lambda _: None),
    )
    line = Line(federation)
    promise = None if privacy is None else check_private(privacy, method, plan.p, labels)
    with steady():
        if promise is not None:
            found = _by_release(line, plan, promise)
        else:
            found = {"summary": _by_summary, "hub": _by_hub, "pairs": _by_pairs}[method](line, plan)
    smallest = [] if promise is not None else [summary.smallest for summary in found.summaries]
    lower = np.minimum(found.lower, found.upper)
    return MatrixResult(
        ids=found.ids, value=np.clip(found.value, lower, found.upper), lower=lower, upper=found.upper,
        fedwad=found.fedwad, method=method, support=plan.support, rounds=plan.rounds if found.history else 0,
        seed=plan.seed, labels=labels, covariance=covariance, p=plan.p, history=found.history, traffic=line.traffic,
        smallest=min(smallest, default=None), forms=tuple(sorted({summary.form for summary in found.summaries})),
        lost=line.lost, privacy=None if promise is None else promise.to_dict(),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Found:
    ids: tuple[str, ...]
    value: Floats
    lower: Floats
    upper: Floats
    summaries: Sequence[Summary | LabelledSummary]
    history: tuple[MatrixRound, ...] = ()
    fedwad: Floats | None = None


def _chosen(federation: Federation, clients: Sequence[str] | None) -> tuple[str, ...]:
    names = federation.names if clients is None else tuple(clients)
    unknown = [name for name in names if name not in federation.names]
    if unknown:
        raise InputError(f"There is no client '{unknown[0]}'; the clients are {', '.join(federation.names)}.")
    if len(set(names)) < len(names):
        raise InputError("A client is named twice; name each once.")
    if len(names) < 2:
        raise InputError(f"{len(names)} client{'' if len(names) == 1 else 's'} came; a matrix needs at least two.")
    return names


def _same_features(dimensions: Mapping[str, int], classes: Classes = "ignored") -> None:
    first, expected = next(iter(dimensions.items()))
    for name, dimension in dimensions.items():
        if dimension != expected:
            raise InputError(
                f"{first} has {features_of(expected, classes)} features and {name} has"
                f" {features_of(dimension, classes)}; distances need the same features at all clients."
            )


def _by_summary(line: Line, plan: _Plan) -> _Found:
    """One message from each client, and all the rest on the server."""
    plan.tell(Progress("asking clients", 0, len(plan.names)))
    request = SummaryRequest(plan.support, plan.form, plan.p, plan.seed, plan.classes)
    replies = line.gather(dict.fromkeys(plan.names, request), SummaryReply)
    plan.tell(Progress("asking clients", len(plan.names), len(plan.names)))
    ids = tuple(replies)
    summaries = [reply.summary for reply in replies.values()]
    _same_features({name: reply.summary.dimension for name, reply in replies.items()})
    pairs = _pairs(len(ids))
    upper = upper_bounds(summaries, plan.p, plan.threads, _counted("bounding distances", len(pairs), plan))
    lower = lower_bounds(summaries, plan.p, plan.threads)
    different = [pair for pair in pairs if not same(summaries[pair[0]], summaries[pair[1]])]
    value = lower.copy()
    total = twin_transports([summary.count for summary in summaries], different, plan.seed)
    if different:
        count = _counted("estimating distances", total, plan)
        twins = twin_distances(summaries, different, plan.p, plan.seed, _keys(ids), plan.threads, count)
        rows, cols = np.array(different).T
        value[rows, cols] = value[cols, rows] = twins[rows, cols]
    return _Found(ids, value, lower, upper, summaries)


def _by_release(line: Line, plan: _Plan, promise: DP) -> _Found:
    """One release from each client, and all the rest on the server, from noisy numbers."""
    plan.tell(Progress("asking clients", 0, len(plan.names)))
    replies = line.gather(dict.fromkeys(plan.names, PrivateRequest.of(promise)), PrivateReply)
    plan.tell(Progress("asking clients", len(plan.names), len(plan.names)))
    _same_features({name: len(reply.mean) for name, reply in replies.items()})
    pictures = [picture(reply) for reply in replies.values()]
    summaries = [one.summary for one in pictures]
    pairs = _pairs(len(replies))
    total = twin_transports([summary.count for summary in summaries], pairs, plan.seed)
    count = _counted("estimating distances", total, plan)
    twins = twin_distances(summaries, pairs, 2.0, plan.seed, _keys(tuple(replies)), plan.threads, count)
    value, lower, upper = noise_effect(pictures, plan.seed).corrected(twins)
    return _Found(tuple(replies), value, lower, upper, summaries)


def _keys(ids: Sequence[str]) -> list[int]:
    return [int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "little") for name in ids]


def _counted(stage: str, total: int, plan: _Plan) -> Callable[[], None]:
    """What to call after each of `total` steps of a stage."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        plan.tell(Progress(stage, done, total))

    return count


def _pairs(count: int) -> list[Pair]:
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def _by_hub(line: Line, plan: _Plan) -> _Found:
    """All clients transport to one support z, which moves to the mean of their cell means: z_s <- mean_c x_s^c."""
    replies = line.gather(dict.fromkeys(plan.names, MomentsRequest(plan.classes)), Moments)
    _same_features({name: len(reply.mean) for name, reply in replies.items()}, plan.classes)
    support = pooled_start(list(replies.values()), plan.support, np.random.default_rng(plan.seed))
    run, names, history = os.urandom(8).hex(), tuple(replies), list[MatrixRound]()
    for number in range(1, plan.rounds + 1):
        plan.tell(Progress("rounds", number - 1, plan.rounds))
        since = time.perf_counter()
        request = CellsRequest(run, support, 2.0, "isotropic", plan.classes)
        told = line.gather(dict.fromkeys(names, request), SummaryReply)
        names = tuple(told)
        means = [_means(reply, support) for reply in told.values()]
        moved = Measure(np.mean(means, axis=0), support.weights)
        shift = math.sqrt(float(support.weights @ ((moved.points - support.points) ** 2).sum(axis=1)))
        history.append(MatrixRound(number, time.perf_counter() - since, shift))
        support = moved
    forms = _closing_forms(names, plan, support.dimension)
    requests = {name: CellsRequest(run, support, 2.0, form, plan.classes) for name, form in forms.items()}
    closing = line.gather(requests, SummaryReply)
    plan.tell(Progress("rounds", plan.rounds, plan.rounds))
    summaries = [reply.summary for reply in closing.values()]
    between = _between(summaries, [_means(reply, support) for reply in closing.values()], support.weights, plan.threads)
    spread = np.array([summary.spread for summary in summaries])
    within = np.hypot(spread[:, None], spread[None, :])
    chosen = [index for index, name in enumerate(closing) if forms[name] != "diagonal"] or list(range(len(summaries)))
    value = np.hypot(between, math.sqrt(_share(summaries, chosen, between, within, plan)) * within)
    upper, lower = np.hypot(between, within), lower_bounds(summaries, 2.0, plan.threads)
    alike = [(summary.count, summary.cells.points.tobytes(), summary.spread) for summary in summaries]
    for i, j in _pairs(len(summaries)):
        if alike[i] == alike[j]:  # they may have told more or less of the same covariance
            value[i, j] = value[j, i] = lower[i, j]
    np.fill_diagonal(upper, 0.0)
    np.fill_diagonal(value, 0.0)
    return _Found(tuple(closing), value, lower, upper, summaries, tuple(history))


def _closing_forms(names: Sequence[str], plan: _Plan, dimension: int) -> dict[str, Form]:
    """What each client is to tell of its covariance: when there are many features, a few clients tell more."""
    if plan.form != "auto" or dimension <= _FULL_UP_TO:
        return dict.fromkeys(names, plan.form)
    chosen = set(np.random.default_rng(plan.seed).permutation(len(names))[:_CALIBRATION_CLIENTS].tolist())
    return {name: "lowrank" if index in chosen else "diagonal" for index, name in enumerate(names)}


def _means(reply: SummaryReply, support: Measure) -> Floats:
    """The cell means of a reply, one for each point of the support."""
    summary = reply.summary
    if not isinstance(summary, Summary) or summary.means.shape != support.points.shape:
        raise InputError("A client's samples do not reach all points of the support; take a smaller one.")
    return summary.means


def _between(
    summaries: Sequence[Summary | LabelledSummary], means: Sequence[Floats], weights: Floats, threads: int
) -> Floats:
    """Distances between the cell means of all pairs: cells of the same point of the hub are coupled.

    Unless there are many pairs, the best coupling, which is a little better, is looked for.
    """
    flat = np.array([(np.sqrt(weights)[:, None] * one).ravel() for one in means])
    flat -= flat[0].copy()
    unit = float(np.abs(flat).max()) or 1.0  # in which squares do not vanish
    flat /= unit
    between = unit * np.sqrt(ground_cost(flat, flat))
    pairs = _pairs(len(summaries))
    if len(pairs) <= _BEST_COUPLINGS:
        cells = {index: summary.cells for index, summary in enumerate(summaries)}
        for (i, j), best in pair_distances(cells, pairs, 2.0, threads):
            between[i, j] = between[j, i] = min(best, float(between[i, j]))
    doubt = np.array([rounding(summary, summary) for summary in summaries])
    return np.asarray(np.maximum(between, between.T) + doubt[:, None] + doubt[None, :])


def _share(
    summaries: Sequence[Summary | LabelledSummary],
    among: Sequence[int],
    between: Floats,
    within: Floats,
    plan: _Plan,
) -> float:
    """How much of the upper bound's second term, independent coupling inside cells, samples of this kind need.

    Between one and zero, the same for all pairs, from the twins of a few clients.
    """
    pairs = [(i, j) for i in among for j in among if i < j and within[i, j] > 0]
    pairs = [(i, j) for i, j in pairs if not same(summaries[i], summaries[j])]
    if not pairs:
        return 1.0
    rng = np.random.default_rng(plan.seed)
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:_CALIBRATION_PAIRS]]
    twins = twin_distances(summaries, chosen, 2.0, plan.seed, threads=plan.threads, among=_ONE_DRAW)
    shares = [(twins[pair] / within[pair]) ** 2 - (between[pair] / within[pair]) ** 2 for pair in chosen]
    return float(np.clip(np.median(shares), 0.0, 1.0))


def _by_pairs(line: Line, plan: _Plan) -> _Found:
    """The paper's protocol: a FedWaD of its own for each pair, all of a round in one message to each client."""
    replies = line.gather(dict.fromkeys(plan.names, MomentsRequest(plan.classes)), Moments)
    _same_features({name: len(reply.mean) for name, reply in replies.items()}, plan.classes)
    names, history = tuple(replies), list[MatrixRound]()
    loops = {}
    for i, j in _pairs(len(names)):
        rng = np.random.default_rng([plan.seed, i, j])
        start = pooled_start([replies[names[i]], replies[names[j]]], plan.support, rng)
        loops[names[i], names[j]] = FedWaD(start, rng=rng, classes=plan.classes)
    for number in range(1, plan.rounds + 1):
        plan.tell(Progress("rounds", number - 1, plan.rounds))
        since = time.perf_counter()
        before = {pair: loop.support for pair, loop in loops.items()}
        asked = {pair: loop.request() for pair, loop in loops.items()}
        told, names = _ask_pairs(line, names, asked, TransportReply)
        loops = {pair: loop for pair, loop in loops.items() if set(pair) <= set(names)}
        shifts = []
        for pair, loop in loops.items():
            loop.advance(told[pair, 0], told[pair, 1])
            shifts.append(_shift(before[pair], loop.support))
        history.append(MatrixRound(number, time.perf_counter() - since, float(np.sqrt(np.mean(np.square(shifts))))))
    plan.tell(Progress("rounds", plan.rounds, plan.rounds))
    closing = {pair: CellsRequest(loop.run, loop.support, 2.0, plan.form, plan.classes) for pair, loop in loops.items()}
    cells, names = _ask_pairs(line, names, closing, SummaryReply)
    value, lower, upper, fedwad = (np.zeros((len(names), len(names))) for _ in range(4))
    summaries: list[Summary | LabelledSummary] = []
    chosen = [pair for pair in loops if set(pair) <= set(names)]
    for done, pair in enumerate(chosen, 1):
        found, paper = conclude(cells[pair, 0], cells[pair, 1], 2.0, plan.seed, among=len(chosen))
        i, j = names.index(pair[0]), names.index(pair[1])
        for table, number_found in ((value, found.value), (lower, found.lower), (upper, found.upper), (fedwad, paper)):
            table[i, j] = table[j, i] = number_found
        summaries += [cells[pair, 0].summary, cells[pair, 1].summary]
        plan.tell(Progress("estimating distances", done, len(chosen)))
    return _Found(names, value, lower, upper, summaries, tuple(history), fedwad)


def _shift(before: Measure, after: Measure) -> float:
    if before.points.shape != after.points.shape:
        return solve(before, after).distance
    return math.sqrt(float(after.weights @ ((after.points - before.points) ** 2).sum(axis=1)))


def _ask_pairs(
    line: Line, names: tuple[str, ...], asked: Mapping[tuple[str, str], Any], expected: type[R]
) -> tuple[dict[tuple[tuple[str, str], int], R], tuple[str, ...]]:
    """Ask both clients of each pair, in one bundle for each client; the replies by pair and side, and who is left.

    A client that refuses one of its requests is lost as if it had refused all.
    """
    mine = {name: [pair for pair in asked if name in pair] for name in names}
    bundles = {name: Bundle(tuple(asked[pair] for pair in pairs)) for name, pairs in mine.items()}
    replies = line.gather(bundles, BundleReply)
    found: dict[tuple[tuple[str, str], int], R] = {}
    left = []
    for name, bundle in replies.items():
        failures = [reply for reply in bundle.replies if not isinstance(reply, expected)]
        if failures:
            _lose(line, name, failures[0])
            continue
        left.append(name)
        for pair, reply in zip(mine[name], bundle.replies, strict=True):
            if isinstance(reply, expected):
                found[pair, pair.index(name)] = reply
    if len(left) < 2:
        raise FederationError(
            f"Fewer than two clients are left: {'; '.join(f'{k}: {v}' for k, v in line.lost.items())}"
        )
    return found, tuple(left)


def _lose(line: Line, name: str, reply: Any) -> None:
    failure = reply if isinstance(reply, Failure) else Failure("garbage", f"a {type(reply).__name__} came.")
    if failure.code == "input":
        raise error_of(name, failure)
    line.lost[name] = failure.sentence
