"""What a client can reply, and how a server makes sure that a reply is one."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args

import numpy as np

from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError
from fedwad.federation.requests import Bundle, CellsRequest, Request, SummaryRequest, TransportRequest
from fedwad.ot import Floats, LabelledSummary, Measure, Summary

__all__ = [
    "BundleReply",
    "Description",
    "Failure",
    "Moments",
    "Reply",
    "SummaryReply",
    "TransportReply",
    "check_reply",
    "error_of",
    "failure_of",
    "payload",
]

_LONGEST_WORD = 200
_SUMS_TO_ONE, _SAME_TRACE = 1e-9, 1e-6


@dataclass(frozen=True)
class Description:
    """Who a client is, which requests it answers, how many features its samples have, and whether they are labelled."""

    name: str
    contact: str
    allow: tuple[str, ...]
    features: int
    labelled: bool


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of samples, mean, and standard deviation of each feature."""

    count: int
    mean: Floats
    scale: Floats


@dataclass(frozen=True, eq=False)
class TransportReply:
    """Interpolating measure between the data (t = 0) and the support (t = 1); the distance if revealed."""

    interpolant: Measure
    distance: float | None


@dataclass(frozen=True, eq=False)
class SummaryReply:
    """A summary, and the distance to the support that made its cells (None for k-means cells)."""

    summary: Summary | LabelledSummary
    distance: float | None


Reply = Description | Moments | TransportReply | SummaryReply


@dataclass(frozen=True)
class Failure:
    """Why a client did not answer: a code, and one sentence that tells no data.

    Codes are "input", "policy" and "certificate" for what the client itself refused, "silent" when nothing came in
    time, "version" and "garbage" for answers that cannot be used, "internal" for a fault inside the client.
    """

    code: str
    sentence: str


@dataclass(frozen=True, eq=False)
class BundleReply:
    """The replies to a Bundle, in its order."""

    replies: tuple[Reply | Failure, ...]


_CODES: dict[str, type[FedwadError]] = {"input": InputError, "policy": PolicyError, "certificate": CertificateError}


def failure_of(error: FedwadError) -> Failure:
    """An error as it may cross the wire."""
    codes = [code for code, kind in _CODES.items() if isinstance(error, kind)]
    return Failure(codes[0] if codes else "federation", str(error))


def error_of(name: str, failure: Failure) -> FedwadError:
    """The error that a failure of client `name` stands for."""
    return _CODES.get(failure.code, FederationError)(f"Client '{name}': {failure.sentence}")


