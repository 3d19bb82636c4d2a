"""Attacks on training: networks whose weights the server chose to read records.

The first attack chooses units whose thresholds are a little apart along one direction. The
gradients of two neighbouring units then differ by the records between their thresholds. The second
attack chooses a network that classifies records by the side of a plane on which they lie. The
number of correct records in a test, and the mean over classes, change when the plane passes one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fedwad.audit.differencing import random_direction
from fedwad.audit.session import AttackSession, attack, halve
from fedwad.federation import EvaluateRequest, Evaluation, TrainReply, TrainRequest
from fedwad.transport import Floats

_SIZES = (512, 256, 64)  # of the layers of the built-in network


@attack("inverted updates", "one round with weights chosen to reveal records")
def invert_update(
    session: AttackSession, rng: np.random.Generator, small: float = 1e-3, filled_from: float = 1e-3
) -> Floats:
    """Records from one round of training on all samples at once.

    The first weights have the size `small`, so that all units are in their linear part. A gap
    holds a record if its step of the bias is at least `filled_from` of the largest.
    """
    d, scale = session.features, session.clip_norm
    direction = random_direction(d, rng)
    thresholds = np.linspace(-1.0, 1.0, _SIZES[0]) * scale / 1.01
    first = np.tile(small * direction / scale, (_SIZES[0], 1))
    weights = _build_weights(session, first, -small * thresholds / scale, (1.0, 0.0), (0.0, 0.0))
    request = TrainRequest(
        **_request_fields(session, weights),
        epochs=(1,),
        layers=("all",),
        batch_size=session.count,
        learning_rate=100.0,
        momentum=0.0,
        seed=0,
        return_weights=True,
    )
    reply = session.require(request, TrainReply)
    if len(reply.weights) != len(weights):
        return session.no_guesses
    change = (weights - reply.weights).astype(np.float64)
    weight_changes = change[: _SIZES[0] * d].reshape(_SIZES[0], d)
    bias_changes = change[_SIZES[0] * d : _SIZES[0] * (d + 1)]
    # If one record x lies between two thresholds, the changes of the two units differ by c x in the
    # weights and by c in the bias.
    weight_steps, bias_steps = -np.diff(weight_changes, axis=0), -np.diff(bias_changes)
    filled = np.abs(bias_steps) > filled_from * np.abs(bias_steps).max()
    if not filled.any():
        return session.no_guesses
    guesses = weight_steps[filled] / bias_steps[filled][:, None]
    return np.asarray(guesses[np.isfinite(guesses).all(axis=1)])


@attack("counting by tests", "tests of networks that halve the data")
def bisect_by_tests(
    session: AttackSession, rng: np.random.Generator, turn: float = 1e-2, max_features: int = 16
) -> Floats:
    """The outermost record along one direction, from how many records a network classifies right.

    Directions that are turned a little find the same record, and give all its features.

    Each feature takes a message for every halving, so data with more than `max_features` are
    left.
    """
    d = session.features
    if d > max_features:
        return session.no_guesses
    turned = np.eye(d)[0] + turn * np.eye(d)
    farthest = [_find_farthest(session, direction) for direction in turned]
    return np.asarray(np.linalg.solve(turned, np.array(farthest)))[None]


def _find_farthest(
    session: AttackSession, direction: Floats, halvings: int = 30, beyond: float = 50.0
) -> float:
    """The coordinate of the last record along a direction, by bisection.

    No record lies beyond so many clip norms.
    """
    ask = partial(_count_correct, session, direction)
    correct_beyond, norm = ask(beyond * session.clip_norm), session.clip_norm
    return halve(lambda place: ask(place) == correct_beyond, 0.0, 2.0 * norm, halvings)[1]


def _count_correct(
    session: AttackSession, direction: Floats, threshold: float
) -> tuple[int, float | None]:
    """How many records a network classifies right that asks whether they lie beyond a threshold,
    and the mean over classes."""
    first, bias = np.zeros((_SIZES[0], session.features)), np.zeros(_SIZES[0])
    first[0], bias[0] = direction, -threshold
    weights = _build_weights(session, first, bias, (0.0, 1e6), (1e-6, 0.0))
    reply = session.require(EvaluateRequest(**_request_fields(session, weights)), Evaluation)
    return reply.correct, reply.balanced


def _build_weights(
    session: AttackSession,
    first: Floats,
    bias: Floats,
    head: tuple[float, float],
    head_bias: tuple[float, float],
) -> Any:
    """Weights of the built-in network: this first layer, the sum of its units, two logits."""
    classes = len(session.classes)
    second, third = np.zeros((_SIZES[1], _SIZES[0])), np.zeros((_SIZES[2], _SIZES[1]))
    second[0], third[0, 0] = 1.0, 1.0
    last, last_bias = np.zeros((classes, _SIZES[2])), np.full(classes, -1e6)
    last[:2, 0], last_bias[:2] = head[:classes], head_bias[:classes]
    layers = (first, bias, second, np.zeros(_SIZES[1]), third, np.zeros(_SIZES[2]), last, last_bias)
    return np.concatenate([np.ravel(part) for part in layers]).astype(np.float32)


def _request_fields(session: AttackSession, weights: Any) -> dict[str, Any]:
    return {
        "run": "audit",
        "times_trained": 0,
        "model": "mlp",
        "personal_layers": (),
        "weights": weights,
        "classes": session.classes,
        "init_seed": 0,
        "test_size": 0.0,
        "split_seed": 0,
    }
