"""Attacks on training: networks whose weights the server chose to read records.

The first attack chooses units whose thresholds are a little apart along one direction. The
gradients of two neighbouring units then differ by the records between their thresholds. The second
attack chooses a network that classifies records by the side of a plane on which they lie. The
number of correct records in a test changes when the plane passes a record.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fedwad._audit._curve import random_direction
from fedwad._audit._session import AttackSession
from fedwad.federation import EvaluateRequest, Evaluation, TrainReply, TrainRequest
from fedwad.ot import Floats

__all__ = ["bisect_by_tests", "invert_update"]

_SIZES = (512, 256, 64)  # of the layers of the built-in network
_SMALL = 1e-3  # size of the first weights, so that all units are in their linear part
_FILLED = 1e-3  # part of the largest step of the bias from which a gap holds a record
_HALVINGS = 30
_FAR = 50.0  # threshold beyond all records, in clip norms
_TURN = 1e-2  # by which directions are turned
_MAX_FEATURES = 16  # of counting: each feature takes a message for every halving


def invert_update(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Records from one round of training on all samples at once."""
    d, scale = session.features, session.clip_norm
    direction = random_direction(d, rng)
    thresholds = np.linspace(-1.0, 1.0, _SIZES[0]) * scale / 1.01
    first = np.tile(_SMALL * direction / scale, (_SIZES[0], 1))
    weights = _build_weights(session, first, -_SMALL * thresholds / scale, (1.0, 0.0), (0.0, 0.0))
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
    reply = session.ask(request)
    if not isinstance(reply, TrainReply) or len(reply.weights) != len(weights):
        return session.no_guesses
    change = (weights - reply.weights).astype(np.float64)
    weight_changes = change[: _SIZES[0] * d].reshape(_SIZES[0], d)
    bias_changes = change[_SIZES[0] * d : _SIZES[0] * (d + 1)]
    # If one record x lies between two thresholds, the changes of the two units differ by c x in the
    # weights and by c in the bias.
    weight_steps, bias_steps = -np.diff(weight_changes, axis=0), -np.diff(bias_changes)
    filled = np.abs(bias_steps) > _FILLED * np.abs(bias_steps).max()
    if not filled.any():
        return session.no_guesses
    guesses = weight_steps[filled] / bias_steps[filled][:, None]
    return np.asarray(guesses[np.isfinite(guesses).all(axis=1)])


def bisect_by_tests(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The outermost record along one direction, from how many records a network classifies right.

    Directions that are turned a little find the same record, and give all its features.
    """
    d = session.features
    if d > _MAX_FEATURES:
        return session.no_guesses
    turned = np.eye(d)[0] + _TURN * np.eye(d)
    farthest = [_find_farthest(session, direction) for direction in turned]
    if None in farthest:
        return session.no_guesses
    return np.asarray(np.linalg.solve(turned, np.array(farthest, dtype=np.float64)))[None]


def _find_farthest(session: AttackSession, direction: Floats) -> float | None:
    """The coordinate of the last record along a direction, by bisection."""
    ask = partial(_count_correct, session, direction)
    correct_beyond, low, high = ask(_FAR * session.clip_norm), 0.0, 2.0 * session.clip_norm
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        correct = ask(middle)
        if correct is None or correct_beyond is None:
            return None
        low, high = (low, middle) if correct == correct_beyond else (middle, high)
    return high


def _count_correct(session: AttackSession, direction: Floats, threshold: float) -> int | None:
    """How many records a network classifies right that asks whether they lie beyond a threshold."""
    first, bias = np.zeros((_SIZES[0], session.features)), np.zeros(_SIZES[0])
    first[0], bias[0] = direction, -threshold
    weights = _build_weights(session, first, bias, (0.0, 1e6), (1e-6, 0.0))
    reply = session.ask(EvaluateRequest(**_request_fields(session, weights)))
    return reply.correct if isinstance(reply, Evaluation) else None


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