def payload(message: Any) -> int:
    """Number of bytes that a message carries: eight for each number, one for each letter of a word."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if is_dataclass(message):
        return sum(payload(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, tuple):
        return sum(map(payload, message))
    if isinstance(message, str):
        return len(message)
    return 0 if message is None else 8


def check_reply(request: Request | Bundle, reply: Any) -> Failure | None:
    """Why `reply` cannot be the answer to `request`: wrong in itself, or about something else. None if it can."""
    try:
        if isinstance(reply, Failure):
            _check_words(reply.code, reply.sentence)
        elif isinstance(request, Bundle):
            _check_bundle(request, reply)
        else:
            _check_alone(reply)
            _check_fits(request, reply)
    except InputError as error:
        return Failure("garbage", f"its reply cannot be used: {error}")
    except Exception:  # fields that are missing or of another type
        return Failure("garbage", f"its reply, a {type(reply).__name__}, has fields that cannot be read.")
    return None


def _check_bundle(request: Bundle, reply: Any) -> None:
    if not isinstance(reply, BundleReply) or len(reply.replies) != len(request.requests):
        raise InputError("it does not answer each request of the bundle.")
    for asked, answer in zip(request.requests, reply.replies, strict=True):
        wrong = check_reply(asked, answer)
        if wrong is not None:
            raise InputError(wrong.sentence)


def _check_alone(reply: Any) -> None:
    """Each number of a reply by itself."""
    if isinstance(reply, Description):
        _check_words(reply.name, reply.contact, *reply.allow)
        _require(_is_count(reply.features) and type(reply.labelled) is bool, "features are not counted.")
    elif isinstance(reply, Moments):
        _require(_is_count(reply.count), "the number of samples is not a positive whole number.")
        _require(_is_finite(reply.mean, 1) and _is_finite(reply.scale, 1), "mean or scale are not finite.")
        _require(reply.mean.shape == reply.scale.shape and bool((reply.scale >= 0).all()), "the scale is wrong.")
    elif isinstance(reply, TransportReply):
        _check_measure(reply.interpolant)
        _check_distance(reply.distance)
    elif isinstance(reply, SummaryReply):
        _check_distance(reply.distance)
        if isinstance(reply.summary, LabelledSummary):
            _check_weights(reply.summary.weights, len(reply.summary.parts))
            for part in reply.summary.parts:
                _check_summary(part)
            _require(len({part.dimension for part in reply.summary.parts}) == 1, "classes differ in features.")
        else:
            _check_summary(reply.summary)
    else:
        raise InputError(f"a {type(reply).__name__} is none.")


def _check_summary(summary: Summary) -> None:
    _require(_is_finite(summary.means, 2) and summary.means.size > 0, "cell means are not finite.")
    _check_weights(summary.weights, len(summary.means))
    d = summary.dimension
    _require(_is_finite(summary.covariance) and summary.covariance.shape in ((), (d,), (d, d)), "the covariance.")
    diagonal = np.diag(summary.covariance) if summary.covariance.ndim == 2 else summary.covariance
    _require(bool((diagonal >= 0).all()), "a variance is negative.")
    if summary.factors is not None:
        shape = np.shape(summary.factors)
        _require(_is_finite(summary.factors, 2) and shape[1] == d == len(diagonal), "factors of the covariance.")
    _require(_is_count(summary.count) and _is_count(summary.smallest), "counts are not positive whole numbers.")
    _check_distance(summary.spread)
    if summary.p == 2:
        trace = summary.variance
        _require(abs(summary.spread**2 - trace) <= _SAME_TRACE * trace + 1e-290, "spread and covariance disagree.")


def _check_fits(request: Request, reply: Reply) -> None:
    """Whether the reply is about what was asked."""
    if isinstance(request, TransportRequest) and isinstance(reply, TransportReply):
        _require(reply.interpolant.dimension == request.support.dimension, "it has another number of features.")
        if request.interpolant == "barycentric":
            _require(len(reply.interpolant) <= len(request.support), "it has more points than the support.")
        _require((reply.distance is not None) or not request.reveal, "it leaves out its distance.")
    elif isinstance(request, CellsRequest) and isinstance(reply, SummaryReply):
        summary = reply.summary
        if not isinstance(summary, Summary) or reply.distance is None:
            raise InputError("it leaves out its distance to the support.")
        _require(summary.dimension == request.support.dimension, "it has another number of features.")
        _require(len(summary.weights) <= len(request.support), "it has more cells than the support.")
        _require(summary.p == request.p, "it is about another order p.")
    elif isinstance(request, SummaryRequest) and isinstance(reply, SummaryReply):
        labelled = isinstance(reply.summary, LabelledSummary)
        _require(labelled == (request.classes != "ignored"), "it is about other classes.")
        if isinstance(reply.summary, LabelledSummary):
            _require(reply.summary.covariance == request.classes, "its classes are compared by something else.")
            known = 2 if request.classes == "full" else 1
            _require(all(part.within.ndim >= known for part in reply.summary.parts), "it leaves out covariances.")
        for part in reply.summary.parts if isinstance(reply.summary, LabelledSummary) else (reply.summary,):
            _require(len(part.weights) <= request.cells, "it has more cells than were asked for.")
            _require(part.p == request.p, "it is about another order p.")


def _check_measure(measure: Any) -> None:
    _require(type(measure) is Measure and _is_finite(measure.points, 2), "points are not finite.")
    _check_weights(measure.weights, len(measure.points))


def _check_weights(weights: Any, count: int) -> None:
    proper = _is_finite(weights, 1) and weights.shape == (count,) and count > 0 and bool((weights > 0).all())
    _require(proper and abs(float(weights.sum()) - 1) <= _SUMS_TO_ONE, "weights are not positive with sum one.")


def _check_distance(distance: Any) -> None:
    proper = distance is None or (isinstance(distance, float) and 0 <= distance < np.inf)
    _require(proper, "a distance is not a finite number.")


def _check_words(*words: Any) -> None:
    _require(all(type(word) is str and len(word) <= 5 * _LONGEST_WORD for word in words), "words are too long.")


def _is_count(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number >= 1)


def _is_finite(array: Any, ndim: int | None = None) -> bool:
    proper = isinstance(array, np.ndarray) and array.dtype == np.float64 and ndim in (None, array.ndim)
    return bool(proper and np.isfinite(array).all())


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise InputError(sentence)


REPLIES: tuple[type, ...] = get_args(Reply)
