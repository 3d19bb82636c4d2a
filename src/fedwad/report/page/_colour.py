"""Colours: a uniform ramp for distances and distinct colours for clusters, both colour-blind safe.

The ramp runs through OKLab (Ottosson 2020), in which equal steps appear about equally large. Its
lightness is monotone, so it is readable in grey, in print and for colour-blind readers. Its steps
have equal length.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from fedwad.ot import Floats

__all__ = ["CLUSTERS", "LEVELS", "colour_css", "contrast", "level_of", "oklab", "ramp"]

#: Shades of the ramp. Readers cannot distinguish finer steps in neighbouring cells.
LEVELS = 32

#: (light mode, dark mode), after Okabe and Ito; the contrast to the page is at least 3 : 1.
CLUSTERS = (
    ("#0a6ea8", "#5cb3e8"),
    ("#c8500a", "#ff8a4c"),
    ("#00835f", "#3fc79d"),
    ("#a8508a", "#e695c4"),
    ("#8f6c00", "#e3bb3f"),
    ("#5b4b9a", "#a99be8"),
    ("#555555", "#bdbdbd"),
)

_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
# Lightness, chroma and hue in degrees along the ramp: ink blue for similar,
# through sea green, to pale straw for far apart.
_NEAR_TO_FAR = np.array(
    [
        (0.27, 0.085, 268.0),
        (0.42, 0.10, 245.0),
        (0.58, 0.095, 212.0),
        (0.76, 0.085, 170.0),
        (0.945, 0.05, 105.0),
    ]
)


@cache
def ramp() -> tuple[str, ...]:
    """The shades from similar to far apart; in dark mode they are reversed."""
    places = np.linspace(0, 1, 2001)
    lightness, chroma, hue = (
        np.interp(places, np.linspace(0, 1, 5), column) for column in _NEAR_TO_FAR.T
    )
    angle = np.radians(hue)
    lab = np.column_stack([lightness, chroma * np.cos(angle), chroma * np.sin(angle)])
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(lab, axis=0), axis=1))])
    even = np.interp(np.linspace(0, length[-1], LEVELS), length, places)
    return tuple(
        _hex(np.array([np.interp(place, places, column) for column in lab.T])) for place in even
    )


def level_of(
    values: Floats, least: float, most: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The shade of each value on a ramp from `least` to `most`."""
    width = most - least
    share = np.zeros(np.shape(values)) if width <= 0 else (np.asarray(values) - least) / width
    return np.clip(np.floor(share * LEVELS), 0, LEVELS - 1).astype(np.int64)


def colour_css() -> str:
    """Classes l0 ... for shades, t0 ... for text upon them, s0 ... for cells of tables with both,
    c0 ... for clusters, in light and dark."""
    light, dark = ramp(), ramp()[::-1]
    rules = [
        _mode(light, 0),
        "@media (prefers-color-scheme: dark) {\n@media screen {",
        _mode(dark, 1),
        "}}",
    ]
    return "\n".join(rules)


def _mode(shades: tuple[str, ...], mode: int) -> str:
    levels = "".join(
        f".l{k}{{fill:{shade};stroke:{shade}}}.t{k}{{fill:{_text_on(shade)}}}"
        f".s{k}{{background:{shade};color:{_text_on(shade)}}}"
        for k, shade in enumerate(shades)
    )
    return levels + "".join(f".c{k}{{--c:{pair[mode]}}}" for k, pair in enumerate(CLUSTERS))


def _text_on(shade: str) -> str:
    return max("#000000", "#ffffff", key=lambda ink: contrast(ink, shade))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of the Web Content Accessibility Guidelines, from 1 to 21."""
    low, high = sorted(float(_linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(colour: str) -> Floats:
    """Lightness, green-red and blue-yellow of a #rrggbb colour."""
    return np.asarray(_TO_LAB @ np.cbrt(_TO_LMS @ _linear(colour)))


def _linear(colour: str) -> Floats:
    coded = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def _hex(lab: Floats) -> str:
    linear = np.clip(np.linalg.solve(_TO_LMS, np.linalg.solve(_TO_LAB, lab) ** 3), 0, 1)
    coded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in coded)
