"""Splits of one labelled sample, and what a server makes of the summaries of their classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._classes import ClassCovariance, LabelledSummary, labelled
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats
from fedwad.ot._split_cells import cells_of_parts
from fedwad.ot._splits import Drawing, Indices, Splits
from fedwad.ot._synthetic import LabelledSyntheticSample

__all__ = ["LabelledSplits"]


@dataclass(frozen=True, eq=False)
class LabelledSplits(Splits):
    """Splits of labelled rows. Each part has the class statistics of its own rows."""

    codes: NDArray[np.int64] | None = None
    class_covariance: ClassCovariance = "diag"

    def part(self, rows: Indices) -> LabelledMeasure:
        assert self.codes is not None  # noqa: S101
        return labelled(self.measure.part(rows), self.codes[rows], self.class_covariance)

    def synthetic(self, parts: Sequence[Indices]) -> Sequence[Drawing]:
        return [self._drawing(self.part(rows)) for rows in parts]

    def _drawing(self, part: LabelledMeasure) -> LabelledSyntheticSample:
        """Class by class, as many cells in all as without labels and at least one a class."""
        classes = len(part.table)
        drawings = []
        for code in range(classes):
            chosen = part.codes == code
            weights = part.weights[chosen]
            (cells,) = cells_of_parts(
                [part.features[chosen]],
                [weights / weights.sum()],
                max(1, self.cells // classes),
                self.min_cell_size,
                self.rng,
            )
            drawings.append(self.drawing(int(chosen.sum()), cells))
        masses = np.asarray(np.bincount(part.codes, part.weights, classes), dtype=np.float64)
        summary = LabelledSummary(
            masses, tuple(one.summary for one in drawings), self.class_covariance
        )
        return LabelledSyntheticSample(summary, tuple(drawings), part.table)

    def cell_means(self, drawing: Drawing) -> Floats:
        assert isinstance(drawing, LabelledSyntheticSample)  # noqa: S101
        return np.concatenate([part.means for part in drawing.summary.parts])
