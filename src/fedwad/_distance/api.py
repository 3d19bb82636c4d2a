"""The distance between two clients: FedWaD (Algorithm 1 of the paper), or one summary from each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_choice, check_whole
from fedwad._distance.result import DistanceResult
from fedwad._distance.rounds import FedWaD, Round
from fedwad.errors import InputError
from fedwad.federation import (
    CellsRequest,
    Classes,
    MeteredFederation,
    Moments,
    MomentsRequest,
    PrivateReply,
    PrivateRequest,
    Site,
    SummaryReply,
    SummaryRequest,
    local,
)
from fedwad.ot import (
    ClassCovariance,
    CovarianceType,
    Estimate,
    Interpolant,
    Measure,
    check_order,
    estimate,
    lower_bound,
    synthetic_distance,
    upper_bound,
)
from fedwad.privacy import DP, denoise, noise_effect

__all__ = ["check_private", "conclude", "distance", "features_of", "pooled_start"]

Method = Literal["fedwad", "summary"]


def distance(
    a: Any,
    b: Any,
    method: Method = "fedwad",
    support: Any = None,
    rounds: int = 20,
    p: float = 2.0,
    t: float | Literal["random"] = 0.5,
    interpolant: Interpolant = "barycentric",
    seed: int = 0,
    *,
    reveal: Literal["last", "every"] = "last",
    tol: float = 0.0,
    max_support: int = 1000,
    covariance_type: CovarianceType = "auto",
    labels: bool = False,
    covariance: ClassCovariance = "diag",
    privacy: DP | Mapping[str, Any] | None = None,
    callback: Callable[[Round], None] | None = None,
) -> DistanceResult:
    """Estimate W_p between the data of two clients without bringing the data together.

    Parameters
    ----------
    a, b : two clients of one federation (`fed["paris"]`), or data (arrays, frames, paths), which
        become local clients
    method : "fedwad" for the paper's rounds, "summary" for one message from each client
    support : int, or for "fedwad" the starting support itself (array or Measure)
        Number of points that travel (default 100), or of cells in a summary (default 10).
    rounds : most rounds of "fedwad"
    p : order of the distance, at least 1
    t : place on the geodesic, in (0, 1), or "random" for a fresh one each round. It protects no
        data.
    interpolant : "barycentric" keeps the support small; "exact" is the paper's exact interpolating
        measure, which reveals every sample to the server
    seed : the same seed gives the same bits
    reveal : whether clients tell their distance to the support in the "last" message only or in
        "every" round. Telling it last, as the paper proposes, protects no data either: what is told
        in between gives as much away.
    tol : stop when the server's running estimate changes by less than this fraction twice in a row
    max_support : most atoms that an exact interpolating measure may keep
    covariance_type : what clients tell of the covariance within cells: "full", "lowrank",
        "diagonal" or "isotropic"; "auto" is full up to 1024 features
    labels, covariance : dataset distance between labelled data, see `fedwad.otdd`
    privacy : `fedwad.DP`: each client makes one release under differential privacy, and the
        distance is estimated from those; for method "summary" and p = 2, without labels. `lower`
        and `upper` then are no certificate.
    callback : called with each finished `Round`, for progress bars

    Returns
    -------
    DistanceResult
        `value`, the certified `lower` and `upper`, the paper's estimate `fedwad`, `history`,
        `support`, `traffic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (300, 2)), rng.normal(3, 1, (300, 2))
    >>> r = fedwad.distance(X, Y, method="summary")
    >>> bool(r.lower <= fedwad.wasserstein(X, Y) <= r.upper), abs(r.value / fedwad.wasserstein(X, Y) - 1) < 0.02
    (True, True)

    References
    ----------
    Rakotomamonjy, Nadjahi, Ralaivola, Federated Wasserstein Distance, ICLR 2024.
    """
    p, seed = check_order(p), check_whole(seed, "seed", 0)
    check_choice(method, "method", ("fedwad", "summary"))
    check_choice(covariance, "covariance", ("diag", "full"))
    if labels and p != 2:
        raise InputError(f"p is {p:g}; a dataset distance has p = 2.")
    classes: Classes = covariance if labels else "ignored"
    first, second = _sites(a, b)
    names = first.name, second.name
    if first == second:
        return DistanceResult.zero(method, p, seed, names, classes)
    line = MeteredFederation(first.federation)
    with single_threaded_blas():
        if privacy is not None:
            return _by_release(line, names, check_private(privacy, method, p, labels), seed)
        if method == "summary":
            cells = check_whole(10 if support is None else support, "support")
            return _by_summary(
                line, names, SummaryRequest(cells, covariance_type, p, seed, classes)
            )
        rng = np.random.default_rng(seed)
        start = _start(line, names, 100 if support is None else support, rng, classes)
        loop = FedWaD(start, p, t, interpolant, reveal, max_support, rng, classes)
        return _by_rounds(
            line, names, loop, check_whole(rounds, "rounds"), tol, covariance_type, seed, callback
        )


def _sites(a: Any, b: Any) -> tuple[Site, Site]:
    if isinstance(a, Site) and isinstance(b, Site):
        if a.federation is not b.federation:
            raise InputError("The two clients belong to different federations; take both from one.")
        return a, b
    if isinstance(a, Site) or isinstance(b, Site):
        raise InputError(
            "A client and plain data cannot be mixed; put the data into a federation of their own client."
        )
    if a is b:
        fed = local({"a": a})
        return fed["a"], fed["a"]
    fed = local({"a": a, "b": b})
    return fed["a"], fed["b"]


def _same_features(
    names: tuple[str, str], dimensions: list[int], classes: Classes = "ignored"
) -> None:
    if dimensions[0] != dimensions[1]:
        first, second = (features_of(dimension, classes) for dimension in dimensions)
        raise InputError(
            f"{names[0]} has {first} features and {names[1]} has {second};"
            " a distance needs the same features on both sides."
        )


def features_of(dimension: int, classes: Classes) -> int:
    """The number of features d of samples that have d, 3 d or 2 d + d^2 coordinates with those of
    their class."""
    return {"ignored": dimension, "diag": dimension // 3, "full": math.isqrt(dimension + 1) - 1}[
        classes
    ]


def _by_summary(
    line: MeteredFederation, names: tuple[str, str], request: SummaryRequest
) -> DistanceResult:
    """One message from each client, and all the rest on the server."""
    replies = line.ask(dict.fromkeys(names, request), SummaryReply)
    a, b = (replies[name].summary for name in names)
    _same_features(names, [a.dimension, b.dimension])
    p, seed = request.p, request.seed
    found = estimate(a, b, p, seed)
    return DistanceResult(
        value=found.value,
        lower=found.lower,
        upper=found.upper,
        fedwad=None,
        history=(),
        support=None,
        traffic=line.traffic,
        method="summary",
        p=p,
        seed=seed,
        clients=names,
        covariance_types=(a.covariance_type, b.covariance_type),
        min_cell_size=min(a.min_cell_size, b.min_cell_size),
        classes=request.classes,
    )


def check_private(privacy: Any, method: str, p: float, labels: bool) -> DP:
    """The promise; InputError for what cannot be had with it."""
    promise = DP.of(privacy)
    if method != "summary" or p != 2 or labels:
        raise InputError(
            "Differential privacy is for method='summary' with p = 2 and without labels; change that."
        )
    return promise


def _by_release(
    line: MeteredFederation, names: tuple[str, str], promise: DP, seed: int
) -> DistanceResult:
    """One release from each client, and all the rest on the server, from noisy numbers."""
    replies = line.ask(dict.fromkeys(names, PrivateRequest.of(promise)), PrivateReply)
    _same_features(names, [len(replies[name].mean) for name in names])
    denoised = [denoise(replies[name]) for name in names]
    value = synthetic_distance(denoised[0].summary, denoised[1].summary, 2.0, seed)
    found = noise_effect(denoised, seed).corrected(np.full((2, 2), value))
    value, lower, upper = (float(table[0, 1]) for table in found)
    return DistanceResult(
        value=value,
        lower=lower,
        upper=upper,
        fedwad=None,
        history=(),
        support=None,
        traffic=line.traffic,
        method="summary",
        p=2.0,
        seed=seed,
        clients=names,
        covariance_types=("full", "full"),
        privacy=promise.to_dict(),
    )


def _start(
    line: MeteredFederation,
    names: tuple[str, str],
    support: Any,
    rng: np.random.Generator,
    classes: Classes,
) -> Measure:
    """The given support, or one drawn around the clients' pooled mean with their pooled scale."""
    if isinstance(support, Measure):
        return support
    if not isinstance(support, int | np.integer) or isinstance(support, bool):
        return Measure(support, name="support")
    size = check_whole(support, "support")
    replies = line.ask(dict.fromkeys(names, MomentsRequest(classes)), Moments)
    _same_features(names, [len(replies[name].mean) for name in names], classes)
    return pooled_start([replies[name] for name in names], size, rng)


def pooled_start(moments: Sequence[Moments], size: int, rng: np.random.Generator) -> Measure:
    """A support of `size` points drawn around the clients' pooled mean with their pooled scale."""
    counts = np.array([one.count for one in moments], dtype=np.float64)
    shares = counts / counts.sum()
    origin = moments[0].mean  # a large common offset then costs no digits
    mean = origin + sum(
        share * (one.mean - origin) for share, one in zip(shares, moments, strict=True)
    )
    scale = np.zeros_like(mean)
    for share, one in zip(shares, moments, strict=True):
        # Root sums as hypot, which neither overflows nor vanishes at extreme scales.
        scale = np.hypot(scale, math.sqrt(share) * np.hypot(one.scale, one.mean - mean))
    return Measure(mean + scale * rng.standard_normal((size, len(mean))))


def _by_rounds(
    line: MeteredFederation,
    names: tuple[str, str],
    loop: FedWaD,
    rounds: int,
    tol: float,
    covariance_type: CovarianceType,
    seed: int,
    callback: Callable[[Round], None] | None,
) -> DistanceResult:
    """Algorithm 1, then one closing message in which the clients tell distances and cells."""
    while len(loop.history) < rounds and not loop.has_settled(tol):
        replies = line.ask(dict.fromkeys(names, loop.request()), loop.reply_type)
        record = loop.advance(*(replies[name] for name in names))
        if callback is not None:
            callback(record)
    closing = CellsRequest(loop.run, loop.support, loop.p, covariance_type, loop.classes)
    replies_closing = line.ask(dict.fromkeys(names, closing), SummaryReply)
    mu, nu = (replies_closing[name] for name in names)
    found, fedwad = conclude(mu, nu, loop.p, seed)
    return DistanceResult(
        value=found.value,
        lower=found.lower,
        upper=found.upper,
        fedwad=fedwad,
        history=loop.closed_history(fedwad, found.upper),
        support=loop.support,
        traffic=line.traffic,
        method="fedwad",
        p=loop.p,
        seed=seed,
        clients=names,
        covariance_types=(mu.summary.covariance_type, nu.summary.covariance_type),
        min_cell_size=min(mu.summary.min_cell_size, nu.summary.min_cell_size),
        classes=loop.classes,
    )


def conclude(
    mu: SummaryReply, nu: SummaryReply, p: float, seed: int, among: int | None = None
) -> tuple[Estimate, float]:
    """What the closing messages of FedWaD tell: our estimate with its interval, and the paper's
    estimate."""
    fedwad = (mu.distance or 0.0) + (nu.distance or 0.0)  # the line has checked that they are told
    a, b = mu.summary, nu.summary
    if p == 2:
        found = estimate(a, b, 2.0, seed, among)
        value, lower, upper = found.value, found.lower, found.upper
    else:
        value, lower, upper = fedwad, lower_bound(a, b, p), upper_bound(a, b, p)
    # The glued coupling never costs more than fedwad in exact arithmetic; the minimum keeps that in
    # floating point.
    upper = min(fedwad, upper)
    lower = min(lower, upper)
    return Estimate(min(max(value, lower), upper), lower, upper), fedwad
