"""Colours: a uniform ramp for distances and distinct colours for clusters, both colour-blind safe.

The ramp runs through OKLab (Ottosson 2020), in which equal steps appear about equally large. Its
lightness is monotone, so it is readable in grey, in print and for colour-blind readers. Its steps
have equal length.
"""

from __future__ import annotations

import numpy as np

from fedwad.ot import Floats

__all__ = ["CLUSTER_COLOURS", "N_SHADES", "RAMP", "colour_css", "contrast", "shade_index"]

#: Shades of the ramp. Readers cannot distinguish finer steps in neighbouring cells.
N_SHADES = 32

#: (light mode, dark mode), after Okabe and Ito; the contrast to the page is at least 3 : 1.
CLUSTER_COLOURS = (
    ("#0a6ea8", "#5cb3e8"),
    ("#c8500a", "#ff8a4c"),
    ("#00835f", "#3fc79d"),
    ("#a8508a", "#e695c4"),
    ("#8f6c00", "#e3bb3f"),
    ("#5b4b9a", "#a99be8"),
    ("#555555", "#bdbdbd"),
)

_SHADES = (
    "15224f152957152f5e153666143d6d1245740e4c7b0a5381"
    "055b8502638a026a8e047291097a951281981b899b25909d"
    "30989f3a9fa146a6a251ada45cb4a568bba774c1a883c7a9"
    "92cca9a1d1aab0d6acbedbb0cce0b4d9e5bae5eac1f1efc9"
)
#: From similar (ink blue), through sea green, to far apart (pale straw); reversed in dark mode.
RAMP = tuple(f"#{_SHADES[k : k + 6]}" for k in range(0, 6 * N_SHADES, 6))


def shade_index(
    values: Floats, least: float, most: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The shade of each value on a ramp from `least` to `most`."""
    width = most - least
    share = np.zeros(np.shape(values)) if width <= 0 else (np.asarray(values) - least) / width
    return np.clip(np.floor(share * N_SHADES), 0, N_SHADES - 1).astype(np.int64)


def colour_css() -> str:
    """Classes l0 ... for shades, t0 ... for text upon them, s0 ... for cells of tables with both,
    c0 ... for clusters, in light and dark."""
    light, dark = RAMP, RAMP[::-1]
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
    return levels + "".join(f".c{k}{{--c:{pair[mode]}}}" for k, pair in enumerate(CLUSTER_COLOURS))


def _text_on(shade: str) -> str:
    return max("#000000", "#ffffff", key=lambda ink: contrast(ink, shade))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of the Web Content Accessibility Guidelines, from 1 to 21."""
    low, high = sorted(float(_linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def _linear(colour: str) -> Floats:
    coded = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
