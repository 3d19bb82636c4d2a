"""The readout of the heat map: the numbers of the chosen pair, and the scale of colours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedwad.ot import Floats
from fedwad.report.page._colour import N_SHADES
from fedwad.report.page._layout import Ints
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import escape, escape_name, tag

__all__ = ["Line", "readout", "readout_lines", "verdicts"]

# If there is no difference by more than chance, if there is, and if that is unknown; the script has
# the same words.
_VERDICTS = ("no evidence of a difference", "different by more than chance", "cannot be judged")


@dataclass(frozen=True, eq=False)
class Line:
    """A line of the readout: a distance of all pairs with its label, and its bounds if any."""

    label: str
    value: Floats
    bounds: tuple[Floats, Floats] | None = None

    def text(self, view: MatrixView, i: int, j: int) -> str:
        """The line for one pair."""
        text = f"{self.label} {view.digits.text(float(self.value[i, j]))}"
        if self.bounds is None:
            return text
        low, high = (float(end[i, j]) for end in self.bounds)
        return f"{text}, {view.sample_interval_name} {view.digits.interval(low, high)}"

    def data(self, view: MatrixView) -> dict[str, object]:
        """The line for all pairs, as numbers for the script."""
        digits, pairs = view.digits, view.pairs
        data: dict[str, object] = {
            "label": self.label,
            "value": digits.to_integers(self.value[pairs]),
        }
        if self.bounds is None:
            return data
        low, high = self.bounds
        return data | {
            "sure": view.sample_interval_name,
            "lower": digits.to_integers(low[pairs], "down"),
            "upper": digits.to_integers(high[pairs], "up"),
        }


def readout_lines(view: MatrixView) -> list[Line]:
    """The noise and the samples beside populations; then the paper's and the exact distances."""
    lines = []
    if view.shows_populations:
        if view.matrix.noise is not None:
            noise = np.asarray(view.matrix.noise, dtype=float)
            lines.append(Line("chance alone", noise))
        lines.append(Line("these samples", view.sample_value, view.sample_bounds))
    return lines + [Line(label, numbers) for label, numbers in view.other_distances().items()]


def verdicts(view: MatrixView) -> Ints:
    """For each pair 1 if it differs by more than chance, 0 if not, and 2 if that is unknown."""
    return np.where(view.can_be_judged, False if view.differs is None else view.differs, 2)


def readout(view: MatrixView) -> str:
    """The numbers of the farthest pair, until the script shows another."""
    i, j = view.farthest_pair
    digits, (low, high) = view.digits, view.bounds
    value, lower, upper = float(view.value[i, j]), float(low[i, j]), float(high[i, j])
    lines = [line.text(view, i, j) for line in readout_lines(view)]
    if view.differs is not None:
        lines.insert(0, _VERDICTS[int(verdicts(view)[i, j])])
    others = "".join(
        tag("span", ", ", class_="unseen") + tag("span", escape(line), class_="other")
        for line in lines
    )
    # The punctuation is for screen readers and copying; on screen, lines and sizes replace it.
    numbers = (
        tag(
            "span",
            escape_name(view.names[i]),
            " &ndash; ",
            escape_name(view.names[j]),
            class_="pair",
        )
        + tag("span", ": ", class_="unseen")
        + tag("b", escape(digits.text(value)), class_="number")
        + tag("span", ", ", class_="unseen")
        + tag("span", escape(f"{view.interval_name} {view.interval(i, j)}"), class_="interval")
    )
    return tag(
        "div",
        tag("p", "Farthest pair", class_="which", id="which"),
        tag(
            "p", numbers, others, class_="readout", id="readout", role="status", aria_live="polite"
        ),
        _colour_scale(view, value, lower, upper),
        tag("p", "Point at a cell, tap it, or move with the arrow keys.", class_="hint"),
        class_="reading",
    )


def _colour_scale(view: MatrixView, value: float, lower: float, upper: float) -> str:
    """The colour scale, with the interval of the chosen pair above it and a mark at the noise.

    It extends over `view.axis_range`.
    """
    low, high = view.axis_range
    width = (high - low) or 1.0

    def position(number: float) -> float:
        return 100 * min(max((number - low) / width, 0.0), 1.0) if math.isfinite(number) else 100.0

    nearest, farthest = view.colour_range
    start, stop = position(nearest), position(farthest)
    shades = "".join(
        tag("rect", x=k, y=0, width=1.02, height=1, class_=f"l{k}") for k in range(N_SHADES)
    )
    bar = tag(
        "svg", shades, viewBox=f"0 0 {N_SHADES} 1", preserveAspectRatio="none", aria_hidden="true"
    )
    digits = view.digits
    # Labels extend inwards from the ends of the scale; if it is short, outwards where there is
    # room.
    short = stop - start < 38
    ends = (
        (start, digits.text(nearest), "similar", "before" if short and start > 18 else "after"),
        (stop, digits.text(farthest), "far apart", "after" if short and stop < 82 else "before"),
    )
    labels = "".join(
        tag(
            "span", escape(text), " ", tag("i", word), class_=f"end {side}", style=f"left:{at:.2f}%"
        )
        for at, text, word, side in ends
    )
    return tag(
        "div",
        tag(
            "div",
            id="interval-bar",
            class_="interval-bar",
            style=f"left:{position(lower):.2f}%;right:{100 - position(upper):.2f}%",
        ),
        tag("div", id="spot", class_="spot", style=f"left:{position(value):.2f}%"),
        tag("div", bar, class_="bar", style=f"left:{start:.2f}%;right:{100 - stop:.2f}%"),
        _noise_mark(view, position),
        labels,
        class_="ruler" if view.noise is None else "ruler with-noise",
        role="img",
        aria_label=(
            f"Colours from {digits.text(nearest)}, similar, to {digits.text(farthest)}, far apart"
        ),
    )


def _noise_mark(view: MatrixView, position: Callable[[float], float]) -> str:
    """What chance alone gives, marked on the colour scale."""
    if view.noise is None:
        return ""
    at = position(view.noise)
    text = f"chance alone {view.digits.text(view.noise)}"
    side = "before" if at > 50 else "after"
    return tag("div", class_="noise", style=f"left:{at:.2f}%") + tag(
        "span", escape(text), class_=f"end noise-label {side}", style=f"left:{at:.2f}%"
    )
