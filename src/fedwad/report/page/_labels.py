"""Placing names beside dots without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedwad.ot import Floats
from fedwad.report.page._figures import FONT_SIZE
from fedwad.report.page._text import shorten, text_width

__all__ = ["Label", "place_labels", "place_names"]

_GAP = 9.0  # pixels from a dot's centre to its name
_CLEARANCE = 6.0  # pixels around a dot that no name may cover
_MAX_CHARACTERS = 22

Anchor = Literal["start", "middle", "end"]
#: Steps right and down from a dot, in units of the gap, and which end of the name is there.
_DIRECTIONS: tuple[tuple[float, float, Anchor], ...] = (
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
    """The position of a name: a point at half its height, and which part of the name is there."""

    x: float
    y: float
    anchor: Anchor


Box = tuple[float, float, float, float]  # left, top, right, bottom


def place_names(
    names: Sequence[str],
    dots: Floats,
    area: tuple[float, float],
    lines: Sequence[tuple[int, int]] = (),
) -> list[tuple[str, Label | None]]:
    """The shortened name of each dot, and its position, or None if there is no room."""
    texts = [shorten(name, _MAX_CHARACTERS) for name in names]
    widths = [text_width(text, FONT_SIZE) for text in texts]
    return [*zip(texts, place_labels(dots, widths, FONT_SIZE + 2, area, lines), strict=True)]


def place_labels(
    dots: Floats,
    widths: Sequence[float],
    height: float,
    area: tuple[float, float],
    lines: Sequence[tuple[int, int]] = (),
) -> list[Label | None]:
    """For each dot one of eight positions whose box overlaps no dot and no earlier name, or None.

    Names stay within `area`, its width and height. Positions that no line between dots crosses are
    preferred. Dots with many neighbours come first, because they have few free positions.
    """
    taken: list[Box] = [
        (x - _CLEARANCE, y - _CLEARANCE, x + _CLEARANCE, y + _CLEARANCE) for x, y in dots.tolist()
    ]
    labels: list[Label | None] = [None] * len(dots)
    neighbours = ((abs(dots[:, None] - dots[None]) < 4 * height).all(axis=2)).sum(axis=1)
    line_points = _points_on_lines(dots, lines)
    for k in sorted(range(len(dots)), key=lambda k: -int(neighbours[k])):
        others = [box for box in taken if box is not taken[k]]
        free = []
        for label in _candidates(dots[k], height):
            box = _box(label, widths[k], height)
            if _is_inside(box, area) and not any(_overlap(box, other) for other in others):
                free.append((_contains_any(box, line_points), label, box))
        if free:
            _, labels[k], box = min(free, key=lambda candidate: candidate[0])
            taken.append(box)
    return labels


def _candidates(dot: Floats, height: float) -> list[Label]:
    """The eight positions beside a dot, the best first."""
    x, y = map(float, dot)
    return [
        Label(
            x + right * _GAP, y + down * (_GAP + height / 2 if anchor == "middle" else _GAP), anchor
        )
        for right, down, anchor in _DIRECTIONS
    ]


def _points_on_lines(dots: Floats, lines: Sequence[tuple[int, int]]) -> Floats:
    """Points on the lines, close enough that no name fits between two of them."""
    fraction = np.linspace(0, 1, 60)[:, None]
    points = [(1 - fraction) * dots[i] + fraction * dots[j] for i, j in lines]
    return np.vstack(points) if points else np.zeros((0, 2))


def _contains_any(box: Box, points: Floats) -> bool:
    x, y = points.T
    return bool(((x > box[0]) & (x < box[2]) & (y > box[1]) & (y < box[3])).any())


def _box(label: Label, width: float, height: float) -> Box:
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return left, label.y - height / 2, left + width, label.y + height / 2


def _is_inside(box: Box, area: tuple[float, float]) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= area[0] and box[3] <= area[1]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
