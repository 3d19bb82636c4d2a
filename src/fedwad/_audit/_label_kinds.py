"""One record whose label is of another kind: does it change more than its own part of a release?

If one odd label changed how the whole column is read, it would change the contribution of every
record. The noise of a release hides the contribution of one record only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.errors import FedwadError
from fedwad.federation import (
    Client,
    Dataset,
    DescribeRequest,
    Policy,
    PrivateReply,
    PrivateRequest,
    Reply,
)
from fedwad.ot import Floats, Measure
from fedwad.privacy import DP

__all__ = ["ODD_LABELS", "count_moved_by_one_label"]

#: Labels that are neither ordinary words nor integers in range.
ODD_LABELS: tuple[object, ...] = ("?", "", None, float("nan"), 1.5, 10**30, "two\nlines")
_DEVIATIONS = 8  # standard deviations of noise; a larger change is not chance


def count_moved_by_one_label(data: Dataset, policy: Policy) -> tuple[int, int, str]:
    """How many contributions to a release by class one odd label moves, beyond its own.

    All contributions count if the public description changes with the label. The result is this
    number, the number of odd labels that were tried, and the refusal that ended it, else empty.
    """
    answered, moved = 0, 0
    names: list[object] = [] if data.labels is None else data.labels.tolist()
    try:
        unchanged = _ask_client(data.measure, names, policy)
        for odd in ODD_LABELS:
            changed = _ask_client(data.measure, [*names[:-1], odd], policy)
            answered += 1
            moved = max(moved, _count_moved(unchanged, changed, len(names)))
    except FedwadError as error:
        return moved, answered, str(error)
    return moved, answered, ""


def _ask_client(measure: Measure, names: Sequence[object], policy: Policy) -> tuple[Reply, Reply]:
    """What a site with these labels says about itself, and its release by class."""
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    client = Client(Dataset(Measure(measure.points), labels), policy)
    largest_norm = float(np.sqrt((measure.points**2).sum(axis=1)).max()) or 1.0
    guarantee = DP(
        float(policy.epsilon or 1.0),
        clip_norm=largest_norm,
        delta=policy.delta,
        labels=policy.label_names,
    )
    return client.answer(DescribeRequest()), client.answer(PrivateRequest.of(guarantee))


def _count_moved(unchanged: tuple[Reply, Reply], changed: tuple[Reply, Reply], count: int) -> int:
    """How many of `count` contributions differ between two releases by more than chance.

    The changed record may move one contribution out of a class and one into another.
    """
    if unchanged[0] != changed[0]:
        return count
    assert isinstance(unchanged[1], PrivateReply)  # noqa: S101
    assert isinstance(changed[1], PrivateReply)  # noqa: S101
    change: Floats = np.abs(unchanged[1].masses - changed[1].masses)
    chance = _DEVIATIONS * np.sqrt(2.0) * float(unchanged[1].noise[2])
    beyond = float(np.maximum(change - chance, 0.0).sum()) - 2.0 / count
    return int(np.floor(count * max(0.0, beyond)))
