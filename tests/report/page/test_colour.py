"""The ramp is even and reads without colour; marks stand out."""

import re
from pathlib import Path

import numpy as np
import pytest

from fedwad.report import page
from fedwad.report.page._colour import (
    CLUSTER_COLOURS,
    N_SHADES,
    RAMP,
    colour_css,
    shade_index,
)


def contrast(one, other):
    """The contrast ratio of the Web Content Accessibility Guidelines, from 1 to 21."""
    low, high = sorted(linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear light.
BLINDNESS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour):
    coded = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


# Ottosson 2020: in OKLab equal steps appear about equally large.
TO_LMS = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def oklab(colour):
    """Lightness, green-red and blue-yellow of a #rrggbb colour."""
    return np.array(TO_LAB) @ np.cbrt(np.array(TO_LMS) @ linear(colour))


def test_steps_are_even_and_lightness_only_rises():
    shades = np.array([oklab(shade) for shade in RAMP])
    assert len(RAMP) == N_SHADES
    steps = np.linalg.norm(np.diff(shades, axis=0), axis=1)
    assert steps.max() / steps.min() < 1.35  # eight bits a channel leave some unevenness
    assert (np.diff(shades[:, 0]) > 0.005).all()


@pytest.mark.parametrize("kind", BLINDNESS)
def test_the_ramp_reads_without_one_kind_of_cone(kind):
    seen = [
        np.clip(np.array(BLINDNESS[kind]) @ linear(shade), 0, 1) @ [0.2126, 0.7152, 0.0722]
        for shade in RAMP
    ]
    assert (np.diff(np.cbrt(seen)) > 0).all()


def test_known_values_of_oklab_and_contrast():
    np.testing.assert_allclose(oklab("#ffffff"), [1, 0, 0], atol=1e-3)
    np.testing.assert_allclose(oklab("#ff0000"), [0.628, 0.225, 0.126], atol=1e-3)
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=1e-3)


def test_numbers_can_be_read_on_every_shade():
    pairs = re.findall(r"\{fill:(#\w+);stroke:#\w+\}\.t\d+\{fill:(#\w+)\}", colour_css())
    assert len(pairs) == 2 * N_SHADES  # light and dark
    assert min(contrast(shade, ink) for shade, ink in pairs) >= 4.5


def page_colours(mode):
    sheet = (Path(page.__file__).with_name("style.css")).read_text()
    blocks = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    light = dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[0]))
    return light if mode == 0 else light | dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[1]))


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_words_and_marks_stand_out_from_the_page(mode):
    colours = page_colours(mode)
    for words in ("ink", "soft", "ours"):
        assert contrast(colours[words], colours["paper"]) >= 4.5
    assert contrast(colours["warn"], colours["warn-paper"]) >= 4.5
    for pair in CLUSTER_COLOURS:
        assert contrast(pair[mode], colours["paper"]) >= 3


def test_levels_span_the_range():
    np.testing.assert_array_equal(
        shade_index(np.array([1.0, 2.0, 3.0]), 1.0, 3.0), [0, N_SHADES // 2, N_SHADES - 1]
    )
    np.testing.assert_array_equal(shade_index(np.array([5.0, 5.0]), 5.0, 5.0), [0, 0])
