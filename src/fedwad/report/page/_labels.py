"""Placing names beside dots without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedwad.ot import Floats

__all__ = ["Label", "place_labels"]

_GAP = 9.0  # pixels from a dot's centre to its name
_CLEAR = 6.0  # pixels around a dot that no name may cover

Anchor = Literal["start", "middle", "end"]
_AROUND: tuple[tuple[float, float, Anchor], ...] = (
    (1.0, 0.0, "start"),
    (-1.0, 0.0, "end"),
    (0.0, -1.0, "middle"),
    (0.0, 1.0, "middle"),
    (0.75, -0.75, "start"),
    (0.75, 0.75, "start"),
    (-0.75, -0.75, "end"),
    (-0.75, 0.75, "end"),
)


@dataclass(frozen=True)
class Label:
    """The position of a name: its anchor point at half its height, and which end is anchored."""

    x: float
    y: float
    anchor: Anchor


Box = tuple[float, float, float, float]


def place_labels(
    dots: Floats,
    widths: Sequence[float],
    height: float,
    room: tuple[float, float],
    lines: Sequence[tuple[int, int]] = (),
) -> list[Label | None]:
    """For each dot one of eight positions whose box overlaps no dot and no earlier name, or None.

    Positions that no line between dots crosses are preferred. Dots with many neighbours come first,
    because they have few free positions.
    """
    taken: list[Box] = [(x - _CLEAR, y - _CLEAR, x + _CLEAR, y + _CLEAR) for x, y in dots.tolist()]
    labels: list[Label | None] = [None] * len(dots)
    crowd = ((abs(dots[:, None] - dots[None]) < 4 * height).all(axis=2)).sum(axis=1)
    crossed = _along(dots, lines)
    for k in sorted(range(len(dots)), key=lambda k: -int(crowd[k])):
        others = [box for box in taken if box is not taken[k]]
        free = []
        for label in _candidates(dots[k], height):
            box = _box(label, widths[k], height)
            if _is_inside(box, room) and not any(_meet(box, other) for other in others):
                free.append((_holds(box, crossed), label, box))
        if free:
            _, labels[k], box = min(free, key=lambda found: found[0])
            taken.append(box)
    return labels


def _candidates(dot: Floats, height: float) -> list[Label]:
    x, y = map(float, dot)
    return [
        Label(
            x + right * _GAP, y + down * (_GAP + height / 2 if anchor == "middle" else _GAP), anchor
        )
        for right, down, anchor in _AROUND
    ]


def _along(dots: Floats, lines: Sequence[tuple[int, int]]) -> Floats:
    """Points on the lines, close enough that no name fits between two of them."""
    share = np.linspace(0, 1, 60)[:, None]
    points = [(1 - share) * dots[i] + share * dots[j] for i, j in lines]
    return np.vstack(points) if points else np.zeros((0, 2))


def _holds(box: Box, points: Floats) -> bool:
    x, y = points.T
    return bool(((x > box[0]) & (x < box[2]) & (y > box[1]) & (y < box[3])).any())


def _box(label: Label, width: float, height: float) -> Box:
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return left, label.y - height / 2, left + width, label.y + height / 2


def _is_inside(box: Box, room: tuple[float, float]) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= room[0] and box[3] <= room[1]


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
