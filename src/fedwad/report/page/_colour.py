"""Colours: a uniform ramp for distances and distinct colours for clusters, both colour-blind safe.

The ramp runs through OKLab (Ottosson 2020), in which equal steps appear about equally large. Its
lightness is monotone, so it is readable in grey, in print and for colour-blind readers. Its steps
have equal length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad.transport import Floats

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
_DARK = RAMP[:13]  # white is easier to read on these, black on the others


def shade_index(
    values: Floats, low: float, high: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The index of the shade of each value, on a ramp from `low` to `high`."""
    width = high - low
    fraction = np.zeros(np.shape(values)) if width <= 0 else (np.asarray(values) - low) / width
    return np.clip(np.floor(fraction * N_SHADES), 0, N_SHADES - 1).astype(np.int64)


def colour_css() -> str:
    """The style rules of all colours, for light and for dark mode.

    Classes l0, l1, ... are shades, t0, ... text upon them, s0, ... table cells with both, and
    c0, ... clusters.
    """
    light, dark = zip(*CLUSTER_COLOURS, strict=True)
    rules = [
        _colour_rules(RAMP, light),
        "@media (prefers-color-scheme: dark) {\n@media screen {",
        _colour_rules(RAMP[::-1], dark),
        "}}",
    ]
    return "\n".join(rules)


def _colour_rules(shades: Sequence[str], cluster_colours: Sequence[str]) -> str:
    inks = ["#ffffff" if shade in _DARK else "#000000" for shade in shades]
    shade_rules = "".join(
        f".l{k}{{fill:{shade};stroke:{shade}}}.t{k}{{fill:{ink}}}"
        f".s{k}{{background:{shade};color:{ink}}}"
        for k, (shade, ink) in enumerate(zip(shades, inks, strict=True))
    )
    return shade_rules + "".join(f".c{k}{{--c:{one}}}" for k, one in enumerate(cluster_colours))
