"""What a page says about a pair of sites beside its distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwad.ot import Floats
from fedwad.report.page._subject import Subject

__all__ = ["VERDICTS", "Line", "reading_lines"]

#: Without and with a difference by more than chance; the script has the same words.
VERDICTS = ("no evidence of a difference", "different by more than chance")


@dataclass(frozen=True, eq=False)
class Line:
    """A distance of all pairs with its label, and its bounds if it has some."""

    label: str
    value: Floats
    bounds: tuple[Floats, Floats] | None = None

    def text(self, subject: Subject, i: int, j: int) -> str:
        """What it says about one pair."""
        said = f"{self.label} {subject.digits.text(float(self.value[i, j]))}"
        if self.bounds is None:
            return said
        low, high = (float(end[i, j]) for end in self.bounds)
        return f"{said}, {subject.sample_interval_name} {subject.digits.interval(low, high)}"


def reading_lines(subject: Subject) -> list[Line]:
    """The noise and the samples beside populations; then the paper's and the exact distances."""
    lines = []
    if subject.of_populations:
        if subject.matrix.noise is not None:
            noise = np.asarray(subject.matrix.noise, dtype=float)
            lines.append(Line("chance alone", noise))
        lines.append(Line("these samples", subject.sample, subject.sample_bounds))
    return lines + [Line(label, numbers) for label, numbers in subject.others()]
