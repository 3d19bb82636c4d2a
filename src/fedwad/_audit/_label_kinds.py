"""One record whose label is of another kind: does it change more than its own part of a release?

If the kind of a label depended on the whole column, one odd label would move the contribution of
every record, and the noise is made for one.
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

__all__ = ["ODD_LABELS", "moved_by_one_label"]

#: Labels that are of another kind than words and integers, or of one that is out of range.
ODD_LABELS: tuple[object, ...] = ("?", "", None, float("nan"), 1.5, 10**30, "two\nlines")
_DEVIATIONS = 8  # standard deviations of noise; a larger change is not chance


def moved_by_one_label(data: Dataset, policy: Policy) -> tuple[int, int, str]:
    """How many contributions to a release by class one odd label moves, beyond its own.

    Also the number of replies, and why there was none. All contributions count if the public
    description changes with the label.
    """
    answered, moved = 0, 0
    names: list[object] = [] if data.labels is None else data.labels.tolist()
    try:
        plain = _asked(data.measure, names, policy)
        for odd in ODD_LABELS:
            other = _asked(data.measure, [*names[:-1], odd], policy)
            answered += 1
            moved = max(moved, _moved(plain, other, len(names)))
    except FedwadError as error:
        return moved, answered, str(error)
    return moved, answered, ""


def _asked(measure: Measure, names: Sequence[object], policy: Policy) -> tuple[Reply, Reply]:
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


def _moved(plain: tuple[Reply, Reply], other: tuple[Reply, Reply], count: int) -> int:
    if plain[0] != other[0]:
        return count
    assert isinstance(plain[1], PrivateReply)  # noqa: S101
    assert isinstance(other[1], PrivateReply)  # noqa: S101
    change: Floats = np.abs(plain[1].masses - other[1].masses)
    chance = _DEVIATIONS * np.sqrt(2.0) * float(plain[1].noise[2])
    beyond = float(np.maximum(change - chance, 0.0).sum()) - 2.0 / count
    return int(np.floor(count * max(0.0, beyond)))
